"""Where bytes of history lie outside the run's own memory: in the host's, or in a file that vanishes with its user."""

from __future__ import annotations

import os
import tempfile
import threading
import weakref
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from numbawave.errors import StorageError

Bytes = NDArray[np.uint8]

ROOM_BYTES = 64 * 2**20
"""Memory is taken by so much: the system gives small allocations page by page, which takes longer than to fill them."""


COPIED_BYTES = 12 * 2**20
"""A thread's share of what is only copied, at most: each costs some calls under the interpreter's lock, which all share."""

THREADS = 12
"""At most, for compressing and copying on the host."""


class Copier:
    """How bytes are copied on the host: by NumPy, each share in one thread."""

    threads = THREADS

    @property
    def share(self) -> int:
        """Bytes that a thread takes, at most."""
        return COPIED_BYTES

    def copy(self, to: Bytes, values: Bytes) -> None:
        """Copy from one place to another."""
        to[...] = values

    def beginning(self, threads: int) -> Callable[[], object] | None:
        """What each of so many threads does first, and nobody else."""
        return None

    def end(self) -> None:
        """Leave all as it was before these threads."""


class Places:
    """Places in a row of bytes that is used from its start; what is given back is used again by what is as large.

    Parameters
    ----------
    room : int, optional
        No place lies across a multiple of this.
    """

    def __init__(self, room: int | None = None) -> None:
        self.room, self._lock = room, threading.Lock()
        self._end, self._free = 0, dict[int, list[int]]()

    def take(self, size: int) -> int:
        """The start of a place for so many bytes."""
        with self._lock:
            if free := self._free.get(size):
                return free.pop()
            if self.room is not None and self._end % self.room + size > self.room:
                self._end = -(-self._end // self.room) * self.room
            place, self._end = self._end, self._end + size
            return place

    def give(self, place: int, size: int) -> None:
        """Let a place be taken again."""
        with self._lock:
            self._free.setdefault(size, []).append(place)

    def clear(self) -> None:
        """Give all back."""
        with self._lock:
            self._end = 0
            self._free.clear()


class Medium(Protocol):
    """Keeps bytes at places; all methods may run in many threads at once.

    Attributes
    ----------
    places : Places
        Which are taken.
    reliable : bool
        Whether what is read is what was written.
    named : (str, str)
        The argument that chose it, and its value.
    copier : Copier
    """

    places: Places
    reliable: bool
    named: tuple[str, str]
    copier: Copier

    def write(self, data: Bytes, place: int) -> None:
        """Keep bytes at a place."""

    def read(self, place: int, size: int) -> Bytes:
        """The bytes at a place."""

    def fill(self, place: int, out: Bytes) -> None:
        """The same, to memory that is there."""

    def close(self) -> None:
        """Forget all, and give its place back."""


class Rooms:
    """The host's memory.

    Parameters
    ----------
    copier : Copier, optional
        NumPy unless given.
    """

    reliable = True
    named = ("storage_mode", "cpu")

    def __init__(self, copier: Copier | None = None) -> None:
        self.copier = copier or Copier()
        self.places, self._rooms, self._lock = Places(ROOM_BYTES), dict[int, Bytes](), threading.Lock()

    def write(self, data: Bytes, place: int) -> None:
        """See ``Medium``."""
        self.copier.copy(self.read(place, data.size), data)

    def read(self, place: int, size: int) -> Bytes:
        """See ``Medium``; a view."""
        number, start = divmod(place, ROOM_BYTES)
        with self._lock:
            if number not in self._rooms:
                self._rooms[number] = np.empty(ROOM_BYTES, np.uint8)
        return self._rooms[number][start : start + size]

    def fill(self, place: int, out: Bytes) -> None:
        """See ``Medium``."""
        self.copier.copy(out, self.read(place, out.size))

    def close(self) -> None:
        """See ``Medium``."""
        self.places.clear()
        self._rooms.clear()


class File:
    """One file without a name, which the system removes however the process ends.

    Parameters
    ----------
    folder : str or None
        Where the file lies; the system's folder for temporary files unless given.
    """

    reliable = False

    def __init__(self, folder: str | None) -> None:
        self.folder = self.default() if folder is None else os.fspath(folder)
        self.named, self.places, self._lock = ("storage_path", self.folder), Places(), threading.Lock()
        self.copier = Copier()
        self._open: Any = None
        self._file()

    def _file(self) -> Any:
        with self._lock:
            if self._open is None:
                try:
                    self._open = tempfile.TemporaryFile(dir=self.folder)  # noqa: SIM115
                except OSError as error:
                    remedy = "give a folder that exists and can be written"
                    raise StorageError(*self.named, f"no file can be made there ({error})", remedy) from error
                weakref.finalize(self, self._open.close)
            return self._open

    @staticmethod
    def default() -> str:
        """The system's folder for temporary files."""
        return tempfile.gettempdir()

    def write(self, data: Bytes, place: int) -> None:
        """See ``Medium``."""
        view, file = data.data, self._file()
        try:
            while view:
                if hasattr(os, "pwrite"):
                    done = os.pwrite(file.fileno(), view, place)
                else:
                    with self._lock:
                        file.seek(place)
                        done = file.write(view)
                view, place = view[done:], place + done
        except OSError as error:
            remedy = "make room, give another storage_path, or compress: storage_compression=True"
            raise StorageError(*self.named, f"history cannot be written ({error})", remedy) from error

    def read(self, place: int, size: int) -> Bytes:
        """See ``Medium``."""
        found = np.empty(size, np.uint8)
        self.fill(place, found)
        return found

    def fill(self, place: int, out: Bytes) -> None:
        """See ``Medium``.

        Raises
        ------
        StorageError
            If the file cannot be read, or ends before that.
        """
        view, start, file = out.data, place, self._file()
        try:
            while view:
                if hasattr(os, "preadv"):
                    done = os.preadv(file.fileno(), [view], place)
                else:
                    with self._lock:
                        file.seek(place)
                        done = file.readinto(view)
                if not done:
                    rule = f"{out.size} bytes of history at {start} are not all there"
                    raise StorageError(*self.named, rule, "check the disk, and run again")
                view, place = view[done:], place + done
        except OSError as error:
            remedy = "check the disk, and run again"
            raise StorageError(*self.named, f"history cannot be read ({error})", remedy) from error

    def close(self) -> None:
        """See ``Medium``."""
        self.places.clear()
        if self._open is not None:
            self._open.close()
            self._open = None
