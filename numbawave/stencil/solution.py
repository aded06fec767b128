"""A Program's steps solved for what history keeps: a field that is known before and after a step says it, too."""

from __future__ import annotations

from dataclasses import dataclass

from numbawave.stencil.form import Field, Form, Parameter
from numbawave.stencil.program import Program
from numbawave.stencil.transpose import Adjoint, split


@dataclass(frozen=True)
class Solution:
    """``field one step later = number * parameter * kept + rest``.

    Two programs with equal solutions differ in ``kept`` alone. A step of the one gives that of the other, once it is
    known by how much their results differ: the quotient of this by ``number * parameter``.

    Attributes
    ----------
    stage : int
    field : Field
    channel : int
        Number of ``kept`` among all forms that history keeps.
    number : float
    parameter : Parameter
    rest : tuple of Form
        The field itself, at this step or at the one before, times numbers.
    """

    stage: int
    field: Field
    channel: int
    number: float
    parameter: Parameter
    rest: tuple[Form, ...]

    @property
    def older(self) -> str:
        """Name of the array that has, before the stage, what undoing it must give back."""
        return f"{self.field.name}_next" if self.field.levels == 2 else self.field.name

    @property
    def undone(self) -> float:
        """The number by which ``parameter * kept`` changes what undoing the stage gives; see ``reverse``."""
        return self.number if self.field.levels == 2 else -self.number


def solutions(program: Program, adjoint: Adjoint) -> tuple[Solution, ...]:
    """Solve a forward program for all that history keeps of it.

    Parameters
    ----------
    program : Program
    adjoint : Adjoint
        Its adjoint, which says what history keeps.

    Returns
    -------
    tuple of Solution
        One for each field that is not a layer's memory; none at all unless there is one for each, and for each kept form.
    """
    found, channels = [], 0
    for place, stage in enumerate(program.stages):
        kept = adjoint.kept(place)
        for field, form in ((a.field, a.form) for a in stage.assignments if a.field.slab is None):
            parts = split(field, form) if field.name in adjoint.scales else None
            if parts is None or parts[0].form not in kept:
                return ()
            product, rest = parts
            channel = channels + kept.index(product.form)
            found.append(Solution(place, field, channel, product.number, adjoint.scales[field.name], tuple(rest)))
        channels += len(kept)
    return tuple(found) if sorted(each.channel for each in found) == list(range(channels)) else ()
