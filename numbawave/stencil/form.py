"""Linear forms: what an update rule is made of once it is traced.

A form is linear in fields and sources by construction: it is built from reads by sums, products with coefficients and
derivatives, and there is no product of two forms. Every form knows its place on the cell, so that a mixture of a node
value with a face value is found when the equation is traced, not when its results look wrong.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from numbawave.errors import EquationError

Place = frozenset[str]
"""The axes along which a value sits half a cell further on; empty for a node."""

NODE: Place = frozenset()


@dataclass(frozen=True)
class Parameter:
    """A grid that multiplies a form, point by point; the gradient is with respect to such grids."""

    name: str
    at: Place = NODE


@dataclass(frozen=True)
class Profile:
    """A one-dimensional coefficient along an axis, zero outside the absorbing slabs at its two ends.

    ``reach`` counts the half stencil widths by which it is non-zero beyond the slab's nominal width; ``half`` says that it
    is sampled half a cell further on, and so has one cell more at the high face.
    """

    name: str
    axis: str
    reach: int = 0
    half: bool = False


Factor = Parameter | Profile


class Form:
    """Base of all forms, with the arithmetic that keeps them linear."""

    at: Place

    def __add__(self, other: Form) -> Form:
        return add(self, other)

    def __sub__(self, other: Form) -> Form:
        return add(self, -other)

    def __neg__(self) -> Form:
        return scale(self, -1.0)

    def __mul__(self, other: float | Factor) -> Form:
        if isinstance(other, Form):
            raise EquationError("product", f"{self} * {other}", "an update is linear in its fields",
                                "write the equation so that each term holds one field")  # fmt: skip
        return scale(self, 1.0, other) if isinstance(other, Parameter | Profile) else scale(self, float(other))

    __rmul__ = __mul__


@dataclass(frozen=True)
class Field:
    """A wavefield or a memory variable.

    Attributes
    ----------
    name : str
    at : Place
        Where on the cell it lives.
    levels : int
        2 if an update reads the value one step earlier as well (``u.previous``), else 1.
    slab : str or None
        The axis in whose absorbing slabs alone it lives; None for the whole grid.
    """

    name: str
    at: Place = NODE
    levels: int = 1
    slab: str | None = None


@dataclass(frozen=True)
class Read(Form):
    """A field's value at the point; ``level`` -1 is one step earlier."""

    field: Field
    level: Literal[0, -1] = 0

    @property
    def at(self) -> Place:  # type: ignore[override]
        """Where the field lives."""
        return self.field.at

    @property
    def previous(self) -> Read:
        """The value one step earlier."""
        if self.field.levels != 2 or self.level:
            raise EquationError(self.field.name, "previous", "only a field of two levels has a previous value",
                                "declare the field with levels=2")  # fmt: skip
        return Read(self.field, -1)


@dataclass(frozen=True)
class Source(Form):
    """What a source injects at its own cell in this step; zero elsewhere."""

    name: str
    at: Place = NODE


@dataclass(frozen=True)
class Sum(Form):
    """The sum of several forms at one place."""

    terms: tuple[Form, ...]
    at: Place = NODE


@dataclass(frozen=True)
class Scaled(Form):
    """``number * product(factors) * form``."""

    number: float
    factors: tuple[Factor, ...]
    form: Form

    @property
    def at(self) -> Place:  # type: ignore[override]
        """Where the form sits."""
        return self.form.at


@dataclass(frozen=True)
class Derivative(Form):
    """A finite-difference derivative along an axis.

    ``order`` is 1 or 2. ``kind`` is "centred", or for order 1 also "forward" (from a node to the half point after it)
    or "backward" (from a half point to the node after it, a node's neighbours being the half points on both sides).
    """

    axis: str
    order: int
    kind: Literal["centred", "forward", "backward"]
    form: Form

    @property
    def at(self) -> Place:  # type: ignore[override]
        """Where the derivative sits."""
        return self.form.at if self.kind == "centred" else self.form.at ^ {self.axis}


@dataclass(frozen=True)
class Named(Form):
    """A form with a name, computed once and used by that name in printed kernels."""

    name: str
    form: Form

    @property
    def at(self) -> Place:  # type: ignore[override]
        """Where the form sits."""
        return self.form.at


