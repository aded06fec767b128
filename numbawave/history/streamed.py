"""History that moves to a shelf while steps go on, and comes back a few parts ahead of those that go back."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from numbawave.backends.base import Coder
from numbawave.codegen.coding import CODES, scale_count
from numbawave.history.base import Make, Need, Plain, Slots, Walk
from numbawave.history.codecs.blosc import side_by_side
from numbawave.history.codecs.compression import Compression
from numbawave.history.parts import Part, parts, slots_a_part
from numbawave.history.shelf import Jobs, Shelf, get_all, put_all

THREADS = 16
"""At most, for compressing and copying on the host."""


def _coding(compression: Compression | None) -> str | None:
    return compression.quantiser if compression and compression.quantiser != "none" else None


def _bays(coding: str | None) -> int:
    return 4 if coding else 2


@dataclass
class _Bay:
    """What one part needs on its way: arrays of the run, their copies on the host, and who is at work on these."""

    arrays: list[Any]
    staged: list[NDArray[Any]]
    jobs: Future[Jobs] | None = None
    copied: Any = None
    used: Any = None

    def settle(self) -> int:
        """Wait for the jobs, and raise what they raised; the sum of what they gave."""
        jobs, self.jobs = self.jobs, None
        return sum(job.result() or 0 for job in jobs.result()) if jobs is not None else 0


class Streamed(Plain):
    """A ring of a few slots, whose parts go to a shelf and come back.

    Without a quantiser two parts of the ring take turns. With one, a part of the ring is coded at once and is free again,
    and the codes of four parts may be on their way.

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
        self.slots, self.space, self.coder, self.compression, self.shelf = slots, space, coder, compression, shelf
        self.make, self.coding = make, _coding(compression)
        self.each, self.count = slots_a_part(slots.bytes, slots.most), _bays(self.coding)
        self._ring: Any = None
        self._lane: Any = None
        self._bays: list[_Bay] = []
        self.kept_bytes = 0

    @staticmethod
    def buffers(slots: Slots, compression: Compression | None, on_device: bool) -> Iterator[Need]:
        """What the store takes, but for the shelf."""
        coding, each = _coding(compression), slots_a_part(slots.bytes, slots.most)
        size, count = each * slots.size, _bays(coding)
        moving = [("codes", CODES[coding], size), ("scales", slots.real, scale_count(coding, size))] if coding else []
        yield Need("history", (each * (1 if coding else count), *slots.shape), slots.real)
        for name, dtype, length in moving:
            yield Need(f"history.{name}", (length,), dtype, copies=count)
        for name, dtype, length in (moving or [("values", slots.real, size)]) if on_device else ():
            yield Need(f"history.staged_{name}", (length,), dtype, "pinned", copies=count)

    @property
    def ring(self) -> Any:
        """See ``Store``."""
        if self._ring is None:
            self._ring = self.make("history")
            self._lane = self.space.lane()
            self._bays = [self._bay(number) for number in range(self.count)]
        return self._ring

    def write(self, first: int, last: int, walk: Walk) -> None:
        """See ``Store``."""
        ring, self.kept_bytes = self.ring, 0
        self.shelf.clear()
        with self._pool() as pool:
            for part in parts(first, last, self.each, self.slots.stride):
                bay = self._bays[part.number % self.count]
                self.kept_bytes += bay.settle()
                if bay.copied is not None:
                    self._lane.follow(bay.copied)
                walk(part.first, part.last)
                if not part.slots:
                    continue
                start, views = self._views(bay, part)
                if self.coding:
                    codes, scales = (*views, None)[:2]
                    self.coder.encode(self.slots.view(ring, part), self.coding, codes, scales)
                for view, staged in zip(views, bay.staged, strict=True):
                    bay.copied = self._lane.out(view, staged, start)
                bay.jobs = put_all(pool, self.shelf, part.place, self._staged(bay, start, views), bay.copied)
            self.kept_bytes += sum(bay.settle() for bay in self._bays)

    def read(self, first: int, last: int, walk: Walk) -> None:
        """See ``Store``."""
        ring, order = self.ring, list(parts(first, last, self.each, self.slots.stride))[::-1]
        with self._pool() as pool:
            for part in order[: self.count]:
                self._fetch(pool, part)
            for position, part in enumerate(order):
                bay = self._bays[part.number % self.count]
                if part.slots:
                    start, views = self._views(bay, part)
                    bay.settle()
                    for view, staged in zip(views, bay.staged, strict=True):
                        bay.copied = self._lane.back(staged, start, view, bay.used)
                    self._lane.follow(bay.copied)
                    if self.coding:
                        codes, scales = (*views, None)[:2]
                        self.coder.decode(codes, self.coding, scales, self.slots.view(ring, part))
                walk(part.first, part.last)
                bay.used = self._lane.mark()
                if position + self.count < len(order):
                    self._fetch(pool, order[position + self.count])

    def close(self) -> None:
        """See ``Store``."""
        for bay in self._bays:
            if bay.copied is not None:
                bay.copied.wait()
        self._ring, self._lane, self._bays = None, None, []
        self.shelf.close()

    def _bay(self, number: int) -> _Bay:
        size = self.each * self.slots.size
        if not self.coding:
            arrays = [self._ring.reshape(-1)[number * size : (number + 1) * size]]
        else:
            names = ("codes", "scales") if scale_count(self.coding, size) else ("codes",)
            arrays = [self.make(f"history.{name}") for name in names]
        return _Bay(arrays, [self._lane.staged(array) for array in arrays])

    def _views(self, bay: _Bay, part: Part) -> tuple[int, list[Any]]:
        """Where in the bay's arrays the part begins, and what it takes of each."""
        size = part.slots * self.slots.size
        if not self.coding:
            start = part.slot % self.each * self.slots.size
            return start, [bay.arrays[0][start : start + size]]
        sizes = (size, scale_count(self.coding, size))
        return 0, [array[:n] for array, n in zip(bay.arrays, sizes, strict=False)]

    @staticmethod
    def _staged(bay: _Bay, start: int, views: list[Any]) -> list[NDArray[Any]]:
        return [staged[start : start + view.shape[0]] for staged, view in zip(bay.staged, views, strict=True)]

    def _fetch(self, pool: ThreadPoolExecutor, part: Part) -> None:
        if part.slots:
            bay = self._bays[part.number % self.count]
            start, views = self._views(bay, part)
            bay.jobs = get_all(pool, self.shelf, part.place, self._staged(bay, start, views), bay.copied)

    @contextmanager
    def _pool(self) -> Iterator[ThreadPoolExecutor]:
        """Threads for as long as steps are under way; if these fail, what waits is dropped."""
        with ExitStack() as stack:
            if self.compression and self.compression.codec:
                stack.enter_context(side_by_side())
            pool = ThreadPoolExecutor(max(2, min(THREADS, os.cpu_count() or 1)), "numbawave-history")
            stack.callback(pool.shutdown, cancel_futures=True)
            yield pool
