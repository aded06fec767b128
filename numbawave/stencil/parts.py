"""Which part of a form lives where: the part on the whole grid, and the part in each axis's absorbing slabs.

A profile is zero outside the slabs of its axis, and so is a memory variable. A form is therefore a sum of a plain part,
which holds everywhere and knows nothing of absorption, and one further part an axis, which matters in that axis's slabs
alone. A backend runs the first over every row and adds the others where they are not zero: edges and corners, where
slabs cross, need no case of their own.
"""

from functools import lru_cache

from numbawave.errors import EquationError
from numbawave.stencil.form import (
    ZERO,
    Derivative,
    Form,
    Named,
    Profile,
    Read,
    Scaled,
    Source,
    Sum,
    add,
    derivative,
    named,
    scale,
    walk,
)


def profile_axis(form: Scaled) -> str | None:
    """The axis of a product's profiles, None without one."""
    axes = {f.axis for f in form.factors if isinstance(f, Profile)}
    if len(axes) > 1:
        raise EquationError("profile", str(sorted(axes)), "a product may hold profiles of one axis only",
                            "absorb along each axis by a term of its own")  # fmt: skip
    return next(iter(axes), None)


@lru_cache(maxsize=4096)
def part(form: Form, axis: str | None) -> Form:
    """The part of a form in the slabs of an axis, or its plain part for None."""
    if isinstance(form, Read):
        return form if form.field.slab == axis else ZERO
    if isinstance(form, Source):
        return form if axis is None else ZERO
    if isinstance(form, Sum):
        return add(*(part(term, axis) for term in form.terms))
    if isinstance(form, Named):
        return named(form.name, part(form.form, axis))
    if isinstance(form, Derivative):
        return derivative(form.axis, form.order, form.kind, part(form.form, axis))
    assert isinstance(form, Scaled)
    owner = profile_axis(form)
    if owner is None:
        return scale(part(form.form, axis), form.number, *form.factors)
    if slabs(form.form) - {owner}:
        raise EquationError("profile", owner, "a form that lives in the slabs of one axis may not be scaled by another's",
                            "absorb along each axis by a term of its own")  # fmt: skip
    return form if owner == axis else ZERO


@lru_cache(maxsize=4096)
def slabs(form: Form) -> frozenset[str]:
    """The axes in whose slabs a form has a part."""
    found = {f.field.slab for f in walk(form) if isinstance(f, Read)}
    found |= {profile_axis(f) for f in walk(form) if isinstance(f, Scaled)}
    return frozenset(axis for axis in found if axis is not None)
