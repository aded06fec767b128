"""The backend on CUDA devices: kernels bound to their arrays, and steps replayed as CUDA graphs."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from numbawave.backends import simulated
from numbawave.backends.base import Advance, Coder, Direction, exchange, grid_values, history_use
from numbawave.backends.cuda import LOADED, address, cuda, on, quiet, starts_early, stream_of
from numbawave.backends.cuda_compilation import compile_kernels
from numbawave.backends.cuda_launch import Launch, Pair, Views, arguments, cases_at, neighbours, size, touched
from numbawave.backends.cuda_layout import CudaLayout
from numbawave.backends.cuda_tiles import Shape, launch_shape, regions_of, shares, spots
from numbawave.codegen.module_cache import load, one_process
from numbawave.codegen.region import COORDINATE, Case, Region
from numbawave.codegen.step_cuda import Manner, source

if not simulated():
    from numbawave.backends.cuda_graph import graph_of

SPLIT_CELLS = 400_000
"""From so many cells of all shots on, interior, slabs and edges have kernels of their own."""

FEW_STEPS = 6
"""Up to so many steps are launched one by one: making a graph would take longer."""

SMALL = 1 << 17
"""Up to so many integers an array is small."""


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
        regions = regions_of(run, program, split)
        shapes = {region.name: launch_shape(run, program, region, taken) for region in regions}
        looped = any(shape.integers["shot_step"] < run.shots for shape in shapes.values())
        ticker = [name for name, shape in shapes.items() if all(shape.blocks)][-1]
        manner = Manner(split, shared, looped, ticker, not split and starts_early(run.space.device))
        text = source(run.setup, direction, history_use(run, direction, history), run.real, manner)
        module = load(f"{program.name}_{len(program.axes)}d_cuda", text)
        return Steps(run, program, module, regions, shapes, arrays, direction, history).advance

    def coder(self, space: Any) -> Coder:
        """See ``Backend``."""
        from numbawave.backends.coding_cuda import CudaCoder

        return CudaCoder(space)


class Steps:
    """The steps of one run in one direction.

    Parameters
    ----------
    run : Run
    program : Program
    module : module
        Kernels, and ``STEP``: what a step launches.
    regions : list of Region
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
        regions: list[Region],
        shapes: dict[str, Shape],
        arrays: dict[str, Any],
        direction: Direction,
        history: bool,
    ) -> None:
        self.run, self.program, self.module, self.shapes, self.arrays = run, program, module, shapes, arrays
        self.cases = {region.name: region.cases for region in regions}
        self.every = frozenset(case for cases in self.cases.values() for case in cases)
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
        self.begin = 0 if self.sign > 0 else run.steps - 1
        self.wanted = sorted({name for _, what, *rest in module.STEP if rest for name in arguments(what)})
        self.tables = _uploaded(run.space, self._tables())
        self.names = arrays | self.tables | self.copies
        self.home = {name: address(array) for name, array in self.names.items()}
        self.graphs: dict[tuple[int, bool], Any] = {}
        self.next = self.begin, 0

    @cached_property
    def halves(self) -> list[list[Launch]]:
        """The launches of a step with each field where it was at first, and of one with the fields' buffers exchanged."""
        names, views = dict(self.names), Views()
        return [self._step(names, views, number) for number in (0, 1)]

    @cached_property
    def mark(self) -> tuple[Any, ...]:
        """All that decides what a step launches: two of one mark do the same."""
        shapes = ((shape.blocks, shape.threads, *shape.integers.values()) for shape in self.shapes.values())
        places = ((self.home[name], size(self.names[name])) for name in self.wanted if name in self.names)
        values = (self.values[name] for name in self.wanted if name in self.values)
        return self.module.__name__, *shapes, *places, *values, *self.covers.values()

    @cached_property
    def covers(self) -> dict[Any, frozenset[Case]]:
        """The cases in which the points of each kernel for points may lie: by these it follows what waits for it."""
        found = {}
        for what in (what for kind, what, *_ in self.module.STEP if kind == "points"):
            name = _owner(what).removeprefix("first_").removeprefix("model_")
            found[what] = self.every if name.startswith("around_") else cases_at(self.run, self.program, self.arrays[name])
        return found

    def advance(self, first: int, last: int) -> None:
        """See ``Backend.loop``."""
        device, start = self.run.space.device, first if self.sign > 0 else last - 1
        with on(device):
            stream, steps, turn = stream_of(self.run.space), last - first, self._turn()
            if self.next != (start, turn):
                self.tables["clock_next" if turn else "clock"][...] = self.run.space.upload(self._clock(start))
            self.next = (start + self.sign * steps, (turn + steps) % 2)
            if (self.module.__name__, device) not in LOADED:
                with quiet(), one_process(self.module):
                    compile_kernels(self.module, self._launches(turn, single=False))
                    steps -= self._launch(self._launches(turn, single=False), min(steps, 2), stream)
                LOADED.add((self.module.__name__, device))
            if self.run.steps > FEW_STEPS and device is not None:
                for single, times in ((False, steps // 2), (True, steps % 2)):
                    if times:
                        self._graph(turn, single).launch(times, stream)
            else:
                with quiet():
                    self._launch(self._launches(turn, single=False), steps, stream)
            for name, copies in self.copies.items() if first == 0 else ():
                for copy in copies:
                    self.arrays[name] += copy.reshape(self.arrays[name].shape)
        exchange(self.program, self.arrays, last - first)

    def _launches(self, turn: int, single: bool) -> list[Launch]:
        """The launches of a step that begins at a turn, or of two."""
        return self.halves[turn] if single else [*self.halves[turn], *self.halves[1 - turn]]

    def _graph(self, turn: int, single: bool) -> Any:
        """The graph of these."""
        key = turn, single
        if key not in self.graphs:
            made = partial(self._launches, turn, single)
            early = hasattr(self.module, "begin")
            self.graphs[key] = graph_of(cuda, self.run.space.device, made, (*key, *self.mark), early)
        return self.graphs[key]

    def _turn(self) -> int:
        """0 where every field's array is the one that it was at first, 1 where it is that of its other buffer."""
        rotating = [name for stage in self.program.stages for name in stage.rotating]
        moved = any(address(self.arrays[name]) != self.home[name] for name in rotating)
        return int(moved if rotating else self.next[1])

    @staticmethod
    def _launch(pair: list[Launch], steps: int, stream: Any) -> int:
        """Launch the kernels of some steps one by one."""
        for launch in pair * (steps // 2) + pair[: len(pair) // 2 * (steps % 2)]:
            launch(stream)
        return steps

    def _tables(self) -> dict[str, Any]:
        """Arrays that kernels read besides the run's own: points, and their order by cells where they share some."""
        wanted = set(self.wanted)
        found = {name: self.arrays[name] for name in self.run.cells}
        found |= dict.fromkeys(("clock", "clock_next"), self._clock(self.begin))
        if folded := {name: cells for name, cells in found.items() if f"starts_{name}" in wanted}:
            found |= spots(folded, self.run.shots * self.run.grid.cells)
        for name, cells in list(found.items()):
            if f"first_{name}" in wanted:
                found[f"first_{name}"], found[f"order_{name}"] = shares(cells)
        return {name: found[name] for name in self.wanted if name in found}

    def _clock(self, step: int) -> NDArray[np.int64]:
        """A clock that shows a step."""
        return np.array([step, step // self.run.stride % self.slots, step % self.run.stride], np.int64)

    def _step(self, names: dict[str, Any], views: Views, number: int) -> list[Launch]:
        """The launches of one step; ``names`` afterwards say what each name means in the next."""
        launches: list[Launch] = []
        for kind, what, *rest in [*self.module.STEP, ("rotate", "clock")]:
            if kind == "rotate":
                names[what], names[f"{what}_next"] = names[f"{what}_next"], names[what]
                continue
            stage, written = rest
            shape = self._points(what) if kind == "points" else self.shapes[kind]
            cover = self.covers[what] if kind == "points" else self.cases[kind]
            group = (number, stage) if stage >= 0 else (number, -1 - len(launches))
            if all(shape.blocks):
                launches.append(self._bound(what, shape, names, views, group, written, cover))
        return launches

    def _points(self, what: Any) -> Shape:
        owner = _owner(what)
        count = self.tables[owner].shape[0] - owner.startswith("first_")
        return Shape((-(-count // 128), 1, 1), (128, 1), {})

    def _bound(
        self,
        what: Any,
        shape: Shape,
        names: dict[str, Any],
        views: Views,
        group: Pair,
        written: Iterable[str],
        cover: Iterable[Case],
    ) -> Launch:
        given, numbers = arguments(what), shape.integers
        arrays = {name: names[name] for name in given if name in names}
        values = tuple(arrays[n] if n in arrays else numbers[n] if n in numbers else self.values[n] for n in given)
        near = neighbours(self.every, cover, max(1, self.program.corner))
        places = {name: address(array) for name, array in arrays.items()}
        return Launch(what, shape, values, views, *touched(places, written, cover, near), group)


def _owner(what: Any) -> str:
    """The table that says which points a kernel's threads take."""
    return next(name for name in arguments(what) if name.startswith(("first_", "cells_", "receivers_", "around_")))


def _groups(run: Any, direction: Direction, history: bool) -> int:
    """Groups of shots that add to one gradient, each to its own copy, so that no two threads meet; 0 for none."""
    return max(1, run.backend.copies(run)) if history and direction == "adjoint" and not run.batched else 0


def _uploaded(space: Any, arrays: dict[str, NDArray[np.int64]]) -> dict[str, Any]:
    """Arrays of integers on the device: the small ones at once, since each copy there takes its time."""
    small = {name: array for name, array in arrays.items() if array.size <= SMALL}
    found = {name: space.upload(array) for name, array in arrays.items() if name not in small}
    whole, ends = space.upload(np.concatenate(list(small.values()))), np.cumsum([array.size for array in small.values()])
    return found | {name: whole[end - a.size : end] for (name, a), end in zip(small.items(), ends.tolist(), strict=True)}
