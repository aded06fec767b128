"""History that moves to a shelf while steps go on, and comes back ahead of those that go back."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np

from numbawave.backends.base import Coder
from numbawave.codegen.coding import CODES, scale_count
from numbawave.history.base import Make, Need, Plain, Slots, Walk
from numbawave.history.bay import BAYS, DOCKS, Bay, Dock, Spans, docks
from numbawave.history.codecs.compression import Compression, coded_bytes
from numbawave.history.parts import Part, parts, parts_a_load, slots_a_part, slots_at_once
from numbawave.history.shelf import Shelf


class Moved(NamedTuple):
    """How a store divides slots: those that leave the run at a time, those of them that are there as values at once.

    ``load`` is the number of parts that threads of the host take together.
    """

    part: int
    ring: int
    load: int


class Moorings(NamedTuple):
    """The arrays of a store."""

    ring: Any
    bays: list[Bay]
    docks: list[Dock]


class Load(NamedTuple):
    """Some parts, each with where it lies in its bay's arrays and where in the dock's; ``spans`` is all of these."""

    key: tuple[int]
    number: int
    parts: list[tuple[Part, Spans, list[int]]]
    spans: Spans


def moved(slots: Slots, compression: Compression | None, on_device: bool) -> Moved:
    """How a store divides slots: there are no more in a part than let every bay have one, nor in a load for docks."""
    most, bytes_ = -(-slots.most // (2 * BAYS)) * 2, coded_bytes(compression, slots.size, slots.real)
    part = slots_a_part(bytes_, most)
    ring = min(part, slots_at_once(slots.bytes, most)) if _coding(compression) else part
    part = part // ring * ring
    return Moved(part, ring, parts_a_load(part * bytes_, slots.most // (DOCKS * part)) if on_device else 1)


def _coding(compression: Compression | None) -> str | None:
    return compression.quantiser if compression and compression.quantiser != "none" else None


class Streamed(Plain):
    """A ring of a few slots, whose parts go to a shelf and come back.

    Two bays take turns: without a quantiser parts of the ring, and with one the codes of a part, from values that are
    coded as soon as the ring is full. On a device several parts are copied to one dock of the host, from where threads
    take them together: what they do is much, and what the device holds is little.

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
        self.make, self.compression, self.coding = make, compression, _coding(compression)
        self.moved = moved(slots, compression, space.device is not None)
        self._moorings: Moorings | None = None
        self.kept_bytes = 0

    @staticmethod
    def buffers(slots: Slots, compression: Compression | None, on_device: bool) -> Iterator[Need]:
        """What the store takes, but for the shelf."""
        coding, (part, ring, load) = _coding(compression), moved(slots, compression, on_device)
        size, scales = part * slots.size, part // ring * scale_count(coding, ring * slots.size) if coding else 0
        moving = [("codes", CODES[coding], size), ("scales", slots.real, scales)] if coding else []
        yield Need("history", (ring * (1 if coding else BAYS), *slots.shape), slots.real)
        for name, dtype, length in moving:
            yield Need(f"history.{name}", (length,), dtype, copies=BAYS)
        for name, dtype, length in (moving or [("values", slots.real, size)]) if on_device else ():
            yield Need(f"history.staged_{name}", (load * length,), dtype, "pinned", copies=DOCKS)

    @staticmethod
    def spare(slots: Slots, compression: Compression | None) -> int:
        """Bytes of each bay."""
        part = moved(slots, compression, on_device=False).part
        return part * slots.size * np.dtype(CODES.get(_coding(compression) or "", slots.real)).itemsize

    def lend(self, size: int) -> list[Any]:
        """See ``Store``."""
        length = size * np.dtype(self.slots.real).itemsize
        if length > self.spare(self.slots, self.compression):
            return []
        arrays, real = [bay.arrays[0] for bay in self._there.bays], self.ring.dtype
        return [array[: length // array.dtype.itemsize].view(real) for array in arrays]

    @property
    def coding_seconds(self) -> float:
        """See ``Store``."""
        return self.shelf.seconds

    @property
    def ring(self) -> Any:
        """See ``Store``."""
        return self._there.ring

    @property
    def _there(self) -> Moorings:
        """The arrays, made when they are first needed."""
        if self._moorings is None:
            ring, lane = self.make("history"), self.space.lane()
            bays = [Bay(self._arrays(ring, number), lane) for number in range(BAYS)]
            places = [bays[number % BAYS].arrays for number in range(docks(self.space.device is not None))]
            found = [Dock([lane.staged(array, self.moved.load) for array in arrays], self.shelf) for arrays in places]
            self._moorings = Moorings(ring, bays, found)
        return self._moorings

    def write(self, first: int, last: int, walk: Walk) -> None:
        """See ``Store``."""
        self.kept_bytes = 0
        self.shelf.clear()
        with self.shelf.threads() as pool:
            for load in self._loads(first, last):
                dock = self._dock(load)
                self.kept_bytes += dock.settle()
                for part, spans, starts in load.parts:
                    bay = self._bay(part)
                    bay.vacate()
                    for piece, values, codes, scales in self._pieces(bay, part):
                        walk(piece.first, piece.last)
                        if piece.slots and self.coding:
                            self.coder.encode(values, self.coding, codes, scales)
                    if part.slots:
                        bay.out(spans, dock, starts)
                if load.spans:
                    dock.send(pool, load.key, load.spans)
            self.kept_bytes += sum(dock.settle() for dock in self._there.docks)

    def read(self, first: int, last: int, walk: Walk) -> None:
        """See ``Store``."""
        order, ahead = list(self._loads(first, last))[::-1], len(self._there.docks)
        with self.shelf.threads() as pool:
            for load in order[:ahead]:
                self._fetch(pool, load)
            for position, load in enumerate(order):
                dock = self._dock(load)
                dock.settle()
                for part, spans, starts in reversed(load.parts):
                    bay = self._bay(part)
                    if part.slots:
                        bay.back(spans, dock, starts)
                    for piece, values, codes, scales in reversed(list(self._pieces(bay, part))):
                        if piece.slots and self.coding:
                            self.coder.decode(codes, self.coding, scales, values)
                        walk(piece.first, piece.last)
                    bay.leave()
                if position + ahead < len(order):
                    self._fetch(pool, order[position + ahead])

    def close(self) -> None:
        """See ``Store``."""
        for bay in self._moorings.bays if self._moorings is not None else ():
            bay.close()
        self._moorings = None
        self.shelf.close()
        self.coder.close()

    def _arrays(self, ring: Any, number: int) -> list[Any]:
        """The arrays of a bay."""
        if not self.coding:
            size = self.moved.part * self.slots.size
            return [ring.reshape(-1)[number * size : (number + 1) * size]]
        names = ("codes", "scales") if scale_count(self.coding, self.slots.size) else ("codes",)
        return [self.make(f"history.{name}") for name in names]

    def _bay(self, part: Part) -> Bay:
        return self._there.bays[part.number % BAYS]

    def _dock(self, load: Load) -> Dock:
        return self._there.docks[load.number % len(self._there.docks)]

    def _in_turn(self, part: Part) -> Iterator[Part]:
        """What of a part is in the ring at once."""
        return parts(part.first, part.last, self.moved.ring, self.slots.stride) if self.coding else iter([part])

    def _loads(self, first: int, last: int) -> Iterator[Load]:
        """What threads take together; in a dock parts lie one after another."""
        every = parts(first, last, self.moved.part, self.slots.stride)
        for place, (number, group) in enumerate(groupby(every, lambda part: part.number // self.moved.load)):
            laid, spans = list[tuple[Part, Spans, list[int]]](), list[slice]()
            for part in group:
                here = self._spans(part) if part.slots else []
                spans = spans or [slice(span.start, span.start) for span in here]
                laid.append((part, here, [span.stop for span in spans]))
                ways = zip(spans, here, strict=True) if here else ()
                spans = [slice(a.start, a.stop + b.stop - b.start) for a, b in ways] or spans
            yield Load((place,), number, laid, spans)

    def _spans(self, part: Part) -> list[slice]:
        """Where in its bay's arrays the part lies."""
        size = part.slots * self.slots.size
        if not self.coding:
            start = part.slot % self.moved.part * self.slots.size
            return [slice(start, start + size)]
        scales = sum(scale_count(self.coding, piece.slots * self.slots.size) for piece in self._in_turn(part))
        return [slice(0, length) for length in (size, scales) if length]

    def _pieces(self, bay: Bay, part: Part) -> Iterator[tuple[Part, Any, Any, Any]]:
        """Each piece of a part: its values, its codes and its scales, should there be such."""
        codes, scales = (*bay.arrays, None)[:2]
        start = begin = 0
        for piece in self._in_turn(part):
            stop = start + piece.slots * self.slots.size
            end = begin + (scale_count(self.coding, stop - start) if self.coding else 0)
            own = (codes[start:stop], None if scales is None else scales[begin:end]) if self.coding else (None, None)
            yield piece, self.slots.view(self.ring, piece), *own
            start, begin = stop, end

    def _fetch(self, pool: Any, load: Load) -> None:
        if load.spans:
            self._dock(load).fetch(pool, load.key, load.spans)
