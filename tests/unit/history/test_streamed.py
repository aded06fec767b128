"""History that moves while steps go on: nothing is overtaken, nothing is lost, and errors arrive."""

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from numbawave.engine.space import Copy, Done, HostMemory, Lane
from numbawave.history import parts
from numbawave.history.base import Slots, Walk
from numbawave.history.codecs.compression import Compression
from numbawave.history.media import Rooms
from numbawave.history.shelf import Shelf
from numbawave.history.streamed import Streamed

REAL = np.dtype("float64")
HERE = HostMemory(REAL)

SIZE = 130
"""Values of a slot: blocks of codes end within it."""


class Slow(Shelf):
    """A shelf whose pieces take their time, each another one, and may fail."""

    def __init__(self) -> None:
        super().__init__(Rooms())
        self.rng, self.fails = np.random.default_rng(1), ""

    def put(self, key: tuple[int, ...], piece: Any, pays: bool | None = None) -> int:
        """See ``Shelf``."""
        self._wait("put", key)
        return super().put(key, piece, pays)

    def get(self, key: tuple[int, ...], piece: Any) -> int:
        """See ``Shelf``."""
        self._wait("get", key)
        return super().get(key, piece)

    def _wait(self, what: str, key: tuple[int, ...]) -> None:
        time.sleep(0.002 * self.rng.random())
        if self.fails == what and key[0] == 1:
            raise ZeroDivisionError(what)


class Beside(Done):
    """A lane whose copies on the host are others than the run's own arrays, as on a device; it does all at once."""

    def staged(self, array: Any, times: int) -> Any:
        """See ``Lane``."""
        return np.full(times * array.size, 98, array.dtype)

    def out(self, copies: Sequence[Copy]) -> Done:
        """See ``Lane``."""
        for array, staged, start in copies:
            staged[start : start + array.size] = array
        return self

    def back(self, copies: Sequence[Copy], after: Any) -> Done:
        """See ``Lane``."""
        for array, staged, start in copies:
            array[...] = staged[start : start + array.size]
        return self


class Apart(HostMemory):
    """Memory of the host beside which there is other memory, as beside a device's."""

    def lane(self) -> Lane:
        """See ``Space``."""
        return Beside()


Sizes = tuple[int, int, int]
SIZES: dict[str, Sizes] = {
    "slot by slot": (1, 1, 1),
    "slots at once": (2**20, 1, 2**20),
    "parts in turn": (2**20, 2 * 8 * SIZE, 1),
    "loads": (1, 1, 2**20),
    "loads of parts": (900, 1, 2**20),
}
"""Bytes of a part, of the ring, of a load."""


def store(
    monkeypatch: pytest.MonkeyPatch,
    most: int,
    stride: int = 1,
    coding: str | None = None,
    sizes: Sizes = (1, 2**20, 1),
    space: HostMemory = HERE,
) -> Streamed:
    """A store on the slow shelf, in parts of a slot unless said otherwise."""
    from numbawave.backends.coding_cpu import CpuCoder

    for name, size in zip(("PART_BYTES", "RING_BYTES", "LOAD_BYTES"), sizes, strict=True):
        monkeypatch.setattr(parts, name, size)
    slots = Slots((1, 1, SIZE), "float64", most, stride)
    compression = Compression(coding, None) if coding else None  # type: ignore[arg-type]
    needs = {need.name: need for need in Streamed.buffers(slots, compression, space.device is not None)}

    def make(name: str) -> Any:
        return np.full(needs[name].shape, 99, needs[name].dtype)

    return Streamed(slots, space, CpuCoder(), compression, Slow(), make)


def value(step: int) -> Any:
    """What a step leaves."""
    return np.random.default_rng(step).standard_normal(SIZE)


