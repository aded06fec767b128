"""History that stays where the run is, in fewer bits."""

from collections.abc import Iterator
from typing import Any

from numbawave.backends.base import Coder
from numbawave.codegen.coding import CODES, scale_count
from numbawave.history.base import Make, Need, Plain, Slots, Walk
from numbawave.history.parts import Part, parts, slots_at_once


class Coded(Plain):
    """A ring of a few slots, and the codes of a segment beside it.

    Parameters
    ----------
    slots : Slots
    coder : Coder
    coding : {"bf16", "int8"}
    make : callable
    """

    lasts = False

    def __init__(self, slots: Slots, coder: Coder, coding: str, make: Make) -> None:
        self.slots, self.coder, self.coding, self.make = slots, coder, coding, make
        self.each = slots_at_once(slots.bytes, slots.most)
        self._arrays: dict[str, Any] = {}
        self.kept_bytes = 0

    @staticmethod
    def buffers(slots: Slots, coding: str) -> Iterator[Need]:
        """What the store takes."""
        each = slots_at_once(slots.bytes, slots.most)
        parts_at_most = -(-slots.most // each) + 1  # the first and the last may be short
        yield Need("history", (each, *slots.shape), slots.real)
        yield Need("history.codes", (slots.most * slots.size,), CODES[coding])
        yield Need("history.scales", (parts_at_most, scale_count(coding, each * slots.size)), slots.real)

    @property
    def ring(self) -> Any:
        """See ``Store``."""
        return self._array("history")

    def write(self, first: int, last: int, walk: Walk) -> None:
        """See ``Store``."""
        self.kept_bytes = 0
        for part in parts(first, last, self.each, self.slots.stride):
            walk(part.first, part.last)
            if part.slots:
                codes, scales = self._codes(first, part)
                self.coder.encode(self.slots.view(self.ring, part), self.coding, codes, scales)
                self.kept_bytes += codes.nbytes + scales.nbytes

    def read(self, first: int, last: int, walk: Walk) -> None:
        """See ``Store``."""
        for part in reversed(list(parts(first, last, self.each, self.slots.stride))):
            if part.slots:
                codes, scales = self._codes(first, part)
                self.coder.decode(codes, self.coding, scales, self.slots.view(self.ring, part))
            walk(part.first, part.last)

    def close(self) -> None:
        """See ``Store``."""
        self._arrays.clear()
        self.coder.close()

    def _array(self, name: str) -> Any:
        if name not in self._arrays:
            self._arrays[name] = self.make(name)
        return self._arrays[name]

    def _codes(self, first: int, part: Part) -> tuple[Any, Any]:
        """A part's codes and scales; ``first`` is its segment's first step."""
        size = part.slots * self.slots.size
        start = (part.slot - -(-first // self.slots.stride)) * self.slots.size
        scales = scale_count(self.coding, size)
        begin = part.place * scale_count(self.coding, self.each * self.slots.size)
        codes, every = self._array("history.codes"), self._array("history.scales").reshape(-1)
        return codes[start : start + size], every[begin : begin + scales]
