"""Where halo, layers, model and slabs lie along an axis, plain and aligned."""

from itertools import product

import pytest

from numbawave.grid.domain import LANES, Domain, domain

LAYOUTS = list(product((1, 5, 40, 100), ((0, 0), (3, 0), (0, 3), (2, 5), (20, 20)), (1, 4), (0, 5)))


def laid_out(cells: int, widths: tuple[int, int], halo: int, depth: int, align: int) -> Domain:
    return domain((3, cells), ((1, 2), widths), (1.0, 1.0), halo, ("z", "x"), depth, align)


@pytest.mark.parametrize(("cells", "widths", "halo", "depth"), LAYOUTS)
@pytest.mark.parametrize("align", [1, 32])
def test_the_parts_of_an_axis_follow_one_another(
    cells: int, widths: tuple[int, int], halo: int, depth: int, align: int
) -> None:
    for axis, n, (low, high) in zip(
        laid_out(cells, widths, halo, depth, align).axes, (3, cells), ((1, 2), widths), strict=True
    ):
        assert axis.first == axis.lead + halo
        assert (axis.origin - axis.first, axis.stop - axis.origin) == (low, n + high)
        assert axis.stop <= axis.last <= axis.size - halo
        assert (axis.last - axis.first) % (LANES if axis.in_blocks else 1) == 0
        assert axis.last == axis.stop or axis.in_blocks
        low_end, high_start = axis.slab(depth)
        assert axis.first <= low_end <= high_start <= axis.last
        assert not low or low_end >= min(axis.origin + depth, axis.stop)
        assert not high or high_start <= max(axis.stop - high - depth, low_end)


@pytest.mark.parametrize(("cells", "widths", "halo", "depth"), LAYOUTS)
@pytest.mark.parametrize("align", [8, 32])
def test_aligned_rows_start_at_multiples(cells: int, widths: tuple[int, int], halo: int, depth: int, align: int) -> None:
    *_, inner = laid_out(cells, widths, halo, depth, align).axes

    assert inner.size % align == 0
    assert inner.slab(depth)[0] % align == 0
    assert 0 <= inner.lead < align
    assert inner.slab_size(depth) % align == 0


@pytest.mark.parametrize(("cells", "widths", "halo", "depth"), LAYOUTS)
@pytest.mark.parametrize("align", [1, 32])
def test_slab_rows_hold_both_slabs_and_their_halo(
    cells: int, widths: tuple[int, int], halo: int, depth: int, align: int
) -> None:
    """A cell of the low slab is kept where it lies, one of the high slab by so much nearer as is left out between them."""
    for axis in laid_out(cells, widths, halo, depth, align).axes:
        low_end, high_start = axis.slab(depth)
        kept, moved = axis.slab_size(depth), axis.moved(depth)
        assert kept < axis.size or (kept == axis.size and not moved)
        assert not moved or high_start - moved == low_end + halo
        assert axis.last - moved + halo <= kept
        assert axis.last - moved + halo + max(align if axis.fastest else 1, 1) > kept or not moved


@pytest.mark.parametrize(("cells", "widths", "halo", "depth"), LAYOUTS)
def test_aligned_rows_fill_no_block_of_the_high_slab(cells: int, widths: tuple[int, int], halo: int, depth: int) -> None:
    plain, aligned = (laid_out(cells, widths, halo, depth, align) for align in (1, 32))
    assert plain.axes[0] == aligned.axes[0]
    one, other = plain.axes[1], aligned.axes[1]
    for name in ("first", "origin", "stop"):
        assert getattr(other, name) - getattr(one, name) == other.lead
    (low_end, blocks_start), (aligned_end, high_start) = one.slab(depth), other.slab(depth)
    assert aligned_end == min(low_end + other.lead, other.stop)
    assert high_start >= blocks_start + other.lead or not widths[1]
    needed = min(widths[1] + depth, other.stop - other.first) if widths[1] else 0
    assert high_start == max(aligned_end, other.stop - needed if needed else other.last)
