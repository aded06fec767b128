"""Where history is kept and how it is coded: the choice, checked, and the store that follows from it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, get_args

from numbawave.backends.base import Backend
from numbawave.errors import InvalidTypeError, InvalidValueError, StorageError
from numbawave.history.base import Make, Need, Slots, Store, Whole
from numbawave.history.codecs.compression import Compression, coded_bytes
from numbawave.history.coded import Coded
from numbawave.history.media import File, Rooms
from numbawave.history.parts import parts, slots_at_once
from numbawave.history.shelf import Shelf
from numbawave.history.states import States
from numbawave.history.streamed import Streamed, moved

Mode = Literal["device", "cpu", "disk", "none"]
Place = Literal["device", "host", "disk"]


@dataclass(frozen=True)
class Storage:
    """Where history is kept, and how it is coded.

    Attributes
    ----------
    mode : {"device", "cpu", "disk", "none"}
    path : str, optional
        Folder of the file, for "disk".
    compression : Compression, optional
    """

    mode: Mode = "device"
    path: str | None = None
    compression: Compression | None = None

    def __post_init__(self) -> None:
        if self.mode not in get_args(Mode):
            rule = f"is one of {', '.join(get_args(Mode))}"
            raise InvalidValueError("storage_mode", self.mode, rule, "choose one of these")
        if not isinstance(self.path, str | os.PathLike | None):
            raise InvalidTypeError("storage_path", self.path, "is a folder", "give its path as text")
        if self.path is not None and self.mode != "disk":
            remedy = 'give storage_mode="disk", or leave storage_path out'
            raise InvalidValueError("storage_path", self.path, "is where a file of history lies", remedy)
        coding = self.compression and self.compression.quantiser
        if self.mode == "device" and coding == "none":
            remedy = 'give storage_mode="cpu" or "disk", or a coding of the device: "bf16" or "int8"'
            raise InvalidValueError("storage_compression", "lossless", "is done by blosc2 on the host", remedy)

    def place(self, on_device: bool) -> Place:
        """Where states and what is coded lie."""
        return "disk" if self.mode == "disk" else "host" if self.mode == "cpu" and on_device else "device"

    def _whole(self, on_device: bool) -> bool:
        """Whether the ring holds all."""
        return not self.compression and self.mode != "disk" and (self.mode == "device" or not on_device)

    def buffers(self, slots: Slots, on_device: bool) -> Iterator[Need]:
        """What history takes; on a shelf as if blosc2 saved nothing."""
        if self._whole(on_device):
            yield Need("history", (slots.most, *slots.shape), slots.real)
        elif self.mode == "device":
            assert self.compression is not None
            yield from Coded.buffers(slots, self.compression.quantiser)
        else:
            yield from Streamed.buffers(slots, self.compression, on_device)
            size = slots.most * coded_bytes(self.compression, slots.size, slots.real)
            yield Need("history.shelf", (size,), "uint8", "disk" if self.mode == "disk" else "host")

    def parts(self, slots: Slots, first: int, last: int, on_device: bool) -> int:
        """In how many pieces steps ``first`` to ``last - 1`` of a segment are made, and gone back."""
        if self._whole(on_device):
            return 1
        here = self.mode == "device"
        each = slots_at_once(slots.bytes, slots.most) if here else moved(slots, self.compression, on_device).ring
        return sum(1 for _ in parts(first, last, each, slots.stride))

    def store(self, slots: Slots, space: Any, backend: Backend, make: Make) -> Store:
        """The store of a run.

        Raises
        ------
        StorageError
            If there is no room for the largest segment, or no file can be made.
        """
        coding = self.compression
        if self._whole(space.device is not None):
            return Whole(slots, make)
        if self.mode == "device":
            assert coding is not None
            return Coded(slots, backend.coder(space), coding.quantiser, make)
        self._check_room(slots)
        # Codes are copied in few calls; where all bits go to the host, many threads are faster.
        copier = space.copier if coding and not coding.codec else None
        shelf = Shelf(Rooms(copier) if self.mode == "cpu" else File(self.path), coding)
        return Streamed(slots, space, backend.coder(space), coding, shelf, make)

    def states(self, space: Any, make: Make, store: Store | None = None) -> States:
        """Where a run's states are kept; ``store`` lends them room, if it can."""
        if self.place(space.device is not None) == "device":
            return States(space, None, make)
        shelf = Shelf(File(self.path) if self.mode == "disk" else Rooms())
        return States(space, shelf, make, store.lend if store else None)

    def spare(self, slots: Slots, on_device: bool) -> int:
        """Bytes of each array that the store can lend to states."""
        return Streamed.spare(slots, self.compression) if self.place(on_device) != "device" else 0

    def _check_room(self, slots: Slots) -> None:
        """Whether the history of a segment fits, with nothing saved by blosc2."""
        needed = slots.most * coded_bytes(self.compression, slots.size, slots.real)
        if self.mode == "disk":
            folder = os.fspath(self.path) if self.path is not None else File.default()
            free = shutil.disk_usage(folder).free if os.path.isdir(folder) else None
            argument, what = "storage_path", f"{folder} with {_giga(free)} free"
        else:
            free = free_memory()
            argument, what = "storage_mode", f"cpu with {_giga(free)} of memory free"
        if free is not None and needed > free:
            rule = f"history may take {_giga(needed)} there"
            remedy = "use more checkpoint_segments, storage_compression=True, or fewer shots a call"
            raise StorageError(argument, what, rule, remedy)


def free_memory() -> int | None:
    """Bytes that the host can still give; None where the system does not say."""
    try:
        with open("/proc/meminfo") as file:
            found = next(line for line in file if line.startswith("MemAvailable"))
    except (OSError, StopIteration):
        return None
    return int(found.split()[1]) * 1024


def _giga(number: int | None) -> str:
    return "an unknown amount" if number is None else f"{number / 1e9:.3g} GB"
