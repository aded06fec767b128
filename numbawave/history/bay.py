"""What moves between a run and a shelf at a time, and how far it has got."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor, Future
from typing import Any

from numbawave.history.shelf import Jobs, Key, Shelf

Spans = Sequence[slice]
"""Of each array of a bay, what is used."""


class Bay:
    """Flat arrays of the run, their copies on the host, and who is at work on these.

    Parameters
    ----------
    arrays : list of array
    lane : Lane
        Copies between the two; where the arrays are the host's, they are their own copies.
    shelf : Shelf
    """

    def __init__(self, arrays: list[Any], lane: Any, shelf: Shelf) -> None:
        self.arrays, self.lane, self.shelf = arrays, lane, shelf
        self.staged = [lane.staged(array) for array in arrays]
        self._jobs: Future[Jobs] | None = None
        self._copied: Any = None
        self._used: Any = None

    def views(self, spans: Spans) -> list[Any]:
        """What is used of the run's arrays."""
        return [array[span] for array, span in zip(self.arrays, spans, strict=False)]

    def settle(self) -> int:
        """Wait for the threads, and raise what they raised; the sum of what they gave."""
        jobs, self._jobs = self._jobs, None
        return sum(job.result() or 0 for job in jobs.result()) if jobs is not None else 0

    def vacate(self) -> int:
        """Wait until the host's copies are free, and let the caller's stream wait until the arrays are; see ``settle``."""
        kept = self.settle()
        if self._copied is not None:
            self.lane.follow(self._copied)
        return kept

    def send(self, pool: Executor, key: Key, spans: Spans) -> None:
        """Bring to the shelf what the caller's stream has written so far."""
        for view, staged, span in zip(self.views(spans), self.staged, spans, strict=True):
            self._copied = self.lane.out(view, staged, span.start)
        self._jobs = self.shelf.put_all(pool, key, self._there(spans), self._copied)

    def fetch(self, pool: Executor, key: Key, spans: Spans) -> None:
        """Begin to bring back from the shelf, once the host's copies are free."""
        self._jobs = self.shelf.get_all(pool, key, self._there(spans), self._copied)

    def land(self, spans: Spans) -> None:
        """Let the caller's stream wait for what was fetched; it is in the arrays then."""
        self.settle()
        for view, staged, span in zip(self.views(spans), self.staged, spans, strict=True):
            self._copied = self.lane.back(staged, span.start, view, self._used)
        self.lane.follow(self._copied)

    def leave(self) -> None:
        """What landed was used, by what the caller's stream was given so far."""
        self._used = self.lane.mark()

    def close(self) -> None:
        """Wait for copies."""
        if self._copied is not None:
            self._copied.wait()

    def _there(self, spans: Spans) -> list[Any]:
        return [staged[span] for staged, span in zip(self.staged, spans, strict=True)]
