"""Pieces of history outside the run's memory: what is kept comes back whole, or not at all."""

import errno
import itertools
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from numbawave.errors import StorageError
from numbawave.history import media, shelf
from numbawave.history.codecs.blosc import compress
from numbawave.history.codecs.compression import Compression
from numbawave.history.media import File, Places, Rooms
from numbawave.history.shelf import Shelf, pieces

LOSSLESS = Compression("none")
MAKE: dict[str, Callable[[Path], Shelf]] = {
    "memory": lambda _: Shelf(Rooms()),
    "memory, compressed": lambda _: Shelf(Rooms(), LOSSLESS),
    "memory, quantised only": lambda _: Shelf(Rooms(), Compression("int8", None)),
    "disk": lambda folder: Shelf(File(str(folder))),
    "disk, compressed": lambda folder: Shelf(File(str(folder)), LOSSLESS),
    "disk of the system": lambda _: Shelf(File(None)),
}


@pytest.fixture(params=MAKE)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shelf]:
    """Every kind of shelf."""
    made = MAKE[request.param](tmp_path)
    yield made
    made.close()
    assert not list(tmp_path.iterdir())


def values(rng: np.random.Generator, size: int, dtype: str = "float32") -> Any:
    return (100 * rng.standard_normal(size)).astype(dtype)


def done(start: Any) -> list[Any]:
    """What all jobs of a part gave."""
    own, others = start.result()
    return [own, *(job.result() for job in others)]


def came_back(place: Shelf, key: tuple[int, ...], piece: Any) -> bool:
    found = np.full_like(piece, 7)
    place.get(key, found)
    return np.array_equal(found, piece)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "uint16"])
def test_pieces_come_back(place: Shelf, dtype: str, rng: np.random.Generator) -> None:
    kept = {
        (number, position): values(rng, 1 + 50 * number + position, dtype) for number in range(3) for position in (0, 1)
    }
    taken = {key: place.put(key, piece) for key, piece in kept.items()}
    assert all(taken[key] > 0 for key in kept)
    assert all(came_back(place, key, kept[key]) for key in reversed(kept))
    assert all(came_back(place, key, kept[key]) for key in kept)


def test_a_copy_is_kept(place: Shelf, rng: np.random.Generator) -> None:
    piece = values(rng, 60)
    before = piece.copy()
    place.put((0, 0), piece)
    piece[:] = -1
    assert came_back(place, (0, 0), before)


@pytest.mark.parametrize(("size", "dtype"), [(60, "float32"), (61, "float32"), (60, "float64"), (3, "int8")])
def test_a_key_may_be_used_again(place: Shelf, size: int, dtype: str, rng: np.random.Generator) -> None:
    for clear in (False, True):
        place.put((0, 0), values(rng, 60))
        if clear:
            place.clear()
        piece = values(rng, size, dtype)
        place.put((0, 0), piece)
        assert came_back(place, (0, 0), piece)


def test_dropped_pieces_are_gone_and_others_stay(place: Shelf, rng: np.random.Generator) -> None:
    kept = {key: values(rng, 40) for key in ((1, 0), (1, 1), (11, 0), (2, 1, 0))}
    for key, piece in kept.items():
        place.put(key, piece)
    place.drop(1)
    for key in ((1, 0), (1, 1)):
        with pytest.raises(KeyError):
            place.get(key, kept[key])
    assert all(came_back(place, key, kept[key]) for key in ((11, 0), (2, 1, 0)))


def test_a_closed_shelf_may_be_used_again(place: Shelf, rng: np.random.Generator) -> None:
    piece = values(rng, 40)
    place.put((0, 0), piece)
    place.close()
    place.close()
    with pytest.raises(KeyError):
        place.get((0, 0), piece)
    place.put((0, 0), piece)
    assert came_back(place, (0, 0), piece)


