"""The padded grid: where the model, the absorbing layers, the halo and the slabs lie along each axis."""

from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Literal

Region = Literal["full", "interior"]

LANES = 16
"""The fastest axis is computed in blocks of this many cells, so that compiled loops need no remainder."""
FACE_LANES = 8
"""The same for the absorbing slabs of the fastest axis."""


@dataclass(frozen=True)
class Axis:
    """One axis of the padded grid.

    Along it lie a halo that stays zero, the low layer, the model, the high layer, where it is computed in blocks dead
    cells up to a full one (their parameters are zero, and so they stay zero), and the halo again.

    Attributes
    ----------
    name : str
    cells : int
        Cells of the model.
    low, high : int
        Widths of the absorbing layers, in cells.
    spacing : float
    halo : int
    fastest : bool
        Whether the axis is contiguous in memory.
    lead : int
        Further cells before the halo, so that what follows the low slab starts at a multiple of ``align``.
    align : int
        The size is a multiple of it.
    """

    name: str
    cells: int
    low: int
    high: int
    spacing: float
    halo: int
    fastest: bool
    lead: int = 0
    align: int = 1

    @property
    def absorbs(self) -> bool:
        """Whether either face absorbs."""
        return self.low + self.high > 0

    @property
    def in_blocks(self) -> bool:
        """Whether cells are computed in blocks. Aligned rows are for threads, each of which has a cell."""
        return self.fastest and self.align == 1

    @cached_property
    def first(self) -> int:
        """Index of the first computed cell."""
        return self.lead + self.halo

    @cached_property
    def origin(self) -> int:
        """Index of the model's first cell."""
        return self.first + self.low

    @cached_property
    def stop(self) -> int:
        """Index after the high layer's last cell."""
        return self.origin + self.cells + self.high

    @cached_property
    def last(self) -> int:
        """Index after the last computed cell."""
        return self.first + round_up(self.stop - self.first, LANES if self.in_blocks else 1)

    @cached_property
    def size(self) -> int:
        """Cells in all."""
        return round_up(self.last + self.halo, self.align)

    def slab(self, depth: int) -> tuple[int, int]:
        """Where the slabs end and begin again.

        Parameters
        ----------
        depth : int
            Cells beyond the layers' widths that belong to the slabs.

        Returns
        -------
        low_end, high_start : int
            The slabs are ``first:low_end`` and ``high_start:last``.
        """
        lanes = FACE_LANES if self.fastest else 1
        low = min(self.low + depth, self.stop - self.first) if self.low else 0
        high = min(self.high + depth, self.stop - self.first) if self.high else 0
        low_end = min(self.first + round_up(low, lanes), self.last)
        wide = round_up(self.last - (self.stop - high), lanes if self.in_blocks else 1) if high else 0
        return low_end, max(low_end, self.last - wide)

    def moved(self, depth: int) -> int:
        """Cells between the slabs that a memory variable leaves out: those of the high slab lie so much nearer."""
        low_end, high_start = self.slab(depth)
        gap = max(0, high_start - low_end - self.halo)
        return gap if round_up(self.last + self.halo - gap, self.align) < self.size else 0

    def kept(self, depth: int | None) -> list[tuple[int, int]]:
        """Where in an array cells of the model and its layers lie: for a memory variable those in its slabs."""
        if depth is None or not (moved := self.moved(depth)):
            return [(self.first, self.stop)]
        low_end, high_start = self.slab(depth)
        ends = [(self.first, min(low_end, self.stop)), (high_start - moved, self.stop - moved)]
        return [(first, stop) for first, stop in ends if first < stop]

    def slab_size(self, depth: int) -> int:
        """Cells kept along the axis for a memory variable: both slabs, a halo on either side, and one between them."""
        gap = self.moved(depth)
        return round_up(self.last + self.halo - gap, self.align) if gap else self.size


