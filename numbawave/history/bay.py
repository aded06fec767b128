"""What moves between a run and a shelf at a time: where it lies on the run's side and on the host's, and how far it is."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor, Future
from typing import Any

from numbawave.history.shelf import Jobs, Key, Shelf

Spans = Sequence[slice]
"""Of each of some arrays, what is used."""

BAYS = 2
"""Bays that take turns: what is on its way at once on the run's side."""

DOCKS = 4
"""Docks of a run on a device: what waits for threads of the host while steps go on."""


def docks(on_device: bool) -> int:
    """How many docks there are; where the run's arrays lie on the host these are the bays."""
    return DOCKS if on_device else BAYS


class Dock:
    """Flat arrays on the host, which threads bring to a shelf, or fill from there.

    Parameters
    ----------
    staged : list of array
        As ``Lane.staged`` gives them.
    shelf : Shelf
    """

    def __init__(self, staged: list[Any], shelf: Shelf) -> None:
        self.staged, self.shelf = staged, shelf
        self.copied: Any = None
        self._jobs: Future[Jobs] | None = None

    def send(self, pool: Executor, key: Key, spans: Spans) -> None:
        """Bring to the shelf what was copied here so far."""
        self._jobs = self.shelf.put_all(pool, key, self._there(spans), self.copied)

    def fetch(self, pool: Executor, key: Key, spans: Spans) -> None:
        """Begin to bring back from the shelf, once all is copied that was here."""
        self._jobs = self.shelf.get_all(pool, key, self._there(spans), self.copied)

    def settle(self) -> int:
        """Wait for the threads, and raise what they raised; the bytes that they keep of what was sent."""
        start, self._jobs = self._jobs, None
        if start is None:
            return 0
        kept, others = start.result()
        return kept + sum(job.result() for job in others)

    def _there(self, spans: Spans) -> list[Any]:
        return [staged[span] for staged, span in zip(self.staged, spans, strict=True)]


class Bay:
    """Flat arrays of the run, which are copied to a dock, or from there.

    Parameters
    ----------
    arrays : list of array
    lane : Lane
        Copies between the two; where the arrays are the host's, they are their own copies.
    """

    def __init__(self, arrays: list[Any], lane: Any) -> None:
        self.arrays, self.lane = arrays, lane
        self._copied: Any = None
        self._used: Any = None

    def vacate(self) -> None:
        """Let the caller's stream wait until the arrays are free."""
        if self._copied is not None:
            self.lane.follow(self._copied)

    def out(self, spans: Spans, dock: Dock, starts: Sequence[int]) -> None:
        """Copy to a dock, where the caller's stream has written so far; ``starts`` says where in its arrays."""
        dock.copied = self._copied = self.lane.out(self._copies(spans, dock, starts))

    def back(self, spans: Spans, dock: Dock, starts: Sequence[int]) -> None:
        """Copy from a dock; the caller's stream goes on after that only."""
        dock.copied = self._copied = self.lane.back(self._copies(spans, dock, starts), self._used)
        self.lane.follow(self._copied)

    def leave(self) -> None:
        """The arrays may be overwritten, once all is done that the caller's stream was given so far."""
        self._used = self.lane.mark()

    def close(self) -> None:
        """Wait for copies."""
        if self._copied is not None:
            self._copied.wait()

    def _copies(self, spans: Spans, dock: Dock, starts: Sequence[int]) -> list[tuple[Any, Any, int]]:
        """What moves, as a ``Lane`` takes it."""
        ways = zip(self.arrays, spans, dock.staged, starts, strict=True)
        return [(array[span], staged, start) for array, span, staged, start in ways]
