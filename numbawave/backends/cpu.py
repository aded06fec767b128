"""The door to Numba on the CPU: the decorators that printed modules use, and the backend that runs them."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numba
import numpy as np
from numba import prange as prange
from numba.core import config
from numba.core.compiler import Compiler, CompilerBase, DefaultPassBuilder
from numba.core.compiler_lock import global_compiler_lock
from numpy.typing import NDArray

from numbawave.backends import local_size
from numbawave.backends.base import Advance, Coder, Direction, exchange, grid_values, history_use
from numbawave.codegen.loop_cpu import source as source
from numbawave.codegen.module_cache import load, on_disk, one_process
from numbawave.grid.domain import LANES

_ONE_AT_A_TIME = threading.Lock()
"""Not every threading layer of Numba may be entered by two threads; each call uses all cores anyway."""

CELLS_PER_THREAD = 6000
"""Fewer cells than this are no work for another thread: waiting for each other after every step would cost more."""

FAST = {"nsz"}
"""Nothing is reordered or fused, so every variant of a kernel rounds alike: with history or without, compiled in this
process or found on disk, on any processor. NaN keeps its meaning."""


@contextmanager
def _effort(level: int) -> Iterator[None]:
    """LLVM's level of optimisation while this thread holds Numba's lock."""
    with global_compiler_lock:
        before = config.OPT
        config.OPT = type(before)(level)
        try:
            yield
        finally:
            config.OPT = before


class _Kernel(CompilerBase):
    """Numba's usual compiler, told that a call's arrays do not overlap, so that loops become vectors unguarded."""

    def define_pipelines(self) -> list[Any]:
        self.state.flags.noalias = True
        return [DefaultPassBuilder.define_nopython_pipeline(self.state)]

    def compile_extra(self, func: Any) -> Any:
        with _effort(3):
            return super().compile_extra(func)


class _Loop(Compiler):
    """Numba's usual compiler in a hurry: the loop over time only calls kernels, which are optimised already."""

    def compile_extra(self, func: Any) -> Any:
        with _effort(1):
            return super().compile_extra(func)


def kernel(function: Callable[..., Any]) -> Any:
    """Compile a rows function of a printed module."""
    options = {
        "fastmath": FAST,
        "error_model": "numpy",
        "nogil": True,
        "no_cpython_wrapper": True,
        "no_cfunc_wrapper": True,
    }
    return numba.njit(pipeline_class=_Kernel, cache=on_disk(function.__code__.co_filename), **options)(function)


def loop(function: Callable[..., Any]) -> Any:
    """Compile a loop over time of a printed module; its ``prange`` shares rows between threads."""
    options = {"parallel": True, "error_model": "numpy", "nogil": True}
    return numba.njit(pipeline_class=_Loop, cache=on_disk(function.__code__.co_filename), **options)(function)


@contextmanager
def _threads(count: int) -> Iterator[None]:
    """Let this thread's Numba calls use so many threads."""
    before = numba.get_num_threads()
    numba.set_num_threads(count)
    try:
        yield
    finally:
        numba.set_num_threads(before)


def _cores() -> int:
    """Threads for this process: its part of those of the ranks of a machine, unless ``NUMBA_NUM_THREADS`` says it."""
    n_ranks = 1 if "NUMBA_NUM_THREADS" in os.environ else local_size()
    return max(1, int(numba.get_num_threads()) // n_ranks)


class Cpu:
    """Backend ``"cpu"``: printed loops, compiled by Numba when first used."""

    name = "cpu"
    chunk = 200_000_000
    align = 1
    lanes = LANES

    def loop(self, run: Any, direction: Direction, arrays: dict[str, NDArray[Any]], history: bool) -> Advance:
        """See ``Backend``."""
        program = run.setup.program(direction)
        title = f"{program.name}_{len(program.axes)}d"
        text = source(run.setup, direction, history_use(run, direction, history), run.real)
        module = load(title, text, sorted(FAST))
        function = getattr(module, direction)
        threads = self.workers(run)
        values = grid_values(run, program)
        values["parts"] = _parts(run.grid, values, threads)
        values |= {name: len(arrays[what]) for name, what in (("slots", "history"), ("rings", "ring")) if what in arrays}
        values["stride"] = run.stride
        code = function.py_func.__code__
        names = code.co_varnames[: code.co_argcount]

        def advance(first: int, last: int) -> None:
            flat = {name: arrays[name].reshape(-1) for name in names if name in arrays}
            given = values | flat | {"first_step": first, "last_step": last}
            with _ONE_AT_A_TIME, _threads(threads):
                if not function.signatures:
                    with one_process(module):  # no step is taken: the first of the ranks compiles, the others find it done
                        function(*((given | {"last_step": first})[name] for name in names))
                function(*(given[name] for name in names))
            exchange(program, arrays, last - first)

        return advance

    def workers(self, run: Any) -> int:
        """See ``Backend``."""
        return int(min(_cores(), max(1, run.grid.cells * run.shots // CELLS_PER_THREAD)))

    def copies(self, run: Any) -> int:
        """See ``Backend``."""
        return 0

    def coder(self, space: Any) -> Coder:
        """See ``Backend``."""
        from numbawave.backends.coding_cpu import CpuCoder

        return CpuCoder()


def _parts(grid: Any, integers: dict[str, Any], threads: int) -> NDArray[np.uint64]:
    """Where each thread's rows begin: equal shares of the work, a row in a slab counting about twice for each axis."""
    work: NDArray[Any] = np.ones(1)
    for axis in grid.axes[:-1]:
        at = np.arange(axis.first, axis.last)
        extra = (at < integers[f"{axis.name}_low"]) | (at >= integers[f"{axis.name}_high"])
        work = (work[:, None] + np.where(extra, 1.5, 0.0)[None, :]).ravel()
    total = np.cumsum(work)
    cuts = np.searchsorted(total, total[-1] * np.arange(1, threads) / threads) + 1
    return np.concatenate([[0], np.minimum(cuts, work.size), [work.size]]).astype(np.uint64)
