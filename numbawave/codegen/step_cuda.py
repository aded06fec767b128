"""One time step on a CUDA device: the kernels of a printed module, and the order in which a step launches them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from numbawave.codegen import points
from numbawave.codegen.expression import Names
from numbawave.codegen.layout import INDENT, History, module_head
from numbawave.codegen.order import steps_ahead
from numbawave.codegen.points import Rings, Solved
from numbawave.codegen.points_cuda import points_kernel
from numbawave.codegen.region import regions
from numbawave.codegen.shell_cuda import sweep_kernel
from numbawave.stencil.form import Form
from numbawave.stencil.program import Program, Stage
from numbawave.stencil.transpose import Adjoint


@dataclass(frozen=True)
class Manner:
    """How a grid's kernels are laid out.

    Attributes
    ----------
    split : bool
        Whether interior, slabs and edges have kernels of their own; for small grids one kernel is faster.
    shared : bool
        Whether points may share a cell.
    looped : bool
        Whether threads of a sweep take several shots, one after another.
    ticker : str
        The region, with cells in it, whose kernel sets the clock of the next step.
    early : bool
        Whether a kernel's blocks may start before the kernels that it waits for have ended, by which small grids gain.
    """

    split: bool
    shared: bool
    looped: bool
    ticker: str
    early: bool = False


@lru_cache(maxsize=256)
def source(setup: Any, direction: str, history: History, real: str, manner: Manner) -> str:
    """The text for a setup and a ``Direction``."""
    if direction != "adjoint":
        program, solved = setup.program(direction), setup.solutions
        return forward_text(program, setup.kept, history, setup.accuracy, real, manner, setup.rings, solved, direction)
    records = tuple(record.name for record in setup.forward.records)
    return adjoint_text(setup.adjoint, records, history, setup.accuracy, real, manner)


def forward_text(
    program: Program,
    kept: Sequence[tuple[Form, ...]],
    history: History,
    accuracy: int,
    real: str,
    manner: Manner,
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
    manner : Manner
    rings : sequence of (int, Field)
        Forward stages, and fields that each of them reads at neighbours.
    solved : sequence of Solution
        What undoing a step can find by the fields around the core.
    direction : {"forward", "reverse"}

    Returns
    -------
    str
        A module of kernels and ``STEP``, the order in which a step launches them.
    """
    page = _Page(program, accuracy, real, history, manner, "+" if direction == "forward" else "-")
    steps_ahead(page, program, kept, history, rings, solved, direction)
    return page.text(direction)


def adjoint_text(
    adjoint: Adjoint, records: Sequence[str], history: History, accuracy: int, real: str, manner: Manner
) -> str:
    """Print the adjoint module: the stages in reverse with images and taps.

    Parameters
    ----------
    adjoint : Adjoint
    records : sequence of str
        The forward fields that receivers recorded.
    history, accuracy, real, manner
        See ``forward_text``.

    Returns
    -------
    str
    """
    program = adjoint.program
    page = _Page(program, accuracy, real, history, manner, "-")
    kept = [adjoint.kept(k) for k in range(len(program.stages))]
    for position, stage in enumerate(program.stages):
        place = len(kept) - 1 - position
        for source, form in stage.taps:
            page.points(points.tap(page.names, source, form))
        first = sum(len(forms) for forms in kept[:place])
        images = list(points.source_images(page.names, stage)) if history else []
        # Where what they read is still there after the sweep, kernels of their own need not come before it.
        late = manner.split and all(stage.buffered(f) for f in stage.fields if f.slab is None)
        for task in [] if late else images:
            page.points(task)
        page.sweep(f"adjoint_{place}", stage, kept[place], first, "image")
        for task in images if late else []:
            page.points(task)
        page.rotate(stage)
    for name in records:
        page.points(points.residual(name, adjoint.scales.get(name)))
    return page.text("adjoint")


