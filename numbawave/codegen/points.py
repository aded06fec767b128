"""What a step does at single cells: record, inject, tap, and image what was injected; the same lines for every shell."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from numbawave.codegen.expression import Body, Names
from numbawave.stencil.form import Field, Form, Parameter, Source, walk
from numbawave.stencil.program import Stage, coefficients

Rings = Sequence[tuple[int, Field]]


@dataclass(frozen=True)
class Task:
    """Lines for each of some cells.

    Attributes
    ----------
    cells : str
        The array of the cells' flat indices.
    lines : tuple of str
        ``i`` and ``m`` are a cell's index in fields and in parameter grids, ``at + q`` the sample of this step.
    ring : bool
        Whether it is of a ring, whose cells are all different and whose samples take turns.
    """

    cells: str
    lines: tuple[str, ...]
    ring: bool = False

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
        if self.ring:
            number = self.cells.removeprefix("around_")
            return f"index(step % rings) * ring_size + ring_start_{number}"
        return f"index(step) * index({self.cells}.size)"

    @property
    def slot(self) -> str:
        """Where this step's slot of history begins, if that is used."""
        used = any(re.search(r"\bslot\b", line) for line in self.lines)
        return "index(step // stride % slots) * slot_size" if used else ""

    @property
    def integers(self) -> list[str]:
        """Names of the integers in these two."""
        names = r"\b(?:ring_size|ring_start_\d+|rings|stride|slots|slot_size)\b"
        return sorted(set(re.findall(names, f"{self.at} {self.slot}")))

    @property
    def changes(self) -> list[str]:
        """Fields that it changes at the cells."""
        return [found[1] for line in self.lines if (found := re.match(r"(\w+)\[i\] [-+]?=", line))]

    @property
    def alone(self) -> bool:
        """Whether it touches nothing beside the cell: then what owns the cell in a sweep may do it."""
        return not self.ring and not any(re.search(r"\[[im] [-+]", line) for line in self.lines)

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
            yield Task(f"around_{number}", (f"{field.name}[i] = ring[at + q]",), ring=True)
        elif place == stage and "ring" in history:
            yield Task(f"around_{number}", (f"ring[at + q] = {field.name}[i]",), ring=True)


def edge(rings: Rings, direction: str, history: frozenset[str]) -> Iterator[Task]:
    """After the stages: the ring takes, or gives back, the history of cells between the core and the layers."""
    to = "k = slot + i"
    if direction == "reverse":
        yield Task(f"around_{len(rings)}", (to, "history[k] = ring[at + q]"), ring=True)
    elif "ring" in history:
        yield Task(f"around_{len(rings)}", (to, "ring[at + q] = history[k]"), ring=True)


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
