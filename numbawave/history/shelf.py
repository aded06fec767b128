"""Pieces of history outside the run's own memory, compressed where that pays; and the threads that bring and fetch them."""

from __future__ import annotations

import os
import time
import zlib
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from numbawave.errors import StorageError
from numbawave.history.codecs.blosc import compress, decompress, side_by_side
from numbawave.history.codecs.compression import Compression
from numbawave.history.media import THREADS, Medium

COMPRESSED_BYTES = 4 * 2**20
"""A thread's share of what is compressed, at most."""

FEW_BYTES = 2**20
"""So little is not worth another thread."""

SAMPLE = 2**15
"""Values of an array that show whether compressing it pays."""

STRETCHES = 8
"""The sample is taken from so many places."""

PAYS = {"lz4": 1.25, "blosclz": 1.25, "zstd": 1.05}
"""How much smaller a sample must become, by codec: less than that is not worth a fast codec's time."""

Key = tuple[int, ...]
Piece = NDArray[Any]
Job = tuple[Key, Piece, bool]
Jobs = tuple[int, list[Future[int]]]
"""The bytes that a thread has kept itself, and what it gave to others."""


class Until(Protocol):
    """What a thread waits for before it touches a piece."""

    def wait(self) -> None:
        """Block until it is done."""


class Shelf:
    """Keeps pieces by key; ``put`` and ``get`` may run in many threads at once.

    Parameters
    ----------
    medium : Medium
    compression : Compression or None
        None, or one without a codec, for pieces as they are.
    """

    def __init__(self, medium: Medium, compression: Compression | None = None) -> None:
        self.medium = medium
        self.compression = compression if compression and compression.codec else None
        self._kept: dict[Key, tuple[int, int, int, bool]] = {}
        self._pressed: dict[Key, list[bool]] = {}
        self._seconds = deque[float]()

    def put(self, key: Key, piece: Piece, pays: bool | None = None) -> int:
        """Keep a copy, compressed if that pays, which is found out unless said; the bytes that it takes."""
        pays = self._pays(piece) if pays is None else pays
        small = None
        if self.compression and pays:
            begin = time.perf_counter()
            small = compress(piece, self.compression)
            self._seconds.append(time.perf_counter() - begin)
        data = piece.reshape(-1).view(np.uint8) if small is None else np.frombuffer(small, np.uint8)
        checksum = zlib.crc32(data.data) if small is not None or not self.medium.reliable else 0
        self._forget(key)
        place = self.medium.places.take(data.size)
        self._kept[key] = place, data.size, checksum, small is not None
        self.medium.write(data, place)
        return int(data.size)

    def get(self, key: Key, piece: Piece) -> int:
        """Overwrite the piece with what was kept; 0, as nothing more is kept.

        Raises
        ------
        StorageError
            If it is not what was kept; the piece is then of no use.
        """
        place, size, checksum, small = self._kept[key]
        if small:
            data = self.medium.read(place, size)
        else:
            data = piece.reshape(-1).view(np.uint8)
            self.medium.fill(place, data)
        if (small or not self.medium.reliable) and zlib.crc32(data.data) != checksum:
            rule = f"{size} bytes at {place} came back other than they were written"
            raise StorageError(*self.medium.named, rule, "check memory and disk, and run again")
        if small:
            decompress(data, piece)
        return 0

    @property
    def seconds(self) -> float:
        """What compressing took since all was forgotten, of all threads together."""
        return sum(self._seconds)

    def drop(self, number: int) -> None:
        """Forget the pieces whose key begins so."""
        for key in [key for key in self._kept if key[0] == number]:
            self._forget(key)
        self._pressed = {key: pays for key, pays in self._pressed.items() if key[0] != number}

    def clear(self) -> None:
        """Forget all; its place may be used again."""
        self._kept.clear()
        self._pressed.clear()
        self._seconds.clear()
        self.medium.places.clear()

    def close(self) -> None:
        """Forget all, and give its place back."""
        self.clear()
        self.medium.close()

    def put_all(self, pool: Executor, key: Key, arrays: list[Piece], until: Until) -> Future[Jobs]:
        """Keep flat arrays, once they are there: one thread waits for that, takes a share, and hands out the others."""

        def start() -> Jobs:
            until.wait()
            self._pressed[key] = [self._pays(array) for array in arrays]
            return self._shared(pool, key, arrays, self.put)

        return pool.submit(start)

    def get_all(self, pool: Executor, key: Key, arrays: list[Piece], until: Until | None) -> Future[Jobs]:
        """Bring flat arrays back, once nobody needs what is there."""

        def start() -> Jobs:
            if until is not None:
                until.wait()
            return self._shared(pool, key, arrays, lambda key, piece, _: self.get(key, piece))

        return pool.submit(start)

    def _shared(self, pool: Executor, key: Key, arrays: list[Piece], do: Callable[[Key, Piece, bool], int]) -> Jobs:
        """Do something with a part's pieces: what is small and the first other one here, the rest in other threads."""
        own, others = list[Job](), list[Job]()
        for number, (array, pays) in enumerate(zip(arrays, self._pressed[key], strict=True)):
            share = COMPRESSED_BYTES if pays else self.medium.copier.share
            for place, piece in enumerate(pieces(array, share)):
                few = piece.nbytes <= FEW_BYTES or all(job[1].nbytes <= FEW_BYTES for job in own)
                (own if few else others).append(((*key, number, place), piece, pays))
        given = [pool.submit(do, *job) for job in others]
        return sum(do(*job) for job in own), given

    @contextmanager
    def threads(self) -> Iterator[ThreadPoolExecutor]:
        """Threads for as long as something is under way; should that fail, what waits is dropped."""
        with ExitStack() as stack:
            if self.compression:
                stack.enter_context(side_by_side())
            copier = self.medium.copier
            threads = max(2, min(THREADS if self.compression else copier.threads, os.cpu_count() or 1))
            pool = ThreadPoolExecutor(threads, "numbawave-history", copier.beginning(threads))
            stack.callback(copier.end)
            stack.callback(pool.shutdown, cancel_futures=True)
            yield pool

    def _forget(self, key: Key) -> None:
        if (old := self._kept.pop(key, None)) is not None:
            self.medium.places.give(*old[:2])

    def _pays(self, array: Piece) -> bool:
        """Whether a sample of an array shows that compressing it is worth the time."""
        if self.compression is None or self.compression.codec is None or not array.size:
            return False
        stretch = SAMPLE // STRETCHES
        starts = np.linspace(0, max(0, array.size - stretch), STRETCHES).astype(int)
        few = array.size <= SAMPLE
        sample = array if few else np.concatenate([array[start : start + stretch] for start in starts])
        return sample.nbytes >= PAYS[self.compression.codec] * len(compress(sample, self.compression))


def pieces(array: Piece, share: int) -> list[Piece]:
    """A flat array, cut into what a thread takes at a time, of so many bytes at most: pieces as equal as can be."""
    size = -(-array.size // max(1, -(-array.nbytes // share)))
    return [array[start : start + size] for start in range(0, array.size, size)] if size else []
