"""The backend on CUDA devices: kernels bound to their arrays, and steps replayed as CUDA graphs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from numbawave.backends import simulated
from numbawave.backends.base import Advance, Coder, Direction, exchange, grid_values, history_use
from numbawave.backends.cuda import LOADED, address, cuda, device_view, on, quiet, stream_of
from numbawave.backends.cuda_compilation import compile_kernels
from numbawave.backends.cuda_layout import CudaLayout
from numbawave.backends.cuda_tiles import Shape, launch_shape, regions_of, shares, spots
from numbawave.codegen.module_cache import load, one_process
from numbawave.codegen.region import COORDINATE
from numbawave.codegen.step_cuda import Manner, source

if not simulated():
    from numbawave.backends.cuda_graph import graph_of

Pair = tuple[int, int]

SPLIT_CELLS = 400_000
"""From so many cells of all shots on, interior, slabs and edges have kernels of their own."""

FEW_STEPS = 6
"""Up to so many steps are launched one by one: making a graph would take longer."""


class Cuda(CudaLayout):
    """Backend ``"cuda"``: printed kernels, a step of them replayed as a CUDA graph."""

    chunk = 20_000_000_000

    def loop(self, run: Any, direction: Direction, arrays: dict[str, Any], history: bool) -> Advance:
        """See ``Backend``."""
        program = run.setup.program(direction)
        split = run.grid.cells * run.shots >= SPLIT_CELLS
        # Cells of a ring are all different, and many: sorting them would take longer than some runs.
        points = (cells for name, cells in run.cells.items() if "around_" not in name)
        shared = any(np.unique(cells).size < cells.size for cells in points)
        groups = _groups(run, direction, history)
        taken = groups or run.shots
        shapes = {region.name: launch_shape(run, program, region, taken) for region in regions_of(run, program, split)}
        looped = any(shape.integers["shot_step"] < run.shots for shape in shapes.values())
        ticker = [name for name, shape in shapes.items() if all(shape.blocks)][-1]
        manner = Manner(split, shared, looped, ticker)
        text = source(run.setup, direction, history_use(run, direction, history), run.dtype.name, manner)
        module = load(f"{program.name}_{len(program.axes)}d_cuda", text)
        return Steps(run, program, module, shapes, arrays, direction, history).advance

    def coder(self, space: Any) -> Coder:
        """See ``Backend``."""
        from numbawave.backends.coding_cuda import CudaCoder

        return CudaCoder(space)


@dataclass(frozen=True)
class Launch:
    """A kernel with all of its arguments.

    Attributes
    ----------
    kernel : compiled kernel
    shape : Shape
    arguments : tuple
        Arrays and numbers.
    views : dict
        By address: arrays as kernels take them, for all launches that share it.
    reads, writes : frozenset of int
        Addresses of the arrays.
    group : tuple of int
        Launches of one group write different cells and read what none of them writes; a lone launch is its own group.
    places : dict
        By identity: where arrays begin, and how long they are, for all launches that share it.
    """

    kernel: Any
    shape: Shape
    arguments: tuple[Any, ...]
    views: dict[int, Any]
    reads: frozenset[int]
    writes: frozenset[int]
    group: Pair
    places: dict[int, Pair] = field(default_factory=dict)

    def __call__(self, stream: Any) -> None:
        """Queue the kernel on a stream."""
        self.kernel[self.shape.blocks, self.shape.threads, stream](*map(self._taken, self.arguments))

    @property
    def types(self) -> tuple[Any, ...]:
        """The types for which the kernel is compiled."""
        return tuple(self.kernel.typeof_pyval(self._taken(value)) for value in self.arguments)

    @property
    def mark(self) -> tuple[Any, ...]:
        """All that tells this launch from others: two of one mark do the same."""
        given = (_place(self.places, value) if _is_array(value) else value for value in self.arguments)
        return self.kernel, self.shape.blocks, self.shape.threads, self.group, *given

    def _taken(self, value: Any) -> Any:
        if not _is_array(value):
            return value
        start, _ = _place(self.places, value)
        if start not in self.views:
            self.views[start] = device_view(value)
        return self.views[start]

    def after(self, other: Launch) -> bool:
        """Whether this launch must wait for another."""
        if self.group == other.group:
            return False
        return bool(self.writes & (other.writes | other.reads) or self.reads & other.writes)


class Steps:
    """The steps of one run in one direction.

    Parameters
    ----------
    run : Run
    program : Program
    module : module
        Kernels, and ``STEP``: what a step launches.
    shapes : dict of str to Shape
        By region.
    arrays : dict of str to array
    direction : Direction
    history : bool
    """

    def __init__(
        self,
        run: Any,
        program: Any,
        module: Any,
        shapes: dict[str, Shape],
        arrays: dict[str, Any],
        direction: Direction,
        history: bool,
    ) -> None:
        self.run, self.program, self.module, self.shapes, self.arrays = run, program, module, shapes, arrays
        self.sign = 1 if direction == "forward" else -1
        self.values = grid_values(run, program)
        self.values |= {name: np.uint32(value) for name, value in self.values.items() if COORDINATE.fullmatch(name)}
        self.values["stride"] = np.int64(run.stride)
        self.slots = arrays["history"].shape[0] if history and "history" in arrays else 1
        self.values["slots"] = np.int64(self.slots)
        self.values["rings"] = np.int64(arrays["ring"].shape[0] if "ring" in arrays else 1)
        groups = _groups(run, direction, history)
        self.values["gradient_step"] = np.uint64(run.grid.cells if groups else 0)
        names = [f"gradient_{parameter.name}" for parameter in run.setup.forward.parameters]
        self.copies = {name: run.make(f"back.copies_{name}") for name in names} if groups > 1 else {}
        self.tables = self._tables()
        self.tables |= {name: run.space.upload(np.zeros(3, np.int64)) for name in ("clock", "clock_next")}
        self.views: dict[int, Any] = {}
        self.places: dict[int, Pair] = {}
        self.halves: list[list[Launch]] = []
        self.graphs: dict[Pair, Any] = {}
        self.home = {name: address(array) for name, array in arrays.items()}
        self.next: Pair | None = None

    def advance(self, first: int, last: int) -> None:
        """See ``Backend.loop``."""
        device, start = self.run.space.device, first if self.sign > 0 else last - 1
        with on(device):
            stream, steps, turn = stream_of(self.run.space), last - first, self._turn()
            if self.next != (start, turn):
                self._set_clock(start, turn)
            self.next = (start + self.sign * steps, (turn + steps) % 2)
            if not self.halves:
                names = self.arrays | self.tables | self.copies
                self.halves = [self._step(names, 0), self._step(names, 1)]
            pair = [*self.halves[turn], *self.halves[1 - turn]]
            if (self.module.__name__, device) not in LOADED:
                with quiet(), one_process(self.module):
                    compile_kernels(self.module, pair)
                    steps -= self._launch(pair, min(steps, 2), stream)
                LOADED.add((self.module.__name__, device))
            if self.run.steps > FEW_STEPS and device is not None:
                for launches, times in ((pair, steps // 2), (self.halves[turn], steps % 2)):
                    if times:
                        self._graph(turn, launches).launch(times, stream)
            else:
                with quiet():
                    self._launch(pair, steps, stream)
            for name in self.copies if first == 0 else ():
                self.arrays[name] += self.copies[name].sum(0).reshape(self.arrays[name].shape)
        exchange(self.program, self.arrays, last - first)

    def _graph(self, turn: int, launches: list[Launch]) -> Any:
        """The graph of some launches, which begin at a turn."""
        key = turn, len(launches)
        if key not in self.graphs:
            marks = tuple(launch.mark for launch in launches)
            self.graphs[key] = graph_of(cuda, self.run.space.device, launches, marks)
        return self.graphs[key]

    def _turn(self) -> int:
        """0 where every field's array is the one that it was at first, 1 where it is that of its other buffer."""
        rotating = [name for stage in self.program.stages for name in stage.rotating]
        moved = any(address(self.arrays[name]) != self.home[name] for name in rotating)
        return int(moved if rotating else self.next is not None and self.next[1])

    @staticmethod
    def _launch(pair: list[Launch], steps: int, stream: Any) -> int:
        """Launch the kernels of some steps one by one."""
        for launch in pair * (steps // 2) + pair[: len(pair) // 2 * (steps % 2)]:
            launch(stream)
        return steps

    def _tables(self) -> dict[str, Any]:
        """Arrays that kernels read besides the run's own: points, and their order by cells where they share some."""
        wanted = {name for _, what, *rest in self.module.STEP if rest for name in _arguments(what)}
        found = {name: self.arrays[name] for name in self.run.cells}
        if folded := {name: cells for name, cells in found.items() if f"starts_{name}" in wanted}:
            found |= spots(folded, self.run.shots * self.run.grid.cells)
        for name, cells in list(found.items()):
            if f"first_{name}" in wanted:
                found[f"first_{name}"], found[f"order_{name}"] = shares(cells)
        return {name: self.run.space.upload(found[name]) for name in wanted & found.keys()}

    def _set_clock(self, step: int, turn: int) -> None:
        """Let the clock that comes next show a step."""
        now = np.array([step, step // self.run.stride % self.slots, step % self.run.stride], np.int64)
        self.tables["clock_next" if turn else "clock"][...] = self.run.space.upload(now)

    def _step(self, names: dict[str, Any], number: int) -> list[Launch]:
        """The launches of one step; ``names`` afterwards say what each name means in the next."""
        launches: list[Launch] = []
        for kind, what, *rest in [*self.module.STEP, ("rotate", "clock")]:
            if kind == "rotate":
                names[what], names[f"{what}_next"] = names[f"{what}_next"], names[what]
                continue
            stage, written = rest
            shape = self._points(what) if kind == "points" else self.shapes[kind]
            group = (number, stage) if stage >= 0 else (number, -1 - len(launches))
            if all(shape.blocks):
                launches.append(self._bound(what, shape, names, written, group))
        return launches

    def _points(self, what: Any) -> Shape:
        cells = next(name for name in _arguments(what) if name.startswith(("first_", "cells_", "receivers_", "around_")))
        count = self.tables[cells].shape[0] - cells.startswith("first_")
        return Shape((-(-count // 128), 1, 1), (128, 1), {})

    def _bound(self, what: Any, shape: Shape, names: dict[str, Any], written: Sequence[str], group: Pair) -> Launch:
        given, numbers = _arguments(what), shape.integers
        arrays = {name: names[name] for name in given if name in names}
        places = {name: _place(self.places, array)[0] for name, array in arrays.items()}
        values = tuple(arrays[n] if n in arrays else numbers[n] if n in numbers else self.values[n] for n in given)
        writes = frozenset(places[name] for name in written)
        reads = frozenset(places.values()) - writes
        return Launch(what, shape, values, self.views, reads, writes, group, self.places)


def _groups(run: Any, direction: Direction, history: bool) -> int:
    """Groups of shots that add to one gradient, each to its own copy, so that no two threads meet; 0 for none."""
    return max(1, run.backend.copies(run)) if history and direction == "adjoint" and not run.batched else 0


@lru_cache(maxsize=1024)
def _arguments(what: Any) -> tuple[str, ...]:
    function = getattr(what, "py_func", None) or what.fn
    return tuple(function.__code__.co_varnames[: function.__code__.co_argcount])


def _place(known: dict[int, Pair], array: Any) -> Pair:
    """Where an array begins, and its length; asked once for arrays that outlive what is known of them."""
    if id(array) not in known:
        known[id(array)] = address(array), _size(array)
    return known[id(array)]


def _is_array(value: Any) -> bool:
    return not isinstance(value, np.generic)


def _size(array: Any) -> int:
    return int(array.size if isinstance(array, np.ndarray) else array.numel())
