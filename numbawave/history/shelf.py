"""Where pieces of history lie outside the run's own memory: in the host's, or in a file that vanishes with its user."""

from __future__ import annotations

import os
import tempfile
import threading
import weakref
import zlib
from concurrent.futures import Executor, Future
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from numbawave.errors import StorageError
from numbawave.history.codecs.blosc import compress, decompress
from numbawave.history.codecs.compression import Compression

PIECE_BYTES = 4 * 2**20
"""A thread's share at a time."""

SAMPLE = 2**15
"""Values of a piece that show whether compressing it pays."""

PAYS = {"lz4": 1.25, "blosclz": 1.25, "zstd": 1.05}
"""How much smaller a sample must become, by codec: less than that is not worth a fast codec's time."""

Key = tuple[int, ...]
Piece = NDArray[Any]
Jobs = list[Future[Any]]


class Until(Protocol):
    """What a thread waits for before it touches a piece."""

    def wait(self) -> None:
        """Block until it is done."""


class Shelf(Protocol):
    """Keeps pieces by key; both methods may run in many threads at once."""

    def put(self, key: Key, piece: Piece) -> int:
        """Keep a copy, and say how many bytes that takes."""

    def get(self, key: Key, piece: Piece) -> None:
        """Overwrite the piece with what was kept."""

    def drop(self, number: int) -> None:
        """Forget the pieces whose key begins so."""

    def clear(self) -> None:
        """Forget all; its place may be used again."""

    def close(self) -> None:
        """Forget all, and give its place back."""


class Memory:
    """Pieces in the host's memory, compressed where there is a codec, else in buffers that are used again."""

    def __init__(self, compression: Compression | None) -> None:
        self.compression = compression if compression and compression.codec else None
        self._kept: dict[Key, Any] = {}

    def put(self, key: Key, piece: Piece) -> int:
        """See ``Shelf``."""
        data = packed(piece, self.compression)
        if data is not None:
            self._kept[key] = data
            return len(data)
        old = self._kept.get(key)
        if not isinstance(old, np.ndarray) or old.shape != piece.shape or old.dtype != piece.dtype:
            old = self._kept[key] = np.empty_like(piece)
        old[...] = piece
        return int(old.nbytes)

    def get(self, key: Key, piece: Piece) -> None:
        """See ``Shelf``."""
        kept = self._kept[key]
        if isinstance(kept, np.ndarray):
            piece[...] = kept
        else:
            decompress(kept, piece)

    def drop(self, number: int) -> None:
        """See ``Shelf``."""
        self._kept = {key: kept for key, kept in self._kept.items() if key[0] != number}

    def clear(self) -> None:
        """See ``Shelf``."""
        self._kept = {key: kept for key, kept in self._kept.items() if isinstance(kept, np.ndarray)}

    def close(self) -> None:
        """See ``Shelf``."""
        self._kept.clear()