@dataclass
class _Sweep:
    """A stage whose kernels are not printed yet, as points may come to it.

    Attributes
    ----------
    name, stage, kept, channel, use
        See ``sweep_kernel``.
    number : int
        Of the stage.
    place : int
        Where its launches go in the step.
    before, after : list of Task
    """

    name: str
    stage: Stage
    kept: Sequence[Form]
    channel: int
    use: frozenset[str]
    number: int
    place: int
    before: list[points.Task]
    after: list[points.Task] = field(default_factory=list)

    @property
    def written(self) -> set[str]:
        """Names of the fields that the stage computes."""
        return {assignment.field.name for assignment in self.stage.assignments}

    @property
    def early(self) -> list[points.Task]:
        """Those before it that read what it overwrites."""
        lost = [f"{name}[i]" for name in self.written - set(self.stage.rotating)]
        return [task for task in self.before if any(name in line for line in task.lines for name in lost)]

    @property
    def late(self) -> list[points.Task]:
        """All others: a thread then looks for points once."""
        early = self.early
        return [*(task for task in self.before if task not in early), *self.after]


def _launch(kind: str, title: str, stage: int, text: str) -> str:
    """A launch: what it covers, the kernel, its stage (launches of one stage are independent), what it writes."""
    written = dict.fromkeys(re.findall(r"^ *(\w+)\[[^\]]*\](?:, \w+\[1\])? [-+]?=", text, re.MULTILINE))
    return f'("{kind}", {title}, {stage}, {list(written)})'.replace("'", '"')


@dataclass
class _Page:
    """A module in the making: its constants, its kernels and the order of their launches."""

    program: Program
    accuracy: int
    real: str
    history: History
    manner: Manner
    tick: str
    constants: dict[str, float] = field(default_factory=dict)
    kernels: list[str] = field(default_factory=list)
    stages: int = 0
    step: list[str] = field(default_factory=list)
    waiting: list[points.Task] = field(default_factory=list)
    open: _Sweep | None = None

    def __post_init__(self) -> None:
        self.names = Names(self.program.axes, self.accuracy, self.constants)

    def points(self, task: points.Task) -> None:
        """Lines at each of some cells: by the threads of a sweep where one kernel does that, else by a kernel for them."""
        changed = set(task.changes)
        if not self.manner.split and task.alone and not changed:
            self.waiting.append(task)
        elif not self.manner.split and task.alone and self.open and changed <= self.open.written:
            self.open.after.append(task)
        else:
            self._close()
            title = f"points_{len(self.kernels)}"
            self.kernels.append(points_kernel(title, self.names, task, self.manner.shared and task.ring is None))
            self.step.append(_launch("points", title, -1, self.kernels[-1]))

    def sweep(self, name: str, stage: Stage, kept: Sequence[Form], channel: int, way: str) -> None:
        """The kernels of a stage, one a region; printed when it is known what they do at points."""
        self._close()
        use = self.history - {"kept"} | {way} if "kept" in self.history and kept else frozenset[str]()
        self.open = _Sweep(name, stage, kept, channel, use, self.stages, len(self.step), self.waiting)
        self.waiting, self.stages = [], self.stages + 1

    def _close(self) -> None:
        """Print the kernels of the stage in hand."""
        if self.open is None:
            return
        done, self.open, launches = self.open, None, []
        for region in regions(self.program.axes, self.program.slabs, self.manner.split):
            names, title = Names(self.program.axes, self.accuracy, self.constants), f"{done.name}_{region.name}"
            for task in (*done.early, *done.late):
                names.scalars |= dict.fromkeys(task.scalars(self.names))
            tick = self.tick if region.name == self.manner.ticker and not done.number else ""
            text = sweep_kernel(title, names, done.stage, region, done.kept, done.channel, done.use, tick,
                                self.manner.looped, done.before, done.after)  # fmt: skip
            self.kernels.append(text)
            launches.append(_launch(region.name, title, done.number, text))
        self.step[done.place : done.place] = launches

    def rotate(self, stage: Stage) -> None:
        """Exchange the buffers of a stage's fields."""
        self.step += [f'("rotate", "{f.name}")' for f in stage.fields if stage.buffered(f)]

    def text(self, direction: str) -> str:
        """The whole module."""
        self._close()
        code = "\n".join(self.kernels)
        title = f"{self.program.name}: the kernels of one time step ({direction}), and their order in STEP."
        imports = f"from numbawave.backends.cuda import {'begin, ' * self.manner.early}cuda, kernel, limited"
        head = module_head(title, imports, self.real, self.constants, code)
        step = ["STEP = [", *(f"    {launch}," for launch in self.step), "]"]
        kernels = [k.replace(":\n", f":\n{INDENT}begin()\n", 1) if self.manner.early else k for k in self.kernels]
        return head + "".join(f"\n\n{k}\n" for k in [*kernels, "\n".join(step)])
