"""How a region of the grid is cut into tiles, one a block of threads, and how points are shared out among threads."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from numbawave.codegen.region import Region, regions
from numbawave.errors import InvalidValueError
from numbawave.grid.domain import Axis, round_up

LARGEST = 65_535
"""Blocks of a launch along the second and the third axis, at most."""

SHAPES: dict[tuple[int, str], tuple[int, ...]] = {
    (1, "any"): (128,),
    (2, "interior"): (8, 128),
    (2, "any"): (4, 32),
    (3, "interior"): (8, 4, 64),
    (3, "any"): (1, 2, 32),
}
"""By axes and region: cells of a tile along each axis, slowest first; the fastest of those tried on an H200."""

WIDE: dict[tuple[int, str], tuple[int, ...]] = {(3, "any"): (1, 4, 64)}
"""The same where order 8, whose threads share more of what they read, has other ones."""

WARP = 32
"""Threads that run together."""


def regions_of(run: Any, program: Any, split: bool) -> list[Region]:
    """The regions of a program's grid."""
    return regions(program.axes, program.slabs, split)


def tile_of(region: Region, ndim: int, accuracy: int, width: int) -> tuple[int, ...]:
    """The tile of a region that has so many cells in a row: see ``SHAPES``, but that few of its threads are idle.

    In slabs of the fastest axis it is as wide as the row, or an even part of it. Only threads that march have several
    planes of a 3-D grid.
    """
    shapes = SHAPES | WIDE if accuracy == 8 else SHAPES
    shape = shapes.get((ndim, region.name), shapes[ndim, "any"])
    if ndim > 1 and region.name.startswith("x"):
        across = max(1, -(-width // max(1, -(-width // (2 * WARP)))))
        rows = min((2, 3, 4), key=lambda k: float(round_up(k * across, WARP)) / k)
        shape = (*shape[:-2], rows, across)
    elif ndim == 3 and round_up(width, WARP) < round_up(width, shape[-1]):
        shape = (*shape[:-2], shape[-2] * shape[-1] // WARP, WARP)
    return shape if region.march or ndim < 3 else (1, *shape[1:])


@dataclass(frozen=True)
class Shape:
    """How a region is launched: blocks, threads of a block, and the integers that tell a thread its cell."""

    blocks: tuple[int, int, int]
    threads: tuple[int, int]
    integers: dict[str, np.uint32]


def launch_shape(run: Any, program: Any, region: Region, groups: int) -> Shape:
    """How a region of a run's grid is launched.

    Parameters
    ----------
    run : Run
    program : Program
    region : Region
    groups : int
        Shots at a time, at most; a thread takes the others afterwards.

    Raises
    ------
    InvalidValueError
        If the grid has more cells along an axis than a launch can have blocks.
    """
    axes = run.grid.axes
    depths = tuple(run.setup.depth(program, axis.name) for axis in axes)
    return _shape(axes, depths, run.setup.accuracy, region, groups, LARGEST)


@lru_cache(maxsize=512)
def _shape(
    axes: tuple[Axis, ...], depths: tuple[int, ...], accuracy: int, region: Region, groups: int, largest: int
) -> Shape:
    integers: dict[str, int] = {}
    sizes = []
    for axis, depth in zip(axes, depths, strict=True):
        low, high = (min(end, axis.stop) for end in axis.slab(depth))
        outside = axis.stop - axis.first - (high - low)
        inside = any(axis.name in case for case in region.cases)
        plain = any(axis.name not in case for case in region.cases)
        sizes.append((high - low) * plain + outside * inside)
        integers |= {
            f"{axis.name}_{end}": value for end, value in zip(("low", "high", "stop"), (low, high, axis.stop), strict=True)
        }
    tile = tile_of(region, len(axes), accuracy, sizes[-1])
    tiles = [-(-size // cells) for size, cells in zip(sizes, tile, strict=True)]
    slow = axes[0].name
    for axis, count in list(zip(axes, tiles, strict=True))[:-1]:
        if count > largest:
            rule = f"a launch has at most {largest} blocks along this axis"
            remedy = "make the longest axis the last one"
            raise InvalidValueError("the model", f"{axis.size} cells along {axis.name}", rule, remedy)
    planes = tiles[0] if len(axes) == 3 else 1
    shots = max(1, min(groups, largest // max(planes, 1)))
    integers |= {f"{slow}_tiles": planes, f"{slow}_planes": tile[0], "shot_step": shots}
    blocks = (tiles[-1], tiles[-2] if len(tiles) > 1 else 1, planes * shots)
    threads = (tile[-1], 1 if len(tile) - region.march < 2 else tile[-2])
    return Shape(blocks, threads, {name: np.uint32(value) for name, value in integers.items()})


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


def spots(cells: dict[str, NDArray[np.int64]], count: int) -> dict[str, NDArray[np.int64]]:
    """Tables by which the thread that owns a cell finds the points in it.

    Parameters
    ----------
    cells : dict of str to ndarray of int64
        Cells of points by name.
    count : int
        Cells that there are, of all shots.

    Returns
    -------
    dict of str to ndarray of int64
        ``"spots"``: see ``codegen.points_cuda.spots``; for each name ``"points_<name>"``, sorted by cell, each cell's in
        their own order; and ``"starts_<name>"``: where those of the n-th cell with points begin.
    """
    rows = np.unique(np.concatenate(list(cells.values())))
    word = rows >> 5
    words = np.repeat(np.arange(rows.size + 1) << 32, np.diff(word + 1, prepend=0, append=-(-count // 32)))
    np.bitwise_or.at(words, word, 1 << (rows & 31))
    found = {"spots": words}
    for name, each in cells.items():
        order = np.argsort(each, kind="stable")
        found[f"points_{name}"] = order.astype(np.int64)
        found[f"starts_{name}"] = np.append(np.searchsorted(each[order], rows), each.size).astype(np.int64)
    return found