class Disk:
    """Pieces in one file without a name, which the system removes however the process ends.

    Parameters
    ----------
    folder : str or None
        Where the file lies; the system's folder for temporary files unless given.
    compression : Compression or None
    """

    def __init__(self, folder: str | None, compression: Compression | None) -> None:
        self.folder = self.default() if folder is None else os.fspath(folder)
        self.compression = compression if compression and compression.codec else None
        self._lock = threading.Lock()
        self._places: dict[Key, tuple[int, int, int, bool]] = {}
        self._end = 0
        self._open: Any = None
        self._file()

    def _file(self) -> Any:
        if self._open is None:
            try:
                self._open = tempfile.TemporaryFile(dir=self.folder)  # noqa: SIM115
            except OSError as error:
                remedy = "give a folder that exists and can be written"
                raise StorageError("storage_path", self.folder, f"no file can be made there ({error})", remedy) from error
            weakref.finalize(self, self._open.close)
        return self._open

    @staticmethod
    def default() -> str:
        """The system's folder for temporary files."""
        return tempfile.gettempdir()

    def put(self, key: Key, piece: Piece) -> int:
        """See ``Shelf``."""
        small = packed(piece, self.compression)
        data: Any = piece.reshape(-1).view(np.uint8).data if small is None else small
        with self._lock:
            self._file()
            place, self._end = self._end, self._end + len(data)
        self._places[key] = place, len(data), zlib.crc32(data), small is not None
        try:
            self._write(data, place)
        except OSError as error:
            remedy = "make room, give another storage_path, or compress: storage_compression=True"
            raise StorageError("storage_path", self.folder, f"history cannot be written ({error})", remedy) from error
        return len(data)

    def get(self, key: Key, piece: Piece) -> None:
        """See ``Shelf``."""
        place, size, checksum, small = self._places[key]
        try:
            data = self._read(place, size)
        except OSError as error:
            remedy = "check the disk, and run again"
            raise StorageError("storage_path", self.folder, f"history cannot be read ({error})", remedy) from error
        if len(data) != size or zlib.crc32(data) != checksum:
            rule = f"{size} bytes of history at {place} came back other than they were written"
            raise StorageError("storage_path", self.folder, rule, "check the disk, and run again")
        if small:
            decompress(data, piece)
        else:
            piece.reshape(-1)[...] = np.frombuffer(data, piece.dtype)

    def drop(self, number: int) -> None:
        """See ``Shelf``; its place in the file is not used again."""
        self._places = {key: place for key, place in self._places.items() if key[0] != number}

    def clear(self) -> None:
        """See ``Shelf``."""
        self._places.clear()
        self._end = 0

    def close(self) -> None:
        """See ``Shelf``."""
        self.clear()
        if self._open is not None:
            self._open.close()
            self._open = None

    def _write(self, data: Any, place: int) -> None:
        view = memoryview(data)
        while view:
            if hasattr(os, "pwrite"):
                done = os.pwrite(self._open.fileno(), view, place)
            else:
                with self._lock:
                    self._open.seek(place)
                    done = self._open.write(view)
            view, place = view[done:], place + done

    def _read(self, place: int, size: int) -> bytes:
        if hasattr(os, "pread"):
            return os.pread(self._open.fileno(), size, place)
        with self._lock:
            self._open.seek(place)
            data: bytes = self._open.read(size)
        return data


def packed(piece: Piece, compression: Compression | None) -> bytes | None:
    """The piece compressed; None where it stays as it is, as a sample of it shows that this would not pay."""
    if compression is None or compression.codec is None:
        return None
    middle = max(0, piece.size - SAMPLE) // 2
    sample = piece.reshape(-1)[middle : middle + SAMPLE]
    data = compress(sample, compression)
    if sample.nbytes < PAYS[compression.codec] * len(data):
        return None
    return data if sample.size == piece.size else compress(piece, compression)


def pieces(arrays: list[Piece]) -> list[Piece]:
    """Flat arrays, cut into what a thread takes at a time."""
    found = []
    for array in arrays:
        most = PIECE_BYTES // array.itemsize
        found += [array[start : start + most] for start in range(0, array.size, most)]
    return found


def put_all(pool: Executor, shelf: Shelf, number: int, arrays: list[Piece], until: Until) -> Future[Jobs]:
    """Keep a part's arrays, once they are there: one thread waits for that, and hands the pieces out."""

    def start() -> Jobs:
        until.wait()
        return [pool.submit(shelf.put, (number, position), piece) for position, piece in enumerate(pieces(arrays))]

    return pool.submit(start)


def get_all(pool: Executor, shelf: Shelf, number: int, arrays: list[Piece], until: Until | None) -> Future[Jobs]:
    """Bring a part's arrays back, once nobody needs what is there."""

    def start() -> Jobs:
        if until is not None:
            until.wait()
        return [pool.submit(shelf.get, (number, position), piece) for position, piece in enumerate(pieces(arrays))]

    return pool.submit(start)
