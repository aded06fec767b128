"""The door to CUDA: the decorator that printed kernels use, and the backend that replays their steps as CUDA graphs."""

from __future__ import annotations

import importlib
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from numbawave.backends import simulated
from numbawave.backends.base import Advance, Direction, exchange, grid_values
from numbawave.backends.cuda_tiles import Shape, launch_shape, regions_of, shares
from numbawave.codegen.module_cache import load, one_process
from numbawave.codegen.region import Region
from numbawave.codegen.step_cuda import source as source
from numbawave.errors import BackendError

if not simulated():
    from numbawave.backends.cuda_graph import Graph

Pair = tuple[int, int]

PACKAGES = {"numba_cuda": "numba.cuda", "numba_cuda_mlir": "numba_cuda_mlir.cuda"}
"""What provides CUDA, by the value of ``NUMBAWAVE_CUDA``."""

SPLIT_CELLS = 400_000
"""From so many cells of all shots on, interior, slabs and edges have kernels of their own."""

COPIED_CELLS = 1_000_000
"""Cells of all copies of a gradient, at most."""

LEGACY = 1
"""The driver's name for the default stream."""

_LOADED: set[tuple[str, int | None]] = set()
"""Printed modules whose kernels were launched, and so compiled and loaded, on a device."""

FEW_STEPS = 6
"""Up to so many steps are launched one by one: making a graph would take longer."""


def _package() -> Any:
    name = PACKAGES.get(os.environ.get("NUMBAWAVE_CUDA", "numba_cuda"))
    if name is None:
        raise BackendError("NUMBAWAVE_CUDA", os.environ["NUMBAWAVE_CUDA"], f"is one of {', '.join(PACKAGES)}",
                           "set it to one of these, or unset it")  # fmt: skip
    try:
        return importlib.import_module(name)
    except ImportError as error:
        remedy = 'pip install "numbawave[cuda13]", or "numbawave[cuda12]" for an older driver'
        raise BackendError("backend", "cuda", f"needs {name}, which cannot be imported ({error})", remedy) from error


def _warnings(package: str) -> list[type[Warning]]:
    """What Numba and the package warn of when a kernel is launched in few blocks; each has classes of its own."""
    found = []
    for module in ("numba.core.errors", f"{package}.core.errors"):
        with suppress(ImportError):
            errors = importlib.import_module(module)
            names = ("NumbaPerformanceWarning", "NumbaDebugInfoWarning")
            found += [getattr(errors, name) for name in names if hasattr(errors, name)]
    return found


cuda = _package()
WARNINGS = _warnings(cuda.__name__)


def kernel(function: Callable[..., Any]) -> Any:
    """A kernel of a printed module: compiled when first launched, for the device at hand."""
    path = function.__code__.co_filename
    cached = not simulated() and os.path.isfile(path) and os.access(os.path.dirname(path), os.W_OK)
    return cuda.jit(cache=True)(function) if cached else cuda.jit(function)


@contextmanager
def _on(device: int | None) -> Iterator[None]:
    """Make a device current for this thread's CUDA calls, and leave what was current as it was."""
    with warnings.catch_warnings():
        for category in WARNINGS:
            warnings.simplefilter("ignore", category)
        if device is None:
            yield
        else:
            with cuda.gpus[device]:
                yield


class Converted(cuda.In):  # type: ignore[name-defined]
    """A device array that becomes a kernel's argument once, and not again at every launch."""

    def __init__(self, array: Any) -> None:
        super().__init__(array)
        self.argument = super().to_device([])

    def to_device(self, retr: list[Any], stream: Any = 0) -> Any:
        """What a launch asks for."""
        return self.argument


class Cuda:
    """Backend ``"cuda"``: printed kernels, a step of them replayed as a CUDA graph."""

    name = "cuda"
    chunk = 20_000_000_000
    align = 32

    def loop(self, run: Any, direction: Direction, arrays: dict[str, Any], history: bool) -> Advance:
        """See ``Backend``."""
        program = run.setup.forward if direction == "forward" else run.setup.adjoint.program
        variant = "none" if not history else "every" if run.stride == 1 else "some"
        split = run.grid.cells * run.shots >= SPLIT_CELLS
        shared = any(np.unique(cells).size < cells.size for cells in run.cells.values())
        text = source(run.setup, direction, variant, run.dtype.name, split, shared)
        module = load(f"{program.name}_{len(program.axes)}d_cuda", text)
        sign = -1 if direction == "adjoint" else 1
        regions = {region.name: region for region in regions_of(run, program, split)}
        return Steps(run, program, module, regions, arrays, sign, history).advance


