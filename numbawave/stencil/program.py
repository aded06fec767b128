"""A traced equation: stages in order, each a set of simultaneous assignments, with the checks that make it safe."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from numbawave.errors import EquationError
from numbawave.stencil.form import (
    ZERO,
    Derivative,
    Factor,
    Field,
    Form,
    Parameter,
    Profile,
    Read,
    Scaled,
    Source,
    children,
    is_zero,
    show,
    walk,
)
from numbawave.stencil.parts import part, slabs
from numbawave.stencil.reach import corner, reach, support


@dataclass(frozen=True)
class Assignment:
    """``field`` one step later is ``form``."""

    field: Field
    form: Form

    def part(self, axis: str | None) -> Form:
        """The form's part in the pass over an axis's slabs, or in the plain pass for None."""
        if self.field.slab is not None:
            return self.form if axis == self.field.slab else ZERO
        return part(self.form, axis)


@dataclass(frozen=True)
class Image:
    """A product that the adjoint adds up: ``gradient of parameter += adjoint * kept``, point by point.

    ``kept`` is a form of the forward run, what history must hold; ``adjoint`` one of the adjoint run. The sum over the
    run is finally divided by ``divisor`` where the adjoint is a scaled one.
    """

    parameter: Parameter
    kept: Form
    adjoint: Form
    divisor: Parameter | None = None


@dataclass(frozen=True)
class Stage:
    """Assignments that all read the values from before the stage.

    ``images`` are the products that an adjoint stage adds to gradients, ``taps`` the forms that it reads at the cells of
    a source to give the gradient of that source's amplitude; both are empty in a forward stage.
    """

    assignments: tuple[Assignment, ...]
    images: tuple[Image, ...] = ()
    taps: tuple[tuple[Source, Form], ...] = ()

    def assigned(self, field: Field) -> Form | None:
        """The form assigned to a field, or None."""
        return next((a.form for a in self.assignments if a.field == field), None)

    @property
    def forms(self) -> tuple[Form, ...]:
        """Every form that the stage evaluates on the grid."""
        return (*(a.form for a in self.assignments), *(image.adjoint for image in self.images))

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        """Every field that the stage reads or writes, in order of appearance."""
        reads = (f.field for form in self.forms for f in walk(form) if isinstance(f, Read))
        return tuple(dict.fromkeys([*(a.field for a in self.assignments), *reads]))

    @cached_property
    def slabs(self) -> frozenset[str]:
        """The axes whose slabs need a pass of their own."""
        return frozenset().union(*(slabs(form) for form in self.forms))

    def depth(self, axis: str) -> int:
        """How far the pass over an axis's slabs must go beyond their width, in half stencil widths."""
        return max((support(a.part(axis)) for a in self.assignments if not is_zero(a.part(axis))), default=0)

    def injections(self) -> Iterator[tuple[Field, Source, Form]]:
        """Each field into which a source goes, with the form in which it stands."""
        for assignment in self.assignments:
            for source in dict.fromkeys(f for f in walk(assignment.form) if isinstance(f, Source)):
                yield assignment.field, source, assignment.form

    @cached_property
    def rotating(self) -> frozenset[str]:
        """Names of the fields whose new value needs an array of its own, as the old one is read when it is written.

        A field of two levels is written over its oldest level. Any other is written in place, unless a form reads it at
        a neighbour or in a later pass than the one that writes it first.
        """
        return frozenset(a.field.name for a in self.assignments if a.field.levels == 2 or self._read_late(a.field))

    def _read_late(self, field: Field) -> bool:
        late = self.slabs - {field.slab}
        return any(
            reach(form, field) > 0 or any(reach(part(form, axis), field) >= 0 for axis in late) for form in self.forms
        )

    def buffered(self, field: Field) -> bool:
        """Whether a field is among those that rotate."""
        return field.name in self.rotating


def coefficients(form: Form, leaf: Form) -> Iterator[tuple[float, tuple[Factor, ...]]]:
    """Each coefficient, a number and factors, with which a leaf stands at the point in a form."""
    if form == leaf:
        yield 1.0, ()
    number, factors = (form.number, form.factors) if isinstance(form, Scaled) else (1.0, ())
    for child in children(form):
        for inner, more in coefficients(child, leaf):
            yield number * inner, (*factors, *more)