def walks(found: Streamed, error: float = 0.0, stop: int = -1) -> tuple[Walk, Walk, list[int]]:
    """Steps that write what they leave, and that look whether it is there; they may be stopped at one."""
    ring, stride, seen = found.ring, found.slots.stride, []

    def walk(look: bool, first: int, last: int) -> None:
        for step in range(first, last)[:: -1 if look else 1]:
            if step == stop:
                raise KeyboardInterrupt
            if step % stride:
                continue
            slot = ring[step // stride % len(ring)].reshape(-1)
            if look:
                np.testing.assert_allclose(slot, value(step), rtol=0, atol=error)
                seen.append(step)
            else:
                slot[:] = value(step)

    return lambda first, last: walk(False, first, last), lambda first, last: walk(True, first, last), seen


def no_threads() -> bool:
    return not any(thread.name.startswith("numbawave-history") for thread in threading.enumerate())


ERRORS = {None: 0.0, "bf16": 4 * 2.0**-8, "int8": 4 / 254}


@pytest.mark.parametrize("coding", ERRORS)
@pytest.mark.parametrize(
    ("first", "last", "stride"), [(0, 13, 1), (5, 18, 1), (3, 4, 1), (7, 30, 3), (1, 12, 5), (4, 6, 7), (3, 42, 1)]
)
@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("space", [HERE, Apart(REAL, 0)], ids=["here", "apart"])
def test_steps_find_what_they_left(
    space: HostMemory, sizes: str, first: int, last: int, stride: int, coding: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = [step for step in range(first, last) if step % stride == 0]
    found = store(monkeypatch, max(1, len(kept)), stride, coding, SIZES[sizes], space)
    write, read, seen = walks(found, ERRORS[coding])
    for _ in range(2):
        found.write(first, last, write)
        assert no_threads()
        found.read(first, last, read)
        assert no_threads()
    assert seen == 2 * kept[::-1]
    each = SIZE * 8 if coding is None else 2 * SIZE if coding == "bf16" else SIZE + 8 * SIZE / 64
    assert each * len(kept) <= found.kept_bytes <= (each + 8) * len(kept)
    found.close()


def test_a_segment_replaces_the_one_before(monkeypatch: pytest.MonkeyPatch) -> None:
    found = store(monkeypatch, 9)
    write, read, seen = walks(found)
    for first, last in ((18, 27), (9, 18), (0, 9)):
        found.write(first, last, write)
        found.read(first, last, read)
        assert found.kept_bytes == 9 * SIZE * 8
    assert seen == list(range(27))[::-1]
    assert found.shelf.medium.places.take(1) <= 10 * SIZE * 8
    found.close()


def test_a_closed_store_may_be_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    found = store(monkeypatch, 9)
    found.write(0, 9, walks(found)[0])
    found.close()
    found.close()
    assert not found.shelf._kept
    write, read, seen = walks(found)
    found.write(0, 9, write)
    found.read(0, 9, read)
    assert seen == list(range(9))[::-1]
    found.close()


@pytest.mark.parametrize("coding", ERRORS)
@pytest.mark.parametrize("what", ["put", "get"])
def test_what_fails_on_the_shelf_arrives(what: str, coding: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    found = store(monkeypatch, 13, 1, coding)
    write, read, _ = walks(found, ERRORS[coding])
    found.shelf.fails = what
    steps: dict[str, Callable[[], None]] = {
        "put": lambda: found.write(0, 13, write),
        "get": lambda: found.read(0, 13, read),
    }
    if what == "get":
        steps["put"]()
    with pytest.raises(ZeroDivisionError, match=what):
        steps[what]()
    assert no_threads()
    found.close()


@pytest.mark.parametrize("coding", ERRORS)
@pytest.mark.parametrize("stop", [0, 5, 12])
def test_a_walk_that_stops_leaves_no_thread(stop: int, coding: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    found = store(monkeypatch, 13, 1, coding)
    with pytest.raises(KeyboardInterrupt):
        found.write(0, 13, walks(found, stop=stop)[0])
    assert no_threads()
    found.close()
    found.write(0, 13, walks(found)[0])
    with pytest.raises(KeyboardInterrupt):
        found.read(0, 13, walks(found, ERRORS[coding], stop)[1])
    assert no_threads()
    found.close()
    write, read, seen = walks(found, ERRORS[coding])
    found.write(0, 13, write)
    found.read(0, 13, read)
    assert seen == list(range(13))[::-1]
    found.close()
