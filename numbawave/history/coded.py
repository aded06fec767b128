"""History that stays where the run is, in fewer bits."""

from typing import Any

from numbawave.backends.base import Coder
from numbawave.codegen.coding import CODES, scale_count
from numbawave.history.base import Slots, Walk
from numbawave.history.codecs.compression import Compression
from numbawave.history.parts import parts, slots_a_part


class Coded:
    """A ring of a few slots, and the codes of all others beside it.

    Parameters
    ----------
    slots : Slots
    space : Space
    coder : Coder
    compression : Compression
    """

    lasts = False

    def __init__(self, slots: Slots, space: Any, coder: Coder, compression: Compression) -> None:
        self.slots, self.space, self.coder, self.coding = slots, space, coder, compression.quantiser
        self.each = slots_a_part(slots.bytes, slots.most)
        self._ring: Any = None
        self._codes: dict[int, tuple[Any, Any]] = {}
        self.kept_bytes = 0

    @property
    def ring(self) -> Any:
        """See ``Store``."""
        if self._ring is None:
            self._ring = self.space.empty(self.each, *self.slots.shape)
        return self._ring

    def write(self, first: int, last: int, walk: Walk) -> None:
        """See ``Store``."""
        self._codes.clear()
        for part in parts(first, last, self.each, self.slots.stride):
            walk(part.first, part.last)
            values = self.slots.view(self.ring, part)
            codes = self.space.buffer(len(values), CODES[self.coding])
            scales = self.space.buffer(scale_count(self.coding, len(values)), self.slots.real)
            if part.slots:
                self.coder.encode(values, self.coding, codes, scales)
            self._codes[part.number] = codes, scales
        self.kept_bytes = sum(array.nbytes for pair in self._codes.values() for array in pair)

    def read(self, first: int, last: int, walk: Walk) -> None:
        """See ``Store``."""
        for part in reversed(list(parts(first, last, self.each, self.slots.stride))):
            codes, scales = self._codes.pop(part.number)
            if part.slots:
                self.coder.decode(codes, self.coding, scales, self.slots.view(self.ring, part))
            walk(part.first, part.last)

    def close(self) -> None:
        """See ``Store``."""
        self._ring = None
        self._codes.clear()
