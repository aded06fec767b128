"""Tracing: an equation's update runs once with symbols for fields, and what it did is written down as a Program."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from numbawave.errors import EquationError
from numbawave.stencil.form import (
    NODE,
    Field,
    Form,
    Parameter,
    Place,
    Profile,
    Read,
    Source,
    add,
    derivative,
    named,
)
from numbawave.stencil.program import Assignment, Program, Stage


class Boundary(Protocol):
    """What a boundary does to a derivative: it returns a replacement, and may keep memory variables of its own."""

    def first(self, trace: Trace, axis: str, slope: Form) -> Form:
        """A first derivative inside this boundary, from the plain one."""

    def second(self, trace: Trace, axis: str, form: Form) -> Form:
        """The second derivative of a form along an axis inside this boundary."""


class Trace:
    """What an equation's update writes on.

    Parameters
    ----------
    name : str
    axes : tuple of str
        The grid's axes, slowest first.
    boundaries : mapping of str to Boundary
        The axes that absorb; the others have plain derivatives.
    """

    def __init__(self, name: str, axes: tuple[str, ...], boundaries: Mapping[str, Boundary] | None = None) -> None:
        self.name, self.axes, self.boundaries = name, axes, dict(boundaries or {})
        self._memory: list[Assignment] = []
        self._stages: list[Stage] = []
        self._records: list[Field] = []
        self._names: set[str] = set()

    def field(self, name: str, at: Place = NODE, levels: int = 1, recorded: bool = False) -> Read:
        """Declare a wavefield; receivers may record it where ``recorded``."""
        field = Field(self._new(name), at, levels)
        if recorded:
            self._records.append(field)
        return Read(field)

    def parameter(self, name: str, at: Place = NODE) -> Parameter:
        """Declare a parameter grid."""
        return Parameter(self._new(name), at)

    def source(self, name: str, at: Place = NODE) -> Source:
        """Declare a source term."""
        return Source(self._new(name), at)

    def memory(self, name: str, axis: str, at: Place = NODE) -> Read:
        """Declare a memory variable that lives in the slabs of one axis; a taken name gets a number."""
        numbered = (f"{name}_{number}" for number in range(2, len(self._names) + 3))
        fresh = next(candidate for candidate in (name, *numbered) if candidate not in self._names)
        return Read(Field(self._new(fresh), at, slab=axis))

    def profile(self, name: str, axis: str, reach: int = 0, half: bool = False) -> Profile:
        """Declare a one-dimensional profile; see ``Profile``."""
        return Profile(name, axis, reach, half)

    def first(self, axis: str, form: Form) -> Form:
        """First derivative to the half point: forward from a node, backward from a half point of the axis."""
        slope = derivative(axis, 1, "backward" if axis in form.at else "forward", form)
        return self.boundaries[axis].first(self, axis, slope) if axis in self.boundaries else slope

    def second(self, axis: str, form: Form) -> Form:
        """Second derivative at the same place."""
        if axis in self.boundaries:
            return self.boundaries[axis].second(self, axis, form)
        return derivative(axis, 2, "centred", form)

    def laplacian(self, form: Form) -> Form:
        """Sum of the second derivatives along every axis."""
        return add(*(self.second(axis, form) for axis in self.axes))

    @staticmethod
    def named(name: str, form: Form) -> Form:
        """Give an intermediate value a name: it is computed once, forward and adjoint."""
        return named(name, form)

    def remember(self, memory: Read, form: Form) -> None:
        """A memory variable's own update; it joins the stage of the field that is advanced next."""
        self._memory.append(Assignment(memory.field, form))

    def advance(self, updates: Mapping[Read, Form]) -> None:
        """End a stage: these fields, together, become these forms."""
        assignments = [Assignment(read.field, form) for read, form in updates.items()]
        self._stages.append(Stage((*assignments, *self._memory)))
        self._memory = []

    def program(self) -> Program:
        """What was traced."""
        return Program(self.name, self.axes, tuple(self._stages), tuple(self._records))

    def _new(self, name: str) -> str:
        if name in self._names or not name.isidentifier():
            raise EquationError("name", name, "each field, parameter and source has an identifier of its own", "rename it")
        self._names.add(name)
        return name


def trace(
    name: str,
    update: Callable[[Trace], None],
    axes: tuple[str, ...],
    boundaries: Mapping[str, Boundary] | None = None,
) -> Program:
    """Run an equation's update once and return its Program."""
    page = Trace(name, axes, boundaries)
    update(page)
    return page.program()