@dataclass(frozen=True)
class Launch:
    """A kernel with all of its arguments.

    Attributes
    ----------
    kernel : compiled kernel
    shape : Shape
    arguments : tuple
    reads, writes : frozenset of int
        Addresses of the arrays.
    group : tuple of int
        Launches of one group write different cells and read what none of them writes; a lone launch is its own group.
    """

    kernel: Any
    shape: Shape
    arguments: tuple[Any, ...]
    reads: frozenset[int]
    writes: frozenset[int]
    group: Pair

    def __call__(self, stream: Any) -> None:
        """Queue the kernel on a stream."""
        self.kernel[self.shape.blocks, self.shape.threads, stream](*self.arguments)

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
    regions : dict of str to Region
    arrays : dict of str to array
    sign : {1, -1}
    history : bool
    """

    def __init__(
        self,
        run: Any,
        program: Any,
        module: Any,
        regions: dict[str, Region],
        arrays: dict[str, Any],
        sign: int,
        history: bool,
    ) -> None:
        self.run, self.program, self.module, self.arrays, self.sign = run, program, module, arrays, sign
        self.values = grid_values(run, program)
        self.values |= {"channels": np.uint64(run.setup.channels), "stride": np.int64(run.stride)}
        # A gradient to which every shot adds has a copy for each of a few groups of shots, so that no two threads meet.
        shared = history and sign < 0 and not run.batched
        groups = max(1, min(run.shots, COPIED_CELLS // run.grid.cells)) if shared else run.shots
        self.values["gradient_step"] = np.uint64(run.grid.cells if shared else 0)
        names = [f"gradient_{parameter.name}" for parameter in run.setup.forward.parameters]
        self.copies = {name: run.space.zeros(groups, run.grid.cells) for name in names} if shared and groups > 1 else {}
        self.shapes = {name: launch_shape(run, program, region, groups) for name, region in regions.items()}
        self.tables = self._tables()
        self.views: dict[int, Any] = {}
        self.pair: list[Launch] = []
        self.graph: Graph | None = None

    def advance(self, first: int, last: int) -> None:
        """See ``Backend.loop``; each call but the last is of an even number of steps."""
        device = self.run.space.device
        with _on(device):
            stream, steps = self._stream(), last - first
            if not self.pair:
                self._set_clock(first if self.sign > 0 else last - 1)
                names = self.arrays | self.tables | self.copies
                self.pair = [*self._step(names, 0), *self._step(names, 1)]
            if (self.module.__name__, device) not in _LOADED:
                with one_process(self.module):
                    steps -= self._launch(min(steps, 2), stream)
                _LOADED.add((self.module.__name__, device))
            if steps > FEW_STEPS and device is not None:
                self.graph = self.graph or Graph(cuda, device, self.pair)
                self.graph.launch(steps // 2, stream)
                steps %= 2
            self._launch(steps, stream)
            for name in self.copies if first == 0 else ():
                self.arrays[name] += self.copies[name].sum(0).reshape(self.arrays[name].shape)
        exchange(self.program, self.arrays, last - first)

    def _launch(self, steps: int, stream: Any) -> int:
        """Launch the kernels of some steps one by one."""
        for launch in self.pair * (steps // 2) + self.pair[: len(self.pair) // 2 * (steps % 2)]:
            launch(stream)
        return steps

    def _stream(self) -> Any:
        return 0 if simulated() else cuda.external_stream(self.run.space.stream or LEGACY)

    def _tables(self) -> dict[str, Any]:
        """Arrays that kernels read besides the run's own: points, and their order by cells where they share some."""
        wanted = {name for _, what, *rest in self.module.STEP if rest for name in _arguments(what)}
        found = dict(self.run.cells)
        for name, cells in self.run.cells.items():
            if f"first_{name}" in wanted:
                found[f"first_{name}"], found[f"order_{name}"] = shares(cells)
        return {name: self.run.space.upload(found[name]) for name in wanted & found.keys()}

    def _set_clock(self, step: int) -> None:
        now = np.array([step, step // self.run.stride, step % self.run.stride == 0], np.int64)
        self.tables |= {"clock": self.run.space.upload(now), "clock_next": self.run.space.upload(np.zeros_like(now))}

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
        cells = next(name for name in _arguments(what) if name.startswith(("first_", "cells_", "receivers_")))
        count = self.tables[cells].shape[0] - cells.startswith("first_")
        return Shape((-(-count // 128), 1, 1), (128, 1), {})

    def _bound(self, what: Any, shape: Shape, names: dict[str, Any], written: Sequence[str], group: Pair) -> Launch:
        arrays = {name: names[name] for name in _arguments(what) if name in names}
        places = {name: _address(array) for name, array in arrays.items()}
        for name, place in places.items():
            if place not in self.views:
                self.views[place] = _device_view(arrays[name])
        values = self.values | shape.integers | {name: self.views[place] for name, place in places.items()}
        writes = frozenset(places[name] for name in written)
        reads = frozenset(places.values()) - writes
        return Launch(what, shape, tuple(values[name] for name in _arguments(what)), reads, writes, group)


def _arguments(what: Any) -> tuple[str, ...]:
    function = getattr(what, "py_func", None) or what.fn
    return tuple(function.__code__.co_varnames[: function.__code__.co_argcount])


def _device_view(array: Any) -> Any:
    """An array as kernels take it."""
    flat = array.reshape(-1)
    return flat if isinstance(array, np.ndarray) else Converted(cuda.as_cuda_array(flat.detach(), sync=False))


def _address(array: Any) -> int:
    return int(array.__array_interface__["data"][0] if isinstance(array, np.ndarray) else array.data_ptr())
