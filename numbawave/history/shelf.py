"""Pieces of history outside the run's own memory, compressed where that pays; and the threads that bring and fetch them."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from numbawave.errors import StorageError
from numbawave.history.codecs.blosc import compress, decompress, side_by_side
from numbawave.history.codecs.compression import Compression
from numbawave.history.media import Medium

COPIED_BYTES = 16 * 2**20
"""A thread's share at a time, where it is only copied."""

COMPRESSED_BYTES = 4 * 2**20
"""The same, where it is compressed, which takes a thread ten times as long."""

THREADS = 16
"""At most, for compressing and copying on the host."""

SAMPLE = 2**15
"""Values of a piece that show whether compressing it pays."""

THOROUGH = {"zstd": 1.05}
"""How much smaller a sample must become for codecs that were chosen to save bytes, not time; ``Medium`` says it for others.

blosc2 hands its result out under the interpreter's lock, so that threads wait for each other by what is left of a piece.
"""

Key = tuple[int, ...]
Piece = NDArray[Any]
Jobs = list[Future[Any]]


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

    def put(self, key: Key, piece: Piece) -> int:
        """Keep a copy, and say how many bytes that takes."""
        small = self._packed(piece)
        data = piece.reshape(-1).view(np.uint8) if small is None else np.frombuffer(small, np.uint8)
        checksum = zlib.crc32(data.data) if small is not None or not self.medium.reliable else 0
        self._forget(key)
        place = self.medium.places.take(data.size)
        self._kept[key] = place, data.size, checksum, small is not None
        self.medium.write(data, place)
        return int(data.size)

    def get(self, key: Key, piece: Piece) -> None:
        """Overwrite the piece with what was kept.

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

    def drop(self, number: int) -> None:
        """Forget the pieces whose key begins so."""
        for key in [key for key in self._kept if key[0] == number]:
            self._forget(key)

    def clear(self) -> None:
        """Forget all; its place may be used again."""
        self._kept.clear()
        self.medium.places.clear()

    def close(self) -> None:
        """Forget all, and give its place back."""
        self._kept.clear()
        self.medium.close()

    def pieces(self, arrays: list[Piece]) -> list[Piece]:
        """Flat arrays, cut into what a thread takes at a time."""
        found = []
        for array in arrays:
            most = (COMPRESSED_BYTES if self.compression else COPIED_BYTES) // array.itemsize
            found += [array[start : start + most] for start in range(0, array.size, most)]
        return found

    def put_all(self, pool: Executor, key: Key, arrays: list[Piece], until: Until) -> Future[Jobs]:
        """Keep flat arrays, once they are there: one thread waits for that, and hands the pieces out."""

        def start() -> Jobs:
            until.wait()
            return [pool.submit(self.put, (*key, number), piece) for number, piece in enumerate(self.pieces(arrays))]

        return pool.submit(start)

    def get_all(self, pool: Executor, key: Key, arrays: list[Piece], until: Until | None) -> Future[Jobs]:
        """Bring flat arrays back, once nobody needs what is there."""

        def start() -> Jobs:
            if until is not None:
                until.wait()
            return [pool.submit(self.get, (*key, number), piece) for number, piece in enumerate(self.pieces(arrays))]

        return pool.submit(start)

    @contextmanager
    def threads(self) -> Iterator[ThreadPoolExecutor]:
        """Threads for as long as something is under way; should that fail, what waits is dropped."""
        with ExitStack() as stack:
            if self.compression:
                stack.enter_context(side_by_side())
            pool = ThreadPoolExecutor(max(2, min(THREADS, os.cpu_count() or 1)), "numbawave-history")
            stack.callback(pool.shutdown, cancel_futures=True)
            yield pool

    def _forget(self, key: Key) -> None:
        if (old := self._kept.pop(key, None)) is not None:
            self.medium.places.give(*old[:2])

    def _packed(self, piece: Piece) -> bytes | None:
        """The piece compressed; None where it stays as it is, as a sample of it shows that this would not pay."""
        if self.compression is None or self.compression.codec is None:
            return None
        middle = max(0, piece.size - SAMPLE) // 2
        sample = piece.reshape(-1)[middle : middle + SAMPLE]
        data = compress(sample, self.compression)
        if sample.nbytes < THOROUGH.get(self.compression.codec, self.medium.worth) * len(data):
            return None
        return data if sample.size == piece.size else compress(piece, self.compression)
