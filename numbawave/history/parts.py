"""A segment of steps in parts, each of which has a few slots of history."""

from collections.abc import Iterator
from dataclasses import dataclass

PART_BYTES = 64 * 2**20
"""About so many bytes of values move at a time: enough to keep a link busy, little beside a field of a large grid."""


@dataclass(frozen=True)
class Part:
    """Steps ``first`` to ``last - 1``, whose history has ``slots`` slots from number ``slot`` on.

    Parts are numbered from the start of the run, and in their segment by ``place``.
    """

    number: int
    place: int
    first: int
    last: int
    slot: int
    slots: int


def slots_a_part(slot_bytes: int, most: int) -> int:
    """Slots that move at a time: an even number where there are so many, as steps are replayed in pairs."""
    wanted = max(2, PART_BYTES // slot_bytes // 2 * 2)
    return max(1, min(wanted, most))


def parts(first: int, last: int, slots: int, stride: int) -> Iterator[Part]:
    """The parts of some steps; a part begins where the number of its slot is a multiple of ``slots``."""
    steps = slots * stride
    for place, number in enumerate(range(first // steps, -(-last // steps))):
        start, stop = max(first, number * steps), min(last, (number + 1) * steps)
        slot, end = -(-start // stride), -(-stop // stride)
        yield Part(number, place, start, stop, slot, end - slot)
