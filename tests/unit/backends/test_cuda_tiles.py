"""Tiles cover the grid, and points are shared out, whatever the layout."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from numbawave.backends.cuda_tiles import regions_of, shape_of, shares, threads_of, tiles_of
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


def box(tile: np.ndarray, ndim: int) -> tuple[slice, ...]:
    """The cells of a tile."""
    return tuple(slice(first, last) for first, last in tile[: 2 * ndim].reshape(-1, 2))


@BOTH
@pytest.mark.parametrize("case", LAYOUTS, ids=str)
def test_every_cell_lies_in_one_tile_of_one_region(case: Case, split: bool) -> None:
    for run, program in programs(case):
        found, wanted = np.zeros(run.grid.shape, int), np.zeros(run.grid.shape, int)
        wanted[run.grid.interior] = 1
        for region in regions_of(run, program, split):
            for tile in tiles_of(run, program, region):
                found[box(tile, case.ndim)] += 1
        assert np.array_equal(found, wanted)


@BOTH
@pytest.mark.parametrize("case", LAYOUTS, ids=str)
def test_a_tiles_case_names_the_slabs_in_which_all_of_its_cells_lie(case: Case, split: bool) -> None:
    for run, program in programs(case):
        ends = [axis.slab(run.setup.depth(program, axis.name)) for axis in run.grid.axes]
        for region in regions_of(run, program, split):
            for *tile, number in tiles_of(run, program, region).tolist():
                spans = zip(run.grid.axes, ends, tile[::2], tile[1::2], strict=True)
                for axis, (low, high), first, last in spans:
                    inside = last <= low or first >= high
                    assert inside or (first >= low and last <= high), "a tile lies on both sides of a slab's end"
                    assert (axis.name in region.cases[number]) == (inside and axis.absorbs)


@BOTH
@pytest.mark.parametrize("case", [case for case in LAYOUTS if case.accuracy == 2], ids=str)
def test_a_block_has_a_thread_for_each_column_of_a_tile(case: Case, split: bool) -> None:
    for run, program in programs(case):
        for region in regions_of(run, program, split):
            tiles = tiles_of(run, program, region)
            assert tiles.dtype == np.int32
            assert tiles.shape[1:] == (2 * case.ndim + 1,)
            sizes = tiles[:, 1 : 2 * case.ndim : 2] - tiles[:, : 2 * case.ndim : 2]
            assert np.all(sizes > 0)
            assert np.all(sizes <= shape_of(region, case.ndim))
            along_x, before = threads_of(region, case.ndim)
            assert 0 < along_x * before <= 1024
            columns = [*sizes.T][region.march :]
            assert np.all(columns[-1] <= along_x)
            assert len(columns) < 2 or np.all(columns[-2] <= before)
            assert len(columns) < 3 or np.all(columns[-3] == 1)


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
