"""Kernels with their arguments, and what of the grid each touches, from which it follows what waits for what."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from numbawave.backends.cuda import address, device_view
from numbawave.backends.cuda_tiles import Shape
from numbawave.codegen.region import Case

Pair = tuple[int, int]
Views = dict[tuple[int, int, Any], Any]
Part = tuple[int, Case | None]
"""An array by its address, and of it the cells of a case; all of it for None."""


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
        By address, size and dtype: arrays as kernels take them, for all launches that share it.
    reads, writes : frozenset of (int, case)
        Parts of the arrays.
    group : tuple of int
        Launches of one group write different cells and read what none of them writes; a lone launch is its own group.
    """

    kernel: Any
    shape: Shape
    arguments: tuple[Any, ...]
    views: Views
    reads: frozenset[Part]
    writes: frozenset[Part]
    group: Pair

    def __call__(self, stream: Any) -> None:
        """Queue the kernel on a stream."""
        self.kernel[self.shape.blocks, self.shape.threads, stream](*map(self._taken, self.arguments))

    @property
    def types(self) -> tuple[Any, ...]:
        """The types for which the kernel is compiled."""
        return tuple(self.kernel.typeof_pyval(self._taken(value)) for value in self.arguments)

    def _taken(self, value: Any) -> Any:
        if isinstance(value, np.generic):
            return value
        key = address(value), size(value), value.dtype
        if key not in self.views:
            self.views[key] = device_view(value)
        return self.views[key]

    def after(self, other: Launch) -> bool:
        """Whether this launch must wait for another."""
        if self.group == other.group:
            return False
        return bool(self.writes & (other.writes | other.reads) or self.reads & other.writes)


@lru_cache(maxsize=1024)
def arguments(kernel: Any) -> tuple[str, ...]:
    """The names of a kernel's arguments."""
    function = getattr(kernel, "py_func", None) or kernel.fn
    return tuple(function.__code__.co_varnames[: function.__code__.co_argcount])


def size(array: Any) -> int:
    """Elements of an array."""
    return int(array.size if isinstance(array, np.ndarray) else array.numel())


def touched(
    places: Mapping[str, int], written: Iterable[str], cover: Iterable[Case], near: Iterable[Case]
) -> tuple[frozenset[Part], frozenset[Part]]:
    """What a kernel reads and writes.

    Parameters
    ----------
    places : mapping of str to int
        Addresses of the arrays that it takes.
    written : iterable of str
        Names of those that it writes, at its own cells alone.
    cover, near : iterable of frozenset of str
        The cases of its cells, and of those that it may read.

    Returns
    -------
    reads, writes : frozenset of (int, case)
    """
    written = set(written)

    def parts(name: str, cases: Iterable[Case]) -> Iterable[Part]:
        return ((places[name], case) for case in ((None,) if name.startswith("clock") else cases))

    reads = frozenset(part for name in places if name not in written for part in parts(name, near))
    return reads, frozenset(part for name in written for part in parts(name, cover))


def neighbours(cases: Iterable[Case], cover: Iterable[Case], corner: int) -> list[Case]:
    """The cases of cells that may be read from some.

    Parameters
    ----------
    cases : iterable of frozenset of str
        All that the grid has.
    cover : iterable of frozenset of str
        Those read from.
    corner : int
        The most axes along which a neighbour is away: as many slabs can lie between.
    """
    return [case for case in cases if any(len(case ^ own) <= corner for own in cover)]


def cases_at(run: Any, program: Any, cells: NDArray[np.int64]) -> frozenset[Case]:
    """The cases of points, by their flat indices into the fields of all shots."""
    found, slabs = np.zeros(cells.size, np.int64), [axis for axis in run.grid.axes if axis.name in program.slabs]
    places = dict(zip(program.axes, np.unravel_index(cells % run.grid.cells, run.grid.shape), strict=True))
    for bit, axis in enumerate(slabs):
        (low, high), place = axis.slab(run.setup.depth(program, axis.name)), places[axis.name]
        found |= ((place < low) | (place >= high)).astype(np.int64) << bit
    codes = set(found.tolist())
    return frozenset(frozenset(axis.name for bit, axis in enumerate(slabs) if code >> bit & 1) for code in codes)
