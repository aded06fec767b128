"""What moves between a run and a shelf at a time, and how far it has got."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from concurrent.futures import Executor, Future
from typing import Any

from numbawave.history.shelf import Jobs, Key, Shelf

Spans = Sequence[slice]
"""Of each array of a bay, what is used."""


BAYS = 2
"""Bays that take turns: what is on its way at once on the run's side."""


def docks(most: int, on_device: bool) -> int:
    """Copies on the host of each bay, which wait for the threads while steps go on; none but itself where it lies there."""
    return most if on_device else 1


class _Dock:
    """Copies of a bay's arrays on the host, and who is at work on them."""

    def __init__(self, staged: list[Any]) -> None:
        self.staged = staged
        self.copied: Any = None
        self.jobs: Future[Jobs] | None = None

    def there(self, spans: Spans) -> list[Any]:
        return [staged[span] for staged, span in zip(self.staged, spans, strict=True)]

    def settle(self) -> int:
        """Wait for the threads, and raise what they raised; the sum of what they gave."""
        start, self.jobs = self.jobs, None
        if start is None:
            return 0
        kept, others = start.result()
        return kept + sum(job.result() for job in others)


class Bay:
    """Flat arrays of the run, and several copies of them on the host, which threads fill or empty in turn.

    Parameters
    ----------
    arrays : list of array
    lane : Lane
        Copies between the two; where the arrays are the host's, they are their own copies.
    shelf : Shelf
    docks : int
        How many copies there are; 1 where the arrays are the host's.
    """

    def __init__(self, arrays: list[Any], lane: Any, shelf: Shelf, docks: int) -> None:
        self.arrays, self.lane, self.shelf = arrays, lane, shelf
        self._free = deque(_Dock([lane.staged(array) for array in arrays]) for _ in range(docks))
        self._busy = deque[_Dock]()
        self._copied: Any = None
        self._used: Any = None

    def views(self, spans: Spans) -> list[Any]:
        """What is used of the run's arrays."""
        return [array[span] for array, span in zip(self.arrays, spans, strict=False)]

    def vacate(self) -> int:
        """Let the caller's stream wait until the arrays are free, and wait for a free copy; see ``settle``."""
        if self._copied is not None:
            self.lane.follow(self._copied)
        return 0 if self._free else self._freed()

    def send(self, pool: Executor, key: Key, spans: Spans) -> None:
        """Bring to the shelf what the caller's stream has written so far."""
        dock = self._free.popleft()
        dock.copied = self._copied = self.lane.out(self._copies(dock, spans))
        dock.jobs = self.shelf.put_all(pool, key, dock.there(spans), dock.copied)
        self._busy.append(dock)

    def settle(self) -> int:
        """Wait until all that was sent is kept; the bytes that it takes."""
        return sum(self._freed() for _ in range(len(self._busy)))

    def fetch(self, pool: Executor, key: Key, spans: Spans) -> None:
        """Begin to bring back from the shelf; at most as much as there are copies before it lands."""
        dock = self._free.popleft()
        dock.jobs = self.shelf.get_all(pool, key, dock.there(spans), dock.copied)
        self._busy.append(dock)

    def land(self, spans: Spans) -> None:
        """Let the caller's stream wait for what was fetched first; it is in the arrays then."""
        dock = self._busy[0]
        self._freed()
        dock.copied = self._copied = self.lane.back(self._copies(dock, spans), self._used)
        self.lane.follow(self._copied)

    def leave(self) -> None:
        """What landed was used, by what the caller's stream was given so far."""
        self._used = self.lane.mark()

    def close(self) -> None:
        """Wait for copies."""
        if self._copied is not None:
            self._copied.wait()

    def _copies(self, dock: _Dock, spans: Spans) -> list[tuple[Any, Any, int]]:
        """What moves, as a ``Lane`` takes it."""
        return [
            (view, staged, span.start) for view, staged, span in zip(self.views(spans), dock.staged, spans, strict=True)
        ]

    def _freed(self) -> int:
        dock = self._busy.popleft()
        self._free.append(dock)
        return dock.settle()
