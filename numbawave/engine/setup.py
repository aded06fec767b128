"""What is derived once for an equation, a dimension, an accuracy and the axes that absorb."""

from dataclasses import dataclass
from functools import cached_property, lru_cache

from numbawave.backends.base import Direction
from numbawave.boundary.cpml import Cpml
from numbawave.equations import Equation
from numbawave.grid.axes import axis_names
from numbawave.grid.domain import Domain, domain
from numbawave.stencil.form import Field, Form, Read
from numbawave.stencil.program import Program, coefficients
from numbawave.stencil.reach import reach
from numbawave.stencil.reverse import reverse
from numbawave.stencil.solution import Solution, solutions
from numbawave.stencil.trace import trace
from numbawave.stencil.transpose import Adjoint, transpose


@dataclass(frozen=True, eq=False)
class Setup:
    """A forward program, its adjoint, and the grid that both need.

    Attributes
    ----------
    forward : Program
    adjoint : Adjoint
    accuracy : int
    """

    forward: Program
    adjoint: Adjoint
    accuracy: int

    @cached_property
    def kept(self) -> tuple[tuple[Form, ...], ...]:
        """For each forward stage, what history keeps."""
        return tuple(self.adjoint.kept(k) for k in range(len(self.forward.stages)))

    def program(self, direction: Direction) -> Program:
        """What runs in a direction."""
        if direction == "adjoint":
            return self.adjoint.program
        return self.forward if direction == "forward" else self.reverse

    @cached_property
    def reverse(self) -> Program:
        """The forward program run backwards; only where nothing absorbs."""
        return reverse(self.forward)

    @cached_property
    def rings(self) -> tuple[tuple[int, Field], ...]:
        """The fields that each forward stage reads at neighbours, which a box needs around it: stage and field."""
        pairs = ((k, f) for k, stage in enumerate(self.forward.stages) for f in stage.fields if f.slab is None)
        return tuple((k, f) for k, f in pairs if any(reach(form, f) > 0 for form in self.forward.stages[k].forms))

    @cached_property
    def solutions(self) -> tuple[Solution, ...]:
        """How the fields before and after a step say what history keeps of it, where they do."""
        return solutions(self.forward, self.adjoint)

    @cached_property
    def state_names(self) -> list[tuple[str, Field, str]]:
        """The state between two steps: public name, field, and the array that holds it."""
        found = []
        for field in self.forward.fields:
            found.append((field.name, field, field.name))
            if field.levels == 2:
                found.append((f"{field.name}_previous", field, f"{field.name}_next"))
        return found

    @cached_property
    def channels(self) -> int:
        """Forms that history keeps of a step."""
        return sum(len(forms) for forms in self.kept)

    @cached_property
    def halo(self) -> int:
        """Cells around the computed ones that derivatives read, forward or adjoint."""
        return self.accuracy // 2 * max(self.forward.reach, self.adjoint.program.reach)

    @cached_property
    def _depths(self) -> dict[tuple[str, str], int]:
        programs = (self.forward, self.adjoint.program)
        half = {profile.axis for program in programs for profile in program.profiles if profile.half}
        return {(p.name, axis): self.accuracy // 2 * p.depth(axis) + (axis in half) for p in programs for axis in p.axes}

    def depth(self, program: Program, axis: str) -> int:
        """Cells beyond the layers' widths that a program's slab passes cover."""
        return self._depths[program.name, axis]

    def storage_depth(self, axis: str) -> int:
        """Cells beyond the layers' widths that memory variables keep, forward and adjoint alike."""
        return max(self._depths[self.forward.name, axis], self._depths[self.adjoint.program.name, axis])

    def domain(
        self, shape: tuple[int, ...], widths: tuple[tuple[int, int], ...], spacing: tuple[float, ...], align: int = 1
    ) -> Domain:
        """The padded grid of a model, its rows aligned to a number of elements."""
        return domain(
            shape, widths, spacing, self.halo, self.forward.axes, self.storage_depth(self.forward.axes[-1]), align
        )

    def field_shape(self, grid: Domain, field: Field) -> tuple[int, ...]:
        """Shape of one shot's array for a field."""
        return grid.slab_shape(field.slab, self.storage_depth(field.slab)) if field.slab else grid.shape

    def older(self, field: Field) -> float:
        """The constant with which a field's update reads its older level."""
        forms = (stage.assigned(field) for stage in self.forward.stages)
        return sum(number for form in forms if form for number, _ in coefficients(form, Read(field, -1)))


def derive(forward: Program, accuracy: int) -> Setup:
    """The setup of any program.

    Parameters
    ----------
    forward : Program
    accuracy : int

    Returns
    -------
    Setup
    """
    return Setup(forward, transpose(forward), accuracy)


@lru_cache(maxsize=128)
def setup(equation: Equation, ndim: int, accuracy: int, absorbing: frozenset[str]) -> Setup:
    """The setup of an equation with layers along some axes.

    Parameters
    ----------
    equation : Equation
    ndim : int
    accuracy : int
    absorbing : frozenset of str

    Returns
    -------
    Setup
    """
    axes = axis_names(ndim)
    boundaries = {axis: Cpml() for axis in axes if axis in absorbing}
    return derive(trace(equation.name, equation.update, axes, boundaries), accuracy)
