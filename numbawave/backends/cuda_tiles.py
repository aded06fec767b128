"""How a grid is cut into tiles, one a block of threads, and how points are shared out among threads."""

from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from numbawave.codegen.shell_cuda import Region, regions

SHAPES: dict[tuple[int, str], tuple[int, ...]] = {
    (1, "any"): (128,),
    (2, "interior"): (8, 128),
    (2, "x"): (8, 24),
    (2, "all"): (4, 32),
    (2, "any"): (4, 64),
    (3, "interior"): (32, 8, 64),
    (3, "x"): (1, 8, 24),
    (3, "all"): (1, 4, 32),
    (3, "any"): (1, 4, 64),
}
"""By axes and region: cells of a tile along each axis, slowest first."""


def regions_of(run: Any, program: Any, split: bool) -> list[Region]:
    """The regions of a program's grid."""
    absorbing = frozenset().union(*(stage.slabs() for stage in program.stages))
    return regions(program.axes, absorbing, split)


def shape_of(region: Region, ndim: int) -> tuple[int, ...]:
    """The tile of a region, see ``SHAPES``; only threads that march have several planes of a 3-D grid."""
    shape = SHAPES.get((ndim, region.name), SHAPES[ndim, "any"])
    return shape if region.march or ndim < 3 else (1, *shape[1:])


def threads_of(region: Region, ndim: int) -> tuple[int, int]:
    """Threads of a block along x and along the axis before it."""
    shape = shape_of(region, ndim)
    return shape[-1], 1 if len(shape) - region.march < 2 else shape[-2]


def tiles_of(run: Any, program: Any, region: Region) -> NDArray[np.int32]:
    """The tiles of a region.

    Returns
    -------
    ndarray, shape [tiles, 2 * ndim + 1], int32
        The first cell along each axis, and the one after the last; the number of the tile's case.
    """
    tile = shape_of(region, len(run.grid.axes))
    tables = []
    for number, case in enumerate(region.cases):
        for box in _boxes(run, program, case):
            starts = [np.arange(low, high, size) for (low, high), size in zip(box, tile, strict=True)]
            corners = np.stack(np.meshgrid(*starts, indexing="ij"), -1).reshape(-1, len(tile))
            ends = np.minimum(corners + tile, [high for _, high in box])
            table = np.stack([corners, ends], -1).reshape(len(corners), -1)
            tables.append(np.column_stack([table, np.full(len(table), number)]))
    return np.concatenate([*tables, np.zeros((0, 2 * len(tile) + 1))]).astype(np.int32)


def _boxes(run: Any, program: Any, case: frozenset[str]) -> list[list[tuple[int, int]]]:
    """The boxes of a case, as ranges along each axis."""
    ranges = []
    for axis in run.grid.axes:
        low, high = axis.slab(run.setup.depth(program, axis.name))
        low, high = min(low, axis.stop), min(high, axis.stop)
        ends = [(axis.first, low), (high, axis.stop)] if axis.name in case else [(low, high)]
        ranges.append([(first, last) for first, last in ends if first < last])
    return [list(box) for box in product(*ranges)]


def shares(cells: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Points sorted by their cell, so that one thread takes all that share it, in their own order.

    Returns
    -------
    first, order : ndarray of int64
        The points of the n-th cell are ``order[first[n]:first[n + 1]]``.
    """
    order = np.argsort(cells, kind="stable")
    _, first = np.unique(cells[order], return_index=True)
    return np.append(first, cells.size).astype(np.int64), order.astype(np.int64)