@pytest.mark.parametrize("workers", [1, 8])
def test_threads_do_not_meet(place: Shelf, workers: int, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(media, "COPIED_BYTES", 256)
    monkeypatch.setattr(shelf, "COMPRESSED_BYTES", 256)
    arrays = {number: [values(rng, 1000), values(rng, 70, "int8")] for number in range(6)}
    found = {number: [np.zeros_like(array) for array in both] for number, both in arrays.items()}

    class Now:
        def wait(self) -> None:
            """Nothing is queued."""

    with ThreadPoolExecutor(workers) as pool:
        started = [place.put_all(pool, (number,), both, Now()) for number, both in arrays.items()]
        assert sum(sum(done(start)) for start in started) > 0
        for start in [place.get_all(pool, (number,), both, None) for number, both in found.items()]:
            done(start)
    for number, both in arrays.items():
        assert all(np.array_equal(one, other) for one, other in zip(both, found[number], strict=True))


def test_a_piece_waits_for_its_turn(rng: np.random.Generator) -> None:
    place, piece, turn, started = Shelf(Rooms()), values(rng, 10), threading.Event(), threading.Event()

    class Later:
        def wait(self) -> None:
            started.set()
            turn.wait(10)

    with ThreadPoolExecutor(2) as pool:
        start = place.put_all(pool, (0,), [piece], Later())
        assert started.wait(10)
        piece[:] = 3
        turn.set()
        done(start)
        done(place.get_all(pool, (0,), [piece], Later()))
    assert (piece == 3).all()


@pytest.mark.parametrize("share", [shelf.COMPRESSED_BYTES, media.COPIED_BYTES])
def test_arrays_are_cut_into_pieces_of_any_item(share: int) -> None:
    for array in (
        np.zeros(0, "f4"),
        np.zeros(5, "f8"),
        np.zeros(share // 4 + 1, "f4"),
        np.zeros(2 * share, "i1"),
        np.zeros(7 * share // 3, "i1"),
    ):
        cut = pieces(array, share)
        assert sum(piece.size for piece in cut) == array.size
        assert all(0 < piece.nbytes <= share and np.shares_memory(piece, array) for piece in cut)
        assert len(cut) == -(-array.nbytes // share)
        assert not cut or cut[0].nbytes - cut[-1].nbytes < len(cut) * array.itemsize


@pytest.mark.parametrize("size", [500, 3 * shelf.SAMPLE])
@pytest.mark.parametrize("name", ["memory, compressed", "disk, compressed"])
def test_what_compression_does_not_shrink_is_kept_as_it_is(
    name: str, size: int, tmp_path: Path, rng: np.random.Generator
) -> None:
    place, noise = MAKE[name](tmp_path), values(rng, size)
    smooth = np.repeat(noise[: size // 50], 50)
    taken = [place.put((0, position), piece) for position, piece in enumerate((noise, smooth))]
    assert taken[0] == noise.nbytes
    assert 0 < taken[1] < smooth.nbytes / 1.25
    assert came_back(place, (0, 0), noise)
    assert came_back(place, (0, 1), smooth)
    place.close()


def damage(place: Shelf, how: str) -> None:
    """Change the last bit of what is kept, or cut it off."""
    ((start, size, checksum, small),) = place._kept.values()
    if isinstance(place.medium, Rooms):
        if how == "truncated":
            place._kept[0, 0] = start, size - 1, checksum, small
        else:
            place.medium.read(start, size)[-1] ^= 1
    elif how == "truncated":
        os.ftruncate(place.medium._open.fileno(), size - 1)
    else:
        file = place.medium._open.fileno()
        os.pwrite(file, bytes([os.pread(file, 1, size - 1)[0] ^ 1]), size - 1)


@pytest.mark.parametrize("name", ["memory, compressed", "disk", "disk, compressed"])
@pytest.mark.parametrize("how", ["garbage", "truncated"])
def test_damage_is_an_error(name: str, how: str, tmp_path: Path, rng: np.random.Generator) -> None:
    place, piece = MAKE[name](tmp_path), np.repeat(values(rng, 10), 50)
    place.put((0, 0), piece)
    damage(place, how)
    with pytest.raises(StorageError, match=r"Remedy: "):
        place.get((0, 0), np.full_like(piece, 7))
    place.close()


class Fails:
    """A system call that does so."""

    def __init__(self, code: int) -> None:
        self.code = code

    def __call__(self, *_: Any, **__: Any) -> Any:
        raise OSError(self.code, os.strerror(self.code))


@pytest.mark.parametrize(
    ("call", "code", "remedy"),
    [("pwrite", errno.ENOSPC, "make room"), ("pwrite", errno.EIO, "make room"), ("preadv", errno.EIO, "check the disk")],
)
def test_a_failing_disk_names_its_folder(
    call: str, code: int, remedy: str, tmp_path: Path, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, piece = Shelf(File(str(tmp_path))), values(rng, 50)
    place.put((0, 0), piece)
    monkeypatch.setattr(os, call, Fails(code))
    with pytest.raises(StorageError, match=f"^storage_path = {tmp_path}: .*{os.strerror(code)}.*Remedy: {remedy}"):
        place.put((0, 1), piece) if call == "pwrite" else place.get((0, 0), piece)
    place.close()


@pytest.mark.parametrize("code", [errno.ENOENT, errno.EACCES, errno.EROFS, errno.EMFILE])
def test_a_folder_without_files_is_named(code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(media.tempfile, "TemporaryFile", Fails(code))
    with pytest.raises(StorageError, match=f"^storage_path = {tmp_path}: .*{os.strerror(code)}"):
        Shelf(File(str(tmp_path)))


def test_a_write_in_several_goes_is_whole(
    tmp_path: Path, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, piece, before = Shelf(File(str(tmp_path))), values(rng, 500), os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda file, data, at: before(file, data[:100], at))
    place.put((0, 0), piece)
    assert came_back(place, (0, 0), piece)
    place.close()


@pytest.mark.parametrize("name", ["disk", "disk, compressed"])
def test_systems_without_positioned_reads(
    name: str, tmp_path: Path, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "pwrite")
    monkeypatch.delattr(os, "preadv")
    place, kept = MAKE[name](tmp_path), [values(rng, 400 + n) for n in range(8)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda n: place.put((n, 0), kept[n]), range(8)))
        assert all(pool.map(lambda n: came_back(place, (n, 0), kept[n]), range(8)))
    place.close()


def test_the_file_has_no_name_and_goes_with_its_user(tmp_path: Path, rng: np.random.Generator) -> None:
    place = Shelf(File(str(tmp_path)))
    place.put((0, 0), values(rng, 50))
    file = place.medium._open.fileno()
    assert os.fstat(file).st_nlink == 0
    assert not list(tmp_path.iterdir())
    del place
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(file)


def test_a_cleared_file_does_not_grow(tmp_path: Path, rng: np.random.Generator) -> None:
    place, sizes = Shelf(File(str(tmp_path))), []
    for _ in range(3):
        place.clear()
        for number in range(4):
            place.put((number, 0), values(rng, 100))
        sizes.append(os.fstat(place.medium._open.fileno()).st_size)
    assert sizes == [1600] * 3
    place.close()


@pytest.mark.parametrize("name", ["memory", "disk"])
def test_what_is_dropped_makes_room_for_as_much(name: str, tmp_path: Path, rng: np.random.Generator) -> None:
    place = MAKE[name](tmp_path)
    for number in range(5):
        place.put((number, 0), values(rng, 100))
        place.put((number, 0), values(rng, 100))
        place.drop(number - 2)
    assert place.medium.places.take(1) <= 3 * 400
    assert sorted(key for key, _ in place._kept) == [3, 4]
    place.close()


def test_no_place_lies_in_two_rooms(rng: np.random.Generator) -> None:
    places, taken = Places(100), []
    for size in rng.integers(1, 101, 300):
        taken.append((places.take(int(size)), int(size)))
    assert all(place // 100 == (place + size - 1) // 100 for place, size in taken)
    ends = sorted(taken)
    assert all(place + size <= later for (place, size), (later, _) in itertools.pairwise(ends))


def test_memory_is_taken_as_it_is_used(monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator) -> None:
    monkeypatch.setattr(media, "ROOM_BYTES", 1000)
    place, kept = Shelf(Rooms()), [values(rng, 150) for _ in range(5)]
    for number, piece in enumerate(kept):
        place.put((number, 0), piece)
        assert len(place.medium._rooms) == number + 1
    assert all(came_back(place, (number, 0), piece) for number, piece in enumerate(kept))
    place.clear()
    for number, piece in enumerate(kept[:3]):
        place.put((number, 0), piece)
    assert len(place.medium._rooms) == 5
    place.close()
    assert not place.medium._rooms


@pytest.mark.parametrize(("codec", "least"), shelf.PAYS.items())
def test_what_a_codec_must_save(codec: str, least: float, rng: np.random.Generator) -> None:
    place, choices = Shelf(Rooms(), Compression("int8", codec)), set()
    for part in np.linspace(0, 1, 41):
        piece = rng.integers(-100, 100, 5000).astype("int8")
        piece[: int(part * 5000)] = 0
        pays = piece.nbytes >= least * len(compress(piece, place.compression))
        assert (place.put((0, 0), piece) < piece.nbytes) == pays
        choices.add(pays)
    assert choices == {False, True}


def test_a_sample_is_taken_from_everywhere(rng: np.random.Generator) -> None:
    """An array that is random but for one stretch does not look smooth, wherever that lies."""
    size = 8 * shelf.SAMPLE
    for start in range(0, size, shelf.SAMPLE):
        place, array = Shelf(Rooms(), LOSSLESS), values(rng, size)
        array[start : start + shelf.SAMPLE] = 0
        assert place.put((0, 0), array) == array.nbytes
        place.close()
