"""How far forms read and how far they extend, counted in half stencil widths (accuracy / 2 cells each)."""

from functools import lru_cache

from numbawave.stencil.form import Derivative, Field, Form, Profile, Read, Scaled, Source, children

EVERYWHERE = 1_000_000
"""The support of a form that is not confined to slabs."""


@lru_cache(maxsize=4096)
def reach(form: Form, field: Field | None = None) -> int:
    """The farthest neighbour at which a form reads a field (any field for None): 0 at the point, -1 not at all."""
    if isinstance(form, Read):
        return 0 if field in (None, form.field) else -1
    if isinstance(form, Source):
        return 0 if field is None else -1
    inner = max((reach(child, field) for child in children(form)), default=-1)
    return inner + 1 if isinstance(form, Derivative) and inner >= 0 else inner


@lru_cache(maxsize=4096)
def corner(form: Form, axes: frozenset[str] = frozenset()) -> int:
    """The most axes along which a form reads one neighbour: 1 where all lie in rows through the point."""
    along = axes | {form.axis} if isinstance(form, Derivative) else axes
    return max((corner(child, along) for child in children(form)), default=len(axes))


@lru_cache(maxsize=4096)
def support(form: Form) -> int:
    """How far beyond the width of an axis's slabs a form can be other than zero."""
    if isinstance(form, Read):
        return 0 if form.field.slab else EVERYWHERE
    if isinstance(form, Source):
        return EVERYWHERE
    inner = max((support(child) for child in children(form)), default=0)
    if isinstance(form, Scaled):
        return min([inner, *(f.reach for f in form.factors if isinstance(f, Profile))])
    return min(inner + 1, EVERYWHERE) if isinstance(form, Derivative) else inner
