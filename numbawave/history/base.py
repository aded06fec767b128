"""What a store of history is, and the plain one."""

from collections.abc import Callable
from typing import Any, Protocol

Walk = Callable[[int, int], None]
"""Does steps ``first`` to ``last - 1``, forward or back."""


class Store(Protocol):
    """Keeps the history of one segment of steps.

    Attributes
    ----------
    ring : array [slot, channel, shot, *box]
        What kernels write and read: step ``k`` has slot ``k // stride % slots``.
    lasts : bool
        Whether what was written can be read more than once.
    """

    ring: Any
    lasts: bool

    def write(self, first: int, last: int, walk: Walk) -> None:
        """Walk forward and keep the history of these steps; that of others is forgotten."""

    def read(self, first: int, last: int, walk: Walk) -> None:
        """Walk back over the steps that were written."""

    def close(self) -> None:
        """Give back all that is kept outside the ring."""


class Whole:
    """The ring holds all of a segment's history: nothing is moved."""

    lasts = True

    def __init__(self, ring: Any) -> None:
        self.ring = ring

    def write(self, first: int, last: int, walk: Walk) -> None:
        """See ``Store``."""
        walk(first, last)

    def read(self, first: int, last: int, walk: Walk) -> None:
        """See ``Store``."""
        walk(first, last)

    def close(self) -> None:
        """See ``Store``."""
