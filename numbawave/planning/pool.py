"""What PyTorch's allocator takes of a GPU for the buffers of a ledger.

It takes memory from the device in segments, gives each array the smallest free block that holds it, and cuts off the rest
only if that is more than 1 MiB. Followed here from an empty cache, by the phases of a call.
Source: PyTorch, ``c10/cuda/CUDACachingAllocator.cpp``, without its options.
"""

from __future__ import annotations

from typing import NamedTuple

from numbawave.planning.ledger import Buffer, Ledger, Moment

MIB = 2**20
ROUND = 512
"""Arrays take multiples of so many bytes."""

SMALL = MIB
"""Up to so many bytes an array comes from segments of its own kind, and takes no more than that."""

LARGE, SHARED, UNIT = 10 * MIB, 20 * MIB, 2 * MIB
"""From ``LARGE`` on a segment is made for the array, in multiples of ``UNIT``; smaller ones share segments."""


class Block(NamedTuple):
    """A piece of a segment."""

    size: int
    segment: int
    start: int

    def cut(self, size: int) -> tuple[Block, Block]:
        """Its first bytes, and the others."""
        return self._replace(size=size), Block(self.size - size, self.segment, self.start + size)


class Pool:
    """Free blocks, and how many segments there are."""

    def __init__(self) -> None:
        self.free: list[Block] = []
        self.segments = 0

    def take(self, size: int) -> Block:
        """A block for an array."""
        size = -(-size // ROUND) * ROUND
        if size <= SMALL:
            return Block(size, -1, 0)
        block = min((block for block in self.free if block.size >= size), default=None)
        if block is None:
            block = Block(SHARED if size < LARGE else -(-size // UNIT) * UNIT, self.segments, 0)
            self.segments += 1
        else:
            self.free.remove(block)
        if block.size - size > SMALL:
            block, rest = block.cut(size)
            self.free.append(rest)
        return block

    def give(self, blocks: list[Block]) -> None:
        """Take blocks back, and join those that lie side by side."""
        joined: list[Block] = []
        for block in sorted((*self.free, *(b for b in blocks if b.segment >= 0)), key=lambda b: (b.segment, b.start)):
            last = joined[-1] if joined else None
            if last is not None and (last.segment, last.start + last.size) == (block.segment, block.start):
                joined[-1] = last._replace(size=last.size + block.size)
            else:
                joined.append(block)
        self.free = joined


def held(ledger: Ledger) -> dict[Moment, int]:
    """Bytes of the blocks that a ledger's buffers on a GPU have, by moment.

    Parameters
    ----------
    ledger : Ledger

    Returns
    -------
    dict of Moment to int
    """
    pool, used, found = Pool(), dict[Buffer, list[Block]](), {}
    for moment in Moment:
        pool.give([block for gone in [b for b in used if b.last < moment] for block in used.pop(gone)])
        for buffer in ledger:
            if buffer.place == "device" and buffer.first == moment <= buffer.last:
                used[buffer] = [pool.take(buffer.bytes // buffer.copies) for _ in range(buffer.copies)]
        found[moment] = sum(block.size for blocks in used.values() for block in blocks)
    return found
