"""The order of a step forward, or of one undone: the same for every printed module."""

from collections.abc import Sequence
from typing import Protocol

from numbawave.codegen import points
from numbawave.codegen.expression import Names
from numbawave.codegen.layout import History
from numbawave.codegen.points import Rings, Solved
from numbawave.stencil.form import Form
from numbawave.stencil.program import Program, Stage


class Page(Protocol):
    """A module in the making."""

    names: Names

    def points(self, task: points.Task) -> None:
        """Do a task at points."""

    def sweep(self, name: str, stage: Stage, kept: Sequence[Form], channel: int, way: str) -> None:
        """Run a stage over the grid; ``way`` is "keep" or "image", where history is kept."""

    def rotate(self, stage: Stage) -> None:
        """Exchange the buffers of a stage's fields."""


def steps_ahead(
    page: Page,
    program: Program,
    kept: Sequence[tuple[Form, ...]],
    history: History,
    rings: Rings,
    solved: Solved,
    direction: str,
) -> None:
    """Put a step on a page: what is recorded; each stage, with what is around the core before it and its sources after it.

    Parameters
    ----------
    page : Page
    program : Program
    kept : sequence of tuple of Form
        For each forward stage the forms that history keeps.
    history : History
    rings : sequence of (int, Field)
        Forward stages, and fields that each of them reads at neighbours.
    solved : sequence of Solution
        What undoing a step can find by the fields around the core; ``history`` says whether it does.
    direction : {"forward", "reverse"}
    """
    solved = solved if "solved" in history else ()
    for field in program.records:
        page.points(points.record(field))
    for position, stage in enumerate(program.stages):
        place = position if direction == "forward" else len(kept) - 1 - position
        for task in points.around(rings, place, direction, history):
            page.points(task)
        for task in points.framed(rings, solved, place) if direction == "forward" else ():
            page.points(task)
        page.sweep(f"{direction}_{place}", stage, kept[place], sum(len(forms) for forms in kept[:place]), "keep")
        page.rotate(stage)
        for task in points.injections(page.names, stage):
            page.points(task)
        for task in points.solving(page.names, rings, solved, place) if direction == "reverse" else ():
            page.points(task)
    for task in points.edge(rings, direction, history) if not solved else ():
        page.points(task)
