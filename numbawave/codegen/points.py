"""What a step does at single cells: record, inject, tap, and image what was injected; the same lines for every shell."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from numbawave.codegen.expression import Body, Names
from numbawave.stencil.form import Field, Form, Parameter, Source, walk
from numbawave.stencil.program import Stage, coefficients
from numbawave.stencil.solution import Solution

Rings = Sequence[tuple[int, Field]]
Solved = Sequence[Solution]


@dataclass(frozen=True)
class Task:
    """Lines for each of some cells.

    Attributes
    ----------
    cells : str
        The array of the cells' flat indices.
    lines : tuple of str
        ``i`` and ``m`` are a cell's index in fields and in parameter grids, ``at + q`` the sample of this step.
    ring : int, optional
        Number of the array that it has in a ring, whose samples take turns; its cells are all different.
    channel : int
        Number of the channel of history that ``slot`` is the start of.
    """

    cells: str
    lines: tuple[str, ...]
    ring: int | None = None
    channel: int = 0

    @property
    def on_model(self) -> bool:
        """Whether a parameter grid is used."""
        return any("[m]" in line for line in self.lines)

    @property
    def arrays(self) -> list[str]:
        """Every array that is used, the cells first."""
        model = [f"model_{self.cells}"] if self.on_model else []
        return list(dict.fromkeys([self.cells, *model, *re.findall(r"(\w+)\[", "\n".join(self.lines))]))

    @property
    def at(self) -> str:
        """The first sample of this step."""
        if self.ring is not None:
            return f"index(step % rings) * ring_size + ring_start_{self.ring}"
        return f"index(step) * index({self.cells}.size)"

    @property
    def slot(self) -> str:
        """Where this step's slot of history begins, if that is used."""
        used = any(re.search(r"\bslot\b", line) for line in self.lines)
        channel = f" + n{self.channel} * channel_size" if self.channel else ""
        return f"index(step // stride % slots) * slot_size{channel}" if used else ""

    @property
    def integers(self) -> list[str]:
        """Names of the integers in these two."""
        names = r"\b(?:ring_size|ring_start_\d+|rings|stride|slots|slot_size|channel_size)\b"
        return sorted(set(re.findall(names, f"{self.at} {self.slot}")))

    @property
    def changes(self) -> list[str]:
        """Fields that it changes at the cells."""
        return [found[1] for line in self.lines if (found := re.match(r"(\w+)\[i\] [-+]?=", line))]

    @property
    def alone(self) -> bool:
        """Whether it touches nothing beside the cell: then what owns the cell in a sweep may do it."""
        return self.ring is None and not any(re.search(r"\[[im] [-+]", line) for line in self.lines)

    def scalars(self, names: Names) -> list[str]:
        """Those of the names' scalars that are used."""
        text = "\n".join(self.lines)
        return [name for name in names.scalars if name in text]


def record(field: Field) -> Task:
    """Receivers take a field's values."""
    return Task(f"receivers_{field.name}", (f"record_{field.name}[at + q] = {field.name}[i]",))


def around(rings: Rings, stage: int, direction: str, history: frozenset[str]) -> Iterator[Task]:
    """Before a stage: the ring takes the fields around a box that it will read, and undoing it takes them from there."""
    for number, (place, field) in enumerate(rings):
        if place == stage and direction == "reverse":
            yield Task("around_core", (f"{field.name}[i] = ring[at + q]",), number)
        elif place == stage and "ring" in history:
            yield Task("around_core", (f"ring[at + q] = {field.name}[i]",), number)


def edge(rings: Rings, direction: str, history: frozenset[str]) -> Iterator[Task]:
    """After the stages: the ring takes, or gives back, the history of cells between the core and the layers."""
    to = "k = slot + i"
    if direction == "reverse":
        yield Task("around_edge", (to, "history[k] = ring[at + q]"), len(rings))
    elif "ring" in history:
        yield Task("around_edge", (to, "ring[at + q] = history[k]"), len(rings))


def framed(rings: Rings, solved: Solved, stage: int) -> Iterator[Task]:
    """Before a stage: the ring takes what undoing it must give back in cells between the core and the layers."""
    for number, solution in enumerate(solved, len(rings)):
        if solution.stage == stage:
            yield Task("around_frame", (f"ring[at + q] = {solution.older}[i]",), number)


def solving(names: Names, rings: Rings, solved: Solved, stage: int) -> Iterator[Task]:
    """After a stage was undone: what it gave there lacks the layers; by as much as it is off, history is, too.

    Where the parameter is zero, history has no part in the gradient.
    """
    for number, solution in enumerate(solved, len(rings)):
        if solution.stage == stage:
            field, factor, undone = solution.field.name, f"{solution.parameter.name}[m]", solution.undone
            divisor = factor if abs(undone) == 1.0 else f"({names.constant(abs(undone))} * {factor})"
            lines = (
                "k = slot + index(past_around_frame[q])",
                f"if {factor} != {names.constant(0.0)}:",
                f"    history[k] {'-' if undone < 0 else '+'}= (ring[at + q] - {field}[i]) / {divisor}",
                f"{field}[i] = ring[at + q]",
            )
            yield Task("around_frame", lines, number, solution.channel)


def tap(names: Names, source: Source, form: Form) -> Task:
    """The gradient of a source's amplitude: a form of the adjoint at its cells."""
    body = Body(names, [form])
    value = body.value(form)
    return Task(f"cells_{source.name}", (*body.lines, f"gradient_{source.name}[at + q] = {value}"))


def injections(names: Names, stage: Stage) -> Iterator[Task]:
    """Sources add their amplitude, times its coefficients, at their cells."""
    for target, source, form in stage.injections():
        yield Task(f"cells_{source.name}", tuple(_amplitude(names, f"{target.name}[i]", source, form)))


def source_images(names: Names, stage: Stage) -> Iterator[Task]:
    """Images of what sources inject: theirs is the whole record, so every step counts, whatever history keeps."""
    for image in stage.images:
        for source in dict.fromkeys(node for node in walk(image.kept) if isinstance(node, Source)):
            body = Body(names, [image.adjoint])
            extra = [names.scalar("per_stride"), body.value(image.adjoint)]
            lines = _amplitude(names, f"gradient_{image.parameter.name}[m]", source, image.kept, extra)
            yield Task(f"cells_{source.name}", (*body.lines, *lines))


def residual(name: str, scale: Parameter | None) -> Task:
    """Receivers add their residual to the adjoint of what they recorded, scaled as that adjoint is."""
    factor = f"{scale.name}[m] * " if scale else ""
    return Task(f"receivers_{name}", (f"adjoint_{name}[i] += {factor}residual_{name}[at + q]",))


def _amplitude(names: Names, target: str, source: Source, form: Form, extra: Sequence[str] = ()) -> list[str]:
    lines = []
    for number, factors in coefficients(form, source):
        terms = [] if abs(number) == 1.0 else [names.constant(abs(number))]
        terms += [f"{factor.name}[m]" for factor in factors if isinstance(factor, Parameter)]
        sign = "-" if number < 0 else "+"
        lines.append(f"{target} {sign}= {' * '.join([*terms, *extra, f'amplitude_{source.name}[at + q]'])}")
    return lines
