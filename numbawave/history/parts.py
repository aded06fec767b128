"""A segment of steps in parts, each of which has a few slots of history."""

from collections.abc import Iterator
from dataclasses import dataclass

PART_BYTES = 16 * 2**20
"""About so many bytes, as they are coded, move at a time: enough to keep a link busy, little beside a large field."""

LOAD_BYTES = 32 * 2**20
"""About so many bytes threads of the host take at once: what they are told to do takes them the interpreter's lock."""

RING_BYTES = 16 * 2**20
"""About so many bytes of values are written before they are coded, or made before they are used."""


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


def slots_a_part(coded_bytes: int, most: int) -> int:
    """Slots of so many bytes each, as they are coded, that move at a time."""
    return _within(PART_BYTES, coded_bytes, most)


def parts_a_load(part_bytes: int, most: int) -> int:
    """Parts of so many bytes each that threads take together."""
    return max(1, min(LOAD_BYTES // part_bytes, most))


def slots_at_once(slot_bytes: int, most: int) -> int:
    """Slots whose values are there at once, where they are coded or made again."""
    return _within(RING_BYTES, slot_bytes, most)


def _within(size: int, slot_bytes: int, most: int) -> int:
    """How many fit: one at least, and an even number where there are several, as steps are replayed in pairs."""
    fitting = min(size // slot_bytes, most)
    return fitting // 2 * 2 if fitting > 1 else 1


def parts(first: int, last: int, slots: int, stride: int) -> Iterator[Part]:
    """The parts of some steps; a part begins where the number of its slot is a multiple of ``slots``."""
    steps = slots * stride
    for place, number in enumerate(range(first // steps, -(-last // steps))):
        start, stop = max(first, number * steps), min(last, (number + 1) * steps)
        slot, end = -(-start // stride), -(-stop // stride)
        yield Part(number, place, start, stop, slot, end - slot)
