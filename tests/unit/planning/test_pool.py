"""What PyTorch's allocator takes of a GPU: its rules one by one, and ledgers beside a GPU's own count."""

import pytest
import torch

from numbawave.planning.ledger import Buffer, Ledger, Moment
from numbawave.planning.pool import LARGE, MIB, Block, Pool, held


def array(name: str, size: int, first: Moment = Moment.FORWARD, last: Moment = Moment.BACKWARD, copies: int = 1) -> Buffer:
    return Buffer(name, (size,), "int8", first=first, last=last, copies=copies)


@pytest.mark.parametrize(
    ("size", "taken"),
    [
        (1, 512),
        (MIB, MIB),
        (MIB + 1, MIB + 512),
        (3 * MIB, 3 * MIB),
        (LARGE, LARGE),
        (LARGE + MIB - 512, LARGE + MIB - 512),  # more than 1 MiB is left of a unit of 2 MiB
        (LARGE + MIB, LARGE + 2 * MIB),  # no more than 1 MiB is
        (LARGE + 2 * MIB - 512, LARGE + 2 * MIB),
    ],
)
def test_an_array_alone(size: int, taken: int) -> None:
    assert held(Ledger([array("a", size)]))[Moment.FORWARD] == taken


def test_arrays_share_a_segment_and_the_last_may_take_its_rest() -> None:
    sizes = [held(Ledger([array("a", 6 * MIB + 512 * 1000, copies=n)]))[Moment.FORWARD] for n in (1, 2, 3)]
    each = 6 * MIB + 512 * 1000
    assert sizes == [each, 2 * each, 20 * MIB]  # what three leave, 0.54 MiB, stays with the third


def test_the_smallest_block_that_holds_it() -> None:
    pool = Pool()
    first, second = pool.take(30 * MIB), pool.take(24 * MIB)
    pool.give([first, second])
    assert pool.take(22 * MIB).segment == second.segment
    assert pool.take(22 * MIB).segment == first.segment
    assert pool.segments == 2


def test_blocks_side_by_side_are_one_again() -> None:
    pool = Pool()
    blocks = [pool.take(5 * MIB) for _ in range(4)]
    pool.give([blocks[0], blocks[2]])
    assert len(pool.free) == 2
    pool.give([blocks[1], blocks[3]])
    assert pool.free == [Block(20 * MIB, 0, 0)]


def test_what_is_gone_is_used_again() -> None:
    ledger = Ledger(
        [
            array("ahead", 11 * MIB + 512, last=Moment.FORWARD),
            array("back", 11 * MIB, first=Moment.BACKWARD),
            array("never", 11 * MIB, copies=0),
            Buffer("host", (MIB,), "int8", "host"),
        ]
    )
    assert held(ledger) == {Moment.FORWARD: 12 * MIB, Moment.BETWEEN: 0, Moment.BACKWARD: 12 * MIB}


@pytest.mark.gpu
@pytest.mark.parametrize("sizes", [(3 * MIB + 7, 11 * MIB, 5_500_000, 6_600_000, 700_000), (25_000_000, 1_100_000) * 3])
def test_a_gpu_counts_the_same(sizes: tuple[int, ...]) -> None:
    if not torch.cuda.is_available():
        pytest.skip("needs a GPU")
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    base = torch.cuda.memory_allocated()
    kept = [torch.empty(size, dtype=torch.int8, device="cuda") for size in sizes]
    taken = torch.cuda.memory_allocated() - base
    del kept
    assert taken == held(Ledger(array(str(k), size) for k, size in enumerate(sizes)))[Moment.FORWARD]