@dataclass(frozen=True)
class Box:
    """Cells of the padded grid from a first one to the one before ``stop``, an entry an axis."""

    first: tuple[int, ...]
    stop: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """Cells along each axis."""
        return tuple(stop - first for first, stop in zip(self.first, self.stop, strict=True))

    @property
    def cells(self) -> int:
        """Cells in all."""
        return prod(self.shape)

    @property
    def slices(self) -> tuple[slice, ...]:
        """The box in an array of the padded grid."""
        return tuple(slice(*ends) for ends in zip(self.first, self.stop, strict=True))


@dataclass(frozen=True)
class Domain:
    """The padded grid of one shot: its axes, slowest first."""

    axes: tuple[Axis, ...]

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Cells along each axis."""
        return tuple(axis.size for axis in self.axes)

    @cached_property
    def cells(self) -> int:
        """Cells in all."""
        return prod(self.shape)

    @property
    def interior(self) -> tuple[slice, ...]:
        """The model and its layers, without halo and dead cells."""
        return tuple(slice(axis.first, axis.stop) for axis in self.axes)

    def box(self, region: Region) -> Box:
        """Every computed cell for "full", the model's own for "interior"."""
        if region == "full":
            return Box(tuple(axis.first for axis in self.axes), tuple(axis.stop for axis in self.axes))
        return Box(tuple(axis.origin for axis in self.axes), tuple(axis.origin + axis.cells for axis in self.axes))

    def rows(self, box: Box, lanes: int) -> Box:
        """A box with cells added along the fastest axis, to begin and to end at blocks of so many computed cells."""
        start = self.axes[-1].first
        first, stop = box.first[-1] - start, box.stop[-1] - start
        return Box((*box.first[:-1], start + first // lanes * lanes), (*box.stop[:-1], start + round_up(stop, lanes)))

    def computed(self, slab: str | None, depth: int) -> list[tuple[slice, ...]]:
        """Where computed cells lie in a field's array, or in that of a memory variable in the slabs of an axis."""
        whole = [slice(axis.first, axis.last) for axis in self.axes]
        if slab is None:
            return [tuple(whole)]
        position = next(k for k, axis in enumerate(self.axes) if axis.name == slab)
        axis = self.axes[position]
        (low, high), moved = axis.slab(depth), axis.moved(depth)
        ends = [slice(axis.first, low), slice(high - moved, axis.last - moved)] if moved else [whole[position]]
        return [(*whole[:position], end, *whole[position + 1 :]) for end in ends]

    @cached_property
    def _slab_shapes(self) -> dict[tuple[str, int], tuple[int, ...]]:
        return {}

    def slab_shape(self, name: str, depth: int) -> tuple[int, ...]:
        """Shape of a memory variable that lives in the slabs of one axis."""
        known = self._slab_shapes
        if (name, depth) not in known:
            known[name, depth] = tuple(axis.slab_size(depth) if axis.name == name else axis.size for axis in self.axes)
        return known[name, depth]


def domain(
    shape: tuple[int, ...],
    widths: tuple[tuple[int, int], ...],
    spacing: tuple[float, ...],
    halo: int,
    names: tuple[str, ...],
    depth: int = 0,
    align: int = 1,
) -> Domain:
    """Lay out the padded grid of a model.

    Parameters
    ----------
    shape : tuple of int
        Cells of the model along each axis.
    widths : tuple of (int, int)
        Layer widths at the low and high face of each axis.
    spacing : tuple of float
    halo : int
        Cells beyond the computed ones that derivatives read.
    names : tuple of str
    depth : int
        Cells beyond the layers' widths that belong to the slabs of the fastest axis.
    align : int
        Along that axis rows are so padded that they, and what follows the low slab, start at multiples of this.

    Returns
    -------
    Domain
    """
    *outer, inner = (
        Axis(name, n, low, high, h, halo, name == names[-1])
        for name, n, (low, high), h in zip(names, shape, widths, spacing, strict=True)
    )
    inner = replace(inner, align=align)
    return Domain((*outer, replace(inner, lead=-inner.slab(depth)[0] % align)))


def round_up(value: int, block: int) -> int:
    """The least multiple of a block's size that is no smaller.

    Parameters
    ----------
    value, block : int

    Returns
    -------
    int
    """
    return -(-value // block) * block
