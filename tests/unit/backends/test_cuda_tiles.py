"""Tiles cover the grid, and points are shared out, whatever the layout."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from numbawave.backends.cuda_tiles import SHAPES as SHAPES_OF_TILES
from numbawave.backends.cuda_tiles import WARP, Shape, launch_shape, regions_of, shares, spots, tile_of
from numbawave.codegen.region import Region
from tests.contract.experiment import UPDATES, Case, Experiment

SHAPES = {1: [(1,), (5,), (70,), (300,)], 2: [(1, 1), (4, 5), (21, 35), (40, 130)], 3: [(1, 1, 1), (2, 4, 5), (9, 20, 70)]}
WIDTHS = [((0, 0),) * 3, ((2, 3),) * 3, ((1, 0), (0, 0), (0, 4)), ((0, 9), (5, 5), (20, 1))]
LAYOUTS = [
    Case(equation, ndim, accuracy, shape=shape, widths=widths, align=32)
    for equation in UPDATES
    for ndim in SHAPES
    for shape in SHAPES[ndim]
    for widths in WIDTHS
    for accuracy in (2, 8)
]
BOTH = pytest.mark.parametrize("split", [True, False], ids=["regions", "whole"])


def programs(case: Case) -> Iterator[tuple[Any, Any]]:
    """The run, with its forward and with its adjoint program."""
    run = Experiment(case).run
    yield run, run.setup.forward
    yield run, run.setup.adjoint.program


def along(axis: Any, place: int, region: Region, shape: Shape) -> np.ndarray:
    """The cells along an axis that threads take: what the printed kernels do with the launch's integers."""
    low, high, stop = (int(shape.integers[f"{axis.name}_{end}"]) for end in ("low", "high", "stop"))
    blocks = int(shape.integers[f"{axis.name}_tiles"]) if place == 2 else shape.blocks[place]
    inside = any(axis.name in case for case in region.cases)
    if region.march and f"{axis.name}_planes" in shape.integers:
        planes = int(shape.integers[f"{axis.name}_planes"])
        columns = [range(low + k * planes, min(low + (k + 1) * planes, high)) for k in range(blocks)]
        return np.array([cell for column in columns for cell in column], int)
    cells = np.arange(blocks * (shape.threads[place] if place < 2 else 1)) + (axis.first if inside else low)
    if len({axis.name in case for case in region.cases}) == 1 and inside:
        cells[cells >= low] += high - low
    return cells[cells < (stop if inside else high)]


@BOTH
@pytest.mark.parametrize("case", LAYOUTS, ids=str)
def test_every_cell_lies_in_one_region_and_in_its_case(case: Case, split: bool) -> None:
    for run, program in programs(case):
        found, wanted = np.zeros(run.grid.shape, int), np.zeros(run.grid.shape, int)
        wanted[run.grid.interior] = 1
        for region in regions_of(run, program, split):
            shape = launch_shape(run, program, region, case.shots)
            taken = [along(axis, case.ndim - 1 - k, region, shape) for k, axis in enumerate(run.grid.axes)]
            found[np.ix_(*taken)] += 1
            for axis, cells in zip(run.grid.axes, taken, strict=True):
                low, high = axis.slab(run.setup.depth(program, axis.name))
                inside = {bool(value) for value in (cells < low) | (cells >= high)}
                assert inside <= {axis.name in member for member in region.cases}
        assert np.array_equal(found, wanted)


@BOTH
@pytest.mark.parametrize("case", LAYOUTS[::3], ids=str)
def test_launches_stay_within_what_devices_take(case: Case, split: bool) -> None:
    for run, program in programs(case):
        for region in regions_of(run, program, split):
            for groups in (1, 3, 200_000):
                shape = launch_shape(run, program, region, groups)
                assert max(shape.blocks[1:]) <= 65_535
                assert 0 < shape.threads[0] * shape.threads[1] <= 1024
                assert 1 <= int(shape.integers["shot_step"]) <= groups


@pytest.mark.parametrize("ndim", [2, 3])
def test_tiles_of_the_fastest_axis_slabs_leave_few_threads_idle(ndim: int) -> None:
    region = Region("x", (frozenset("x"),))
    for width in range(300):
        *slower, across = tile_of(region, ndim, 4, width)
        turns = -(-width // across)
        assert across <= 2 * WARP
        assert turns * across - width < max(1, turns)  # an even part, rounded up
        assert -(-slower[-1] * across // WARP) * WARP <= 1024


@pytest.mark.parametrize("width", range(1, 300, 7))
def test_interior_tiles_are_as_large_and_cover_no_more_than_the_wide_ones(width: int) -> None:
    region = Region("interior", (frozenset(),), march=True)
    found, wide = tile_of(region, 3, 4, width), SHAPES_OF_TILES[3, "interior"]
    assert found[-2] * found[-1] == wide[-2] * wide[-1]
    assert -(-width // found[-1]) * found[-1] <= -(-width // wide[-1]) * wide[-1]


@pytest.mark.parametrize("cells", [[], [4], [7, 7, 7], [5, 2, 5, 9, 2, 5], list(range(20, 0, -1))], ids=str)
def test_points_are_shared_out_by_cell_and_in_their_order(cells: list[int]) -> None:
    first, order = shares(np.array(cells, np.int64))

    groups = [order[a:b].tolist() for a, b in pairwise(first)]
    assert groups == [[k for k, cell in enumerate(cells) if cell == value] for value in sorted(set(cells))]
    assert {first.dtype, order.dtype} == {np.dtype("int64")}


def test_many_points_are_shared_out(rng: np.random.Generator) -> None:
    cells = rng.integers(0, 50, 1000)
    first, order = shares(cells)
    assert np.array_equal(np.sort(order), np.arange(1000))
    for a, b in pairwise(first):
        assert len(set(cells[order[a:b]])) == 1
        assert np.all(np.diff(order[a:b]) > 0)


def test_the_owner_of_a_cell_finds_the_points_in_it(rng: np.random.Generator) -> None:
    for count, many in ((1, 0), (31, 5), (32, 40), (200, 3), (200, 500)):
        cells = {"a": rng.integers(0, count, many), "b": rng.integers(0, count, many // 2), "none": np.zeros(0, np.int64)}
        tables = spots(cells, count)
        row = 0
        for cell in range(count):
            word, bit = int(tables["spots"][cell // 32]), 1 << cell % 32
            here = {name: np.flatnonzero(each == cell).tolist() for name, each in cells.items()}
            assert bool(word & bit) == any(here.values())
            if word & bit:
                assert (word >> 32) + (word & (bit - 1)).bit_count() == row
                for name, wanted in here.items():
                    first, last = tables[f"starts_{name}"][row : row + 2]
                    assert tables[f"points_{name}"][first:last].tolist() == wanted
                row += 1
        assert all(len(tables[f"starts_{name}"]) == row + 1 for name in cells)
