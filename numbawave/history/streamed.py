"""History that moves to a shelf while steps go on, and comes back a few parts ahead of those that go back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from numbawave.backends.base import Coder
from numbawave.codegen.coding import CODES, scale_count
from numbawave.history.base import Make, Need, Plain, Slots, Walk
from numbawave.history.bay import BAYS, Bay, docks
from numbawave.history.codecs.compression import Compression
from numbawave.history.parts import Part, parts, slots_a_part
from numbawave.history.shelf import Shelf


def _coding(compression: Compression | None) -> str | None:
    return compression.quantiser if compression and compression.quantiser != "none" else None


def _docks(coding: str | None, on_device: bool) -> int:
    """Copies on the host of each bay."""
    return docks(3 if coding else 2, on_device)


def slots_moved(slots: Slots) -> int:
    """Slots of a part that moves: no more than let every bay have one."""
    return slots_a_part(slots.bytes, -(-slots.most // (2 * BAYS)) * 2)


class Streamed(Plain):
    """A ring of a few slots, whose parts go to a shelf and come back.

    Two bays take turns: without a quantiser parts of the ring, and with one the codes of such a part, which is free again
    at once.

    Parameters
    ----------
    slots : Slots
    space : Space
    coder : Coder
    compression : Compression or None
    shelf : Shelf
    make : callable
    """

    lasts = False

    def __init__(
        self, slots: Slots, space: Any, coder: Coder, compression: Compression | None, shelf: Shelf, make: Make
    ) -> None:
        self.slots, self.space, self.coder, self.shelf = slots, space, coder, shelf
        self.make, self.coding = make, _coding(compression)
        self.each, self.docks = slots_moved(slots), _docks(self.coding, space.device is not None)
        self._ring: Any = None
        self._bays: list[Bay] = []
        self.kept_bytes = 0

    @staticmethod
    def buffers(slots: Slots, compression: Compression | None, on_device: bool) -> Iterator[Need]:
        """What the store takes, but for the shelf."""
        coding, each = _coding(compression), slots_moved(slots)
        size, staged = each * slots.size, BAYS * _docks(coding, on_device)
        moving = [("codes", CODES[coding], size), ("scales", slots.real, scale_count(coding, size))] if coding else []
        yield Need("history", (each * (1 if coding else BAYS), *slots.shape), slots.real)
        for name, dtype, length in moving:
            yield Need(f"history.{name}", (length,), dtype, copies=BAYS)
        for name, dtype, length in (moving or [("values", slots.real, size)]) if on_device else ():
            yield Need(f"history.staged_{name}", (length,), dtype, "pinned", copies=staged)

    @property
    def coding_seconds(self) -> float:
        """See ``Store``."""
        return self.shelf.seconds

    @property
    def ring(self) -> Any:
        """See ``Store``."""
        if self._ring is None:
            self._ring, lane = self.make("history"), self.space.lane()
            self._bays = [Bay(self._arrays(number), lane, self.shelf, self.docks) for number in range(BAYS)]
        return self._ring

    def write(self, first: int, last: int, walk: Walk) -> None:
        """See ``Store``."""
        ring, self.kept_bytes = self.ring, 0
        self.shelf.clear()
        with self.shelf.threads() as pool:
            for part in parts(first, last, self.each, self.slots.stride):
                bay, spans = self._bay(part), self._spans(part)
                self.kept_bytes += bay.vacate()
                walk(part.first, part.last)
                if part.slots and self.coding:
                    codes, scales = (*bay.views(spans), None)[:2]
                    self.coder.encode(self.slots.view(ring, part), self.coding, codes, scales)
                if part.slots:
                    bay.send(pool, (part.place,), spans)
            self.kept_bytes += sum(bay.settle() for bay in self._bays)

    def read(self, first: int, last: int, walk: Walk) -> None:
        """See ``Store``."""
        ring, order = self.ring, list(parts(first, last, self.each, self.slots.stride))[::-1]
        ahead = BAYS * self.docks
        with self.shelf.threads() as pool:
            for part in order[:ahead]:
                self._fetch(pool, part)
            for position, part in enumerate(order):
                bay, spans = self._bay(part), self._spans(part)
                if part.slots:
                    bay.land(spans)
                if part.slots and self.coding:
                    codes, scales = (*bay.views(spans), None)[:2]
                    self.coder.decode(codes, self.coding, scales, self.slots.view(ring, part))
                walk(part.first, part.last)
                bay.leave()
                if position + ahead < len(order):
                    self._fetch(pool, order[position + ahead])

    def close(self) -> None:
        """See ``Store``."""
        for bay in self._bays:
            bay.close()
        self._ring, self._bays = None, []
        self.shelf.close()
        self.coder.close()

    def _arrays(self, number: int) -> list[Any]:
        """The arrays of a bay."""
        size = self.each * self.slots.size
        if not self.coding:
            return [self._ring.reshape(-1)[number * size : (number + 1) * size]]
        names = ("codes", "scales") if scale_count(self.coding, size) else ("codes",)
        return [self.make(f"history.{name}") for name in names]

    def _bay(self, part: Part) -> Bay:
        return self._bays[part.number % BAYS]

    def _spans(self, part: Part) -> list[slice]:
        """Where in its bay's arrays the part lies."""
        size = part.slots * self.slots.size
        if not self.coding:
            start = part.slot % self.each * self.slots.size
            return [slice(start, start + size)]
        return [slice(0, length) for length in (size, scale_count(self.coding, size)) if length]

    def _fetch(self, pool: Any, part: Part) -> None:
        if part.slots:
            self._bay(part).fetch(pool, (part.place,), self._spans(part))