ZERO = Sum(())


def is_zero(form: Form) -> bool:
    """Whether this is the empty sum."""
    return isinstance(form, Sum) and not form.terms


def add(*forms: Form) -> Form:
    """Sum of forms at one place; zeros vanish, nested sums are flattened.

    Raises
    ------
    EquationError
        If the forms sit at different places on the cell.
    """
    terms: list[Form] = []
    for form in forms:
        terms.extend(form.terms if isinstance(form, Sum) else (form,))
    if not terms:
        return ZERO
    for term in terms[1:]:
        if term.at != terms[0].at:
            raise EquationError("sum", f"{show(terms[0])} + {show(term)}",
                                f"its terms sit at different places on the cell ({_where(terms[0])} and {_where(term)})",
                                "shift one with a half-point derivative or declare the field where it lives")  # fmt: skip
    return terms[0] if len(terms) == 1 else Sum(tuple(terms), terms[0].at)


def scale(form: Form, number: float, *factors: Factor) -> Form:
    """``number * factors * form``; nested products are joined.

    Raises
    ------
    EquationError
        If a parameter sits at another place than the form.
    """
    for factor in factors:
        if isinstance(factor, Parameter) and not is_zero(form) and factor.at != form.at:
            raise EquationError("product", f"{factor.name} * {show(form)}",
                                f"the parameter sits at {_place(factor.at)}, the form at {_where(form)}",
                                "average the parameter to the form's place first")  # fmt: skip
    if is_zero(form) or number == 0.0:
        return ZERO
    if isinstance(form, Scaled):
        return scale(form.form, number * form.number, *factors, *form.factors)
    if not factors and number == 1.0:
        return form
    return Scaled(number, tuple(factors), form)


def derivative(axis: str, order: int, kind: Literal["centred", "forward", "backward"], form: Form) -> Form:
    """Derivative of a form along an axis; the derivative of zero is zero.

    Raises
    ------
    EquationError
        If a half-point derivative starts from the wrong place.
    """
    if is_zero(form):
        return ZERO
    if kind != "centred" and (axis in form.at) != (kind == "backward"):
        raise EquationError("derivative", f"{kind} along {axis} of {show(form)}",
                            "a forward derivative starts at a node, a backward one at a half point of its axis",
                            "use the other direction")  # fmt: skip
    return Derivative(axis, order, kind, form)


def named(name: str, form: Form) -> Form:
    """The form under a name; a lone read needs none."""
    return form if is_zero(form) or isinstance(form, Read) else Named(name, form)


def children(form: Form) -> tuple[Form, ...]:
    """The forms directly inside a form."""
    if isinstance(form, Sum):
        return form.terms
    if isinstance(form, Scaled | Derivative | Named):
        return (form.form,)
    return ()


def walk(form: Form) -> Iterator[Form]:
    """Every form inside a form, itself first."""
    yield form
    for child in children(form):
        yield from walk(child)


def show(form: Form) -> str:
    """A form as a line of mathematics, for comments and errors."""
    if isinstance(form, Read):
        return form.field.name + ("" if form.level == 0 else ".previous")
    if isinstance(form, Source):
        return form.name
    if isinstance(form, Named):
        return form.name
    if isinstance(form, Derivative):
        mark = {"centred": "", "forward": "+", "backward": "-"}[form.kind]
        return f"d{form.axis * form.order}{mark}({show(form.form)})"
    if isinstance(form, Scaled):
        numbers = [] if abs(form.number) == 1.0 else [f"{abs(form.number):g}"]
        inner = show(form.form)
        inner = f"({inner})" if isinstance(form.form, Sum) else inner
        return ("-" if form.number < 0 else "") + " ".join([*numbers, *(f.name for f in form.factors), inner])
    terms = " + ".join(show(term) for term in children(form)) or "0"
    return terms.replace("+ -", "- ")


def _where(form: Form) -> str:
    return _place(form.at)


def _place(at: Place) -> str:
    return "the node" if not at else "half a cell along " + " and ".join(sorted(at))