@dataclass(frozen=True)
class Program:
    """One time step of an equation.

    Attributes
    ----------
    name : str
    axes : tuple of str
        Slowest first.
    stages : tuple of Stage
    records : tuple of Field
        The fields that receivers may record, before the step.
    """

    name: str
    axes: tuple[str, ...]
    stages: tuple[Stage, ...]
    records: tuple[Field, ...] = ()

    def __post_init__(self) -> None:
        for stage in self.stages:
            check(stage)

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        """Every field of the program, in order of appearance."""
        return tuple(dict.fromkeys(f for stage in self.stages for f in stage.fields))

    @cached_property
    def arrays(self) -> dict[str, Field]:
        """Names of the arrays that hold its fields, the second buffers of rotating ones included, and whose they are."""
        found = {}
        for stage in self.stages:
            for field in stage.fields:
                found[field.name] = field
                if stage.buffered(field):
                    found[f"{field.name}_next"] = field
        return found

    @cached_property
    def _factors(self) -> tuple[Parameter | Profile, ...]:
        forms = [f for stage in self.stages for form in (*stage.forms, *(t for _, t in stage.taps)) for f in walk(form)]
        return tuple(dict.fromkeys(x for f in forms if isinstance(f, Scaled) for x in f.factors))

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """Every parameter grid, in order of appearance."""
        return tuple(x for x in self._factors if isinstance(x, Parameter))

    @cached_property
    def profiles(self) -> tuple[Profile, ...]:
        """Every one-dimensional profile, in order of appearance."""
        return tuple(x for x in self._factors if isinstance(x, Profile))

    @cached_property
    def sources(self) -> tuple[Source, ...]:
        """Every source, in order of appearance."""
        return tuple(dict.fromkeys(source for stage in self.stages for _, source, _ in stage.injections()))

    @cached_property
    def slabs(self) -> frozenset[str]:
        """The axes whose slabs need a pass of their own in any stage."""
        return frozenset().union(*(stage.slabs for stage in self.stages))

    @cached_property
    def reach(self) -> int:
        """The farthest neighbour that any form reads, in half stencil widths: the halo that the grid needs."""
        return max((reach(form) for stage in self.stages for form in stage.forms), default=0)

    @cached_property
    def corner(self) -> int:
        """The most axes along which any form reads one neighbour."""
        taps = (form for stage in self.stages for _, form in stage.taps)
        return max(map(corner, (*taps, *(form for stage in self.stages for form in stage.forms))), default=0)

    def depth(self, axis: str) -> int:
        """The largest depth of any stage's slab pass along an axis, in half stencil widths beyond the slab's width."""
        return max((stage.depth(axis) for stage in self.stages), default=0)


def check(stage: Stage) -> None:
    """Refuse a stage that no backend could run as it is written.

    Raises
    ------
    EquationError
        If a field is assigned twice, a form sits elsewhere than its field, a memory variable leaves its slab or is
        shifted across it, a source is differentiated, or an older level is read other than in place.
    """
    written = [a.field for a in stage.assignments]
    for field in written:
        if written.count(field) > 1:
            raise EquationError(field.name, "assigned twice", "a stage assigns each field once", "join the two updates")
    for field, form in ((a.field, a.form) for a in stage.assignments):
        if not is_zero(form) and form.at != field.at:
            raise EquationError(
                field.name, show(form), "an update sits where its field does", "use a half-point derivative"
            )
        if field.slab is not None and support(form) > 0:
            raise EquationError(field.name, show(form), f"a memory variable lives in the slabs of {field.slab} alone",
                                "multiply each of its terms by one of the boundary's profiles")  # fmt: skip
        _check_leaves(field, form, (), 1)


def _check_leaves(field: Field, form: Form, shifted: tuple[str, ...], constant: int) -> None:
    if isinstance(form, Derivative):
        shifted = (*shifted, form.axis)
    if isinstance(form, Scaled) and form.factors:
        constant = 0
    if isinstance(form, Source) and shifted:
        raise EquationError(form.name, show(form), "a source acts at its own cell", "take it out of the derivative")
    if isinstance(form, Read):
        if form.level and (shifted or not constant or form.field != field):
            raise EquationError(f"{form.field.name}.previous", show(form),
                                "the older level is read by its own field, in place and with a constant coefficient",
                                "write the equation as a first-order pair")  # fmt: skip
        if form.field.slab is not None and set(shifted) - {form.field.slab}:
            raise EquationError(form.field.name, show(form), "a memory variable is differentiated along its own axis only",
                                "absorb along the other axis by a variable of its own")  # fmt: skip
    for child in children(form):
        _check_leaves(field, child, shifted, constant)
