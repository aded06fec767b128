"""The loop over time on the CPU: record, sweep, inject; and back: tap, sweep, add residuals."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from numbawave.codegen import points
from numbawave.codegen.expression import Names
from numbawave.codegen.layout import History, module_head
from numbawave.codegen.order import steps_ahead
from numbawave.codegen.points import Rings, Solved
from numbawave.codegen.shell_cpu import axis_integers, history_integers, row_arguments, rows_function
from numbawave.stencil.form import Form
from numbawave.stencil.program import Program, Stage
from numbawave.stencil.transpose import Adjoint


@lru_cache(maxsize=256)
def source(setup: Any, direction: str, history: History, real: str) -> str:
    """The text for a setup and a ``Direction``."""
    if direction != "adjoint":
        program, rings, solved = setup.program(direction), setup.rings, setup.solutions
        return forward_text(program, setup.kept, history, setup.accuracy, real, rings, solved, direction)
    records = tuple(record.name for record in setup.forward.records)
    return adjoint_text(setup.adjoint, records, history, setup.accuracy, real)


def forward_text(
    program: Program,
    kept: Sequence[tuple[Form, ...]],
    history: History,
    accuracy: int,
    real: str,
    rings: Rings = (),
    solved: Solved = (),
    direction: str = "forward",
) -> str:
    """Print the module of steps forward, or of steps undone.

    Parameters
    ----------
    program : Program
    kept : sequence of tuple of Form
        For each forward stage the forms that history keeps.
    history : History
    accuracy : int
    real : {"float32", "float64"}
    rings : sequence of (int, Field)
        Forward stages, and fields that each of them reads at neighbours.
    solved : sequence of Solution
        What undoing a step can find by the fields around the core.
    direction : {"forward", "reverse"}

    Returns
    -------
    str
        A module with one function a stage and variant, and ``forward`` or ``reverse``, the loop over time.
    """
    page = _Page(program, accuracy, real, history)
    steps_ahead(page, program, kept, history, rings, solved, direction)
    return page.text(direction, sum(len(forms) for forms in kept))


def adjoint_text(adjoint: Adjoint, records: Sequence[str], history: History, accuracy: int, real: str) -> str:
    """Print the adjoint module: the stages in reverse with images and taps, and the loop back through time.

    Parameters
    ----------
    adjoint : Adjoint
    records : sequence of str
        The forward fields that receivers recorded.
    history : History
    accuracy : int
    real : {"float32", "float64"}

    Returns
    -------
    str
        A module with one function a stage and variant, and ``adjoint``, the loop.
    """
    program = adjoint.program
    page = _Page(program, accuracy, real, history)
    kept = [adjoint.kept(k) for k in range(len(program.stages))]
    for position, stage in enumerate(program.stages):
        place = len(kept) - 1 - position
        for source, form in stage.taps:
            page.points(points.tap(page.names, source, form))
        for task in points.source_images(page.names, stage) if history else ():
            page.points(task)
        page.sweep(f"adjoint_{place}", stage, kept[place], sum(len(forms) for forms in kept[:place]), "image")
        page.rotate(stage)
    for name in records:
        page.points(points.residual(name, adjoint.scales.get(name)))
    return page.text("adjoint", sum(len(forms) for forms in kept))


@dataclass
class _Page:
    """A module in the making: its constants, its row functions and the lines of its loop."""

    program: Program
    accuracy: int
    real: str
    history: History
    constants: dict[str, float] = field(default_factory=dict)
    functions: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    arguments: dict[str, None] = field(default_factory=dict)
    integers: dict[str, None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.names = Names(self.program.axes, self.accuracy, self.constants, arrays=self.arguments)

    def points(self, task: points.Task) -> None:
        """A function for the lines at each of some cells, and its call."""
        for name in task.arrays:
            self.names.array(name)
        title, given = f"points_{len(self.functions)}", ", ".join([*task.arrays, *task.scalars(self.names)])
        model = [f"m = index(model_{task.cells}[q])"] if task.on_model else []
        inner = [f"i = index({task.cells}[q])", *model, *task.lines]
        body = [f"for q in range(index({task.cells}.size)):", *("    " + line for line in inner)]
        slot = {"slot": task.slot} if task.slot else {}
        head = f"@kernel\ndef {title}({', '.join(['at', *slot])}, {given}):"
        self.functions.append("\n".join([head, *("    " + line for line in body)]))
        self.lines.append(f"{title}({', '.join([task.at, *slot.values()])}, {given})")
        self.integers.update(dict.fromkeys(task.integers))

    def sweep(self, name: str, stage: Stage, kept: Sequence[Form], channel: int, way: str) -> None:
        """Run a stage over the grid, with and without history as this module needs."""
        calls = {}
        for history in ["kept" in self.history, *([False] if "some" in self.history else [])]:
            used = bool(history and kept)
            title = name + (f"_{way}" if history else "")
            names = Names(self.program.axes, self.accuracy, self.constants)
            text = rows_function(title, names, stage, kept, channel, keep=used and way == "keep",
                                 image=used and way == "image", boxed="boxed" in self.history)  # fmt: skip
            self.functions.append(text)
            given = row_arguments(names, stage, used)
            self.arguments.update(dict.fromkeys(a for a in given if a not in ("first_row", "last_row", "kept")))
            call = ", ".join(["parts[part]", "parts[part + 1]", *given[2:]])
            calls[history] = ["for part in prange(parts.size - 1):", f"    {title}({call})"]
        if len(calls) == 2:
            keeping = ["if keeping:", *("    " + line for line in calls[True])]
            self.lines += [*keeping, "else:", *("    " + line for line in calls[False])]
        else:
            self.lines += next(iter(calls.values()))

    def rotate(self, stage: Stage) -> None:
        """Exchange the buffers of a stage's fields."""
        for buffered in (f.name for f in stage.fields if stage.buffered(f)):
            self.lines.append(f"{buffered}, {buffered}_next = {buffered}_next, {buffered}")

    def text(self, name: str, channels: int) -> str:
        """The whole module, with the loop over time under this name."""
        steps = "range(first_step, last_step)" if name == "forward" else "range(last_step - 1, first_step - 1, -1)"
        keeping, extra = [], []
        if "kept" in self.history:
            some = "some" in self.history
            extra = ["slots", *(["stride"] if some else [])]
            keeping = [f"kept = index(step{' // stride' * some} % slots) * index({channels}) * shots * past"]
            keeping += ["keeping = step % stride == 0"] * some
        fixed = ["shots", "cells", "model_step", *axis_integers(self.program.axes, self.program.slabs)]
        fixed += history_integers(self.program.axes) if "kept" in self.history else []
        fixed += [name for name in self.integers if name not in extra]
        self.arguments.update(dict.fromkeys(self.names.scalars))
        scalars = [a for a in self.arguments if a.startswith("per_")]
        arrays = sorted(set(self.arguments) - set(fixed) - set(scalars))
        signature = ["first_step", "last_step", *extra, "parts", *fixed, *arrays, *scalars]
        body = [f"for step in {steps}:", *("    " + line for line in [*keeping, *self.lines])]
        self.functions.append("\n".join([f"@loop\ndef {name}({', '.join(signature)}):", *("    " + line for line in body)]))
        title = f"{self.program.name}: one time step, and the loop over time ({name})."
        imports = "from numbawave.backends.cpu import kernel, loop, prange"
        head = module_head(title, imports, self.real, self.constants, "\n".join(self.functions))
        return head + "".join(f"\n\n{function}\n" for function in self.functions)
