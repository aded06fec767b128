"""The ledger: every buffer of a run, declared before it starts; what a run allocates, it takes from here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from math import prod
from typing import Literal

import numpy as np

Place = Literal["device", "host", "pinned", "disk"]
PLACES: tuple[Place, ...] = ("device", "host", "pinned", "disk")


class Moment(IntEnum):
    """The phases of a call, in order."""

    FORWARD = 0
    BETWEEN = 1
    BACKWARD = 2


@dataclass(frozen=True)
class Buffer:
    """An array that a run needs.

    Attributes
    ----------
    name : str
    shape : tuple of int
    dtype : str
    place : {"device", "host", "pinned", "disk"}
        "device" is where the model lies, also on a CPU; "pinned" is the host's memory for a device's transfers.
    first, last : Moment
        When it is needed, both included.
    copies : int
        How many there are at once, at most.
    given : bool
        Whether it is made of what the caller gave: counted, not allocated.
    result : bool
        Whether it goes to the caller, who may let it go before the backward pass, which does not need it.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    place: Place = "device"
    first: Moment = Moment.FORWARD
    last: Moment = Moment.BACKWARD
    copies: int = 1
    given: bool = False
    result: bool = False

    @property
    def bytes(self) -> int:
        """Bytes of all copies; pinned memory comes in powers of two, as PyTorch gives it."""
        each = prod(self.shape) * np.dtype(self.dtype).itemsize
        if self.place == "pinned" and each:
            each = 1 << (each - 1).bit_length()
        return each * self.copies


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a table whose columns are as wide as they need to be."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]


class Ledger:
    """The buffers of a run by name.

    Parameters
    ----------
    buffers : iterable of Buffer
        Each name once.
    """

    def __init__(self, buffers: Iterable[Buffer]) -> None:
        self._buffers: dict[str, Buffer] = {}
        for buffer in buffers:
            assert buffer.name not in self._buffers, buffer.name
            self._buffers[buffer.name] = buffer

    def __getitem__(self, name: str) -> Buffer:
        return self._buffers[name]

    def __iter__(self) -> Iterator[Buffer]:
        return iter(self._buffers.values())

    def bytes(self, place: Place, moment: Moment) -> int:
        """Bytes in a place at a moment."""
        return sum(b.bytes for b in self if b.place == place and b.first <= moment <= b.last)

    def peak(self, *places: Place) -> tuple[int, Moment]:
        """The most bytes in some places together, and when that is first so."""
        found = ((sum(self.bytes(place, moment) for place in places), moment) for moment in Moment)
        return max(found, key=lambda peak: (peak[0], -peak[1]))

    def __str__(self) -> str:
        """A table: the largest buffers first, and the peak of each place."""
        rows = [("buffer", "shape", "dtype", "copies", "place", "from", "to", "MB")]
        for b in sorted(self, key=lambda b: -b.bytes):
            shape = " x ".join(map(str, b.shape))
            rows.append((b.name, shape, b.dtype, str(b.copies), b.place, b.first.name.lower(), b.last.name.lower(),
                         f"{b.bytes / 1e6:.3f}"))  # fmt: skip
        lines = aligned(rows)
        for place in PLACES:
            most, moment = self.peak(place)
            lines += [f"peak on {place}: {most / 1e6:.3f} MB, {moment.name.lower()}"] if most else []
        return "\n".join(lines)
