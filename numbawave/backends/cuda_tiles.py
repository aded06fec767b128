"""How a grid is cut into tiles, one a block of threads, and how points are shared out among threads."""

from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

SHAPES: dict[tuple[int, str], tuple[int, int, int]] = {
    (1, "any"): (128, 1, 1),
    (2, "any"): (64, 4, 1),
    (2, "x"): (24, 8, 1),
    (3, "interior"): (64, 8, 32),
    (3, "x"): (24, 8, 16),
    (3, "any"): (64, 4, 8),
}
"""By axes and region: threads along x, threads along the axis before it, and planes that a thread marches through."""


def shape_of(region: str, ndim: int) -> tuple[int, int, int]:
    """The tile of a region, see ``SHAPES``."""
    return SHAPES.get((ndim, region), SHAPES[ndim, "any"])


def tiles_of(run: Any, program: Any, region: str) -> NDArray[np.int32]:
    """The tiles of a region.

    Returns
    -------
    ndarray, shape [tiles, 2 * ndim], int32
        The first cell along each axis, and the one after the last.
    """
    axes = run.grid.axes
    tile = shape_of(region, len(axes))[: len(axes)][::-1]
    found = []
    for box in _boxes(run, program, region):
        ranges = [
            [(first, min(first + size, high)) for first in range(low, high, size)]
            for (low, high), size in zip(box, tile, strict=True)
        ]
        found += [[end for ends in one for end in ends] for one in product(*ranges)]
    return np.array(found, np.int32).reshape(-1, 2 * len(axes))


def _boxes(run: Any, program: Any, region: str) -> list[list[tuple[int, int]]]:
    """The boxes of a region, as ranges along each axis."""
    if region == "all":
        return [[(axis.first, axis.stop) for axis in run.grid.axes]]
    pieces = []
    for axis in run.grid.axes:
        low, high = axis.slab(run.setup.depth(program, axis.name))
        low, high = min(low, axis.stop), min(high, axis.stop)
        pieces.append([(axis.name, axis.first, low), ("", low, high), (axis.name, high, axis.stop)])
    found = []
    for box in product(*pieces):
        slabs = [name for name, _, _ in box if name]
        kind = "interior" if not slabs else slabs[0] if len(slabs) == 1 else "edges"
        if kind == region and all(first < last for _, first, last in box):
            found.append([(first, last) for _, first, last in box])
    return found


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
