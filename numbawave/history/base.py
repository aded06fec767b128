"""What a store of history is, and the plain one."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np

from numbawave.history.parts import Part

Make = Callable[[str], Any]
"""Gives a buffer of the run's ledger."""

Walk = Callable[[int, int], None]
"""Does steps ``first`` to ``last - 1``, forward or back."""


class Need(NamedTuple):
    """A buffer that a store takes; see ``planning.ledger.Buffer``."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    place: Literal["device", "host", "pinned", "disk"] = "device"
    copies: int = 1


@dataclass(frozen=True)
class Slots:
    """What a segment's history is made of.

    Attributes
    ----------
    shape : tuple of int
        Of a slot, ``[channel, shot, *box]``.
    real : {"float32", "float64"}
    most : int
        Slots of the longest segment.
    stride : int
        Steps from one slot to the next.
    """

    shape: tuple[int, ...]
    real: str
    most: int
    stride: int

    @property
    def size(self) -> int:
        """Values of a slot."""
        return prod(self.shape)

    @property
    def bytes(self) -> int:
        """Bytes of a slot."""
        return self.size * np.dtype(self.real).itemsize

    def number(self, first: int, last: int) -> int:
        """Slots of steps ``first`` to ``last - 1``."""
        return -(-last // self.stride) - -(-first // self.stride)

    def view(self, ring: Any, part: Part) -> Any:
        """A part's values in the ring, flat."""
        start = part.slot % ring.shape[0] * self.size
        return ring.reshape(-1)[start : start + part.slots * self.size]


class Store(Protocol):
    """Keeps the history of one segment of steps.

    Attributes
    ----------
    ring : array [slot, channel, shot, *box]
        What kernels write and read: step ``k`` has slot ``k // stride % slots``.
    lasts : bool
        Whether the ring holds all, so that what was written can be read more than once.
    """

    lasts: bool

    @property
    def kept_bytes(self) -> int:
        """What the segment written last takes."""

    @property
    def coding_seconds(self) -> float:
        """What threads of the host took to compress what was written, added up."""

    @property
    def ring(self) -> Any:
        """What kernels write and read."""

    def write(self, first: int, last: int, walk: Walk) -> None:
        """Walk forward and keep the history of these steps; that of others is forgotten."""

    def read(self, first: int, last: int, walk: Walk) -> None:
        """Walk back over the steps that were written."""

    def wrote(self, ahead: Any) -> None:
        """What marched has just written; its state is that after these steps."""

    def attach(self, parameters: Mapping[str, Any], amplitudes: Mapping[str, Any]) -> None:
        """Parameter grids and amplitudes of the run, before something is read."""

    def lend(self, size: int) -> list[Any]:
        """An array of so many values of each bay, for what moves between what is written or read; none without room."""

    def close(self) -> None:
        """Give back all that is kept."""


class Plain:
    """A store that needs only what is written, and compresses nothing."""

    @property
    def coding_seconds(self) -> float:
        """See ``Store``."""
        return 0.0

    def wrote(self, ahead: Any) -> None:
        """See ``Store``."""

    def attach(self, parameters: Mapping[str, Any], amplitudes: Mapping[str, Any]) -> None:
        """See ``Store``."""

    def lend(self, size: int) -> list[Any]:
        """See ``Store``."""
        return []


class Whole(Plain):
    """The ring holds all of a segment's history: nothing is moved."""

    lasts = True

    def __init__(self, slots: Slots, make: Make) -> None:
        self.ring = make("history")
        self.kept_bytes = slots.most * slots.bytes

    def write(self, first: int, last: int, walk: Walk) -> None:
        """See ``Store``."""
        walk(first, last)

    def read(self, first: int, last: int, walk: Walk) -> None:
        """See ``Store``."""
        walk(first, last)

    def close(self) -> None:
        """See ``Store``."""
