"""Compressed pieces: the same bits or a stated error, and never a wrong array."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from numbawave.errors import BackendError, InvalidValueError, StorageError
from numbawave.history.codecs import blosc
from numbawave.history.codecs.compression import Codec, Compression, Shuffle

blosc2 = pytest.importorskip("blosc2")
LOSSLESS = Compression("none")


def smooth(dtype: str, size: int = 40_000) -> np.ndarray:
    along = np.linspace(0, 60, size)
    return (np.sin(along) * np.exp(-((along - 30) ** 2) / 40) * 100).astype(dtype)


def there_and_back(array: np.ndarray, compression: Compression) -> np.ndarray:
    out = np.empty_like(array)
    blosc.decompress(blosc.compress(array, compression), out)
    return out


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "uint16"])
@pytest.mark.parametrize("codec", ["lz4", "zstd", "blosclz"])
@pytest.mark.parametrize("shuffle", ["auto", "bit", "byte", "none"])
def test_lossless_is_bit_equal(dtype: str, codec: Codec, shuffle: Shuffle) -> None:
    array = smooth(dtype)
    if array.dtype.kind == "f":
        array[:3] = np.nan, np.inf, -0.0
    compression = Compression("none", codec, shuffle=shuffle)
    assert there_and_back(array, compression).tobytes() == array.tobytes()
    if shuffle != "none":
        assert len(blosc.compress(array, compression)) < array.nbytes


@pytest.mark.parametrize("size", [1, 3, 31, 1000])
def test_small_and_random_pieces_come_back(rng: np.random.Generator, size: int) -> None:
    array = rng.standard_normal(size).astype("float32")
    data = blosc.compress(array, LOSSLESS)
    assert len(data) <= array.nbytes + 32
    assert np.array_equal(there_and_back(array, LOSSLESS), array)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("tolerance", [1e-3, 2.0**-10, 1e-5, 1e-12])
def test_cut_values_keep_their_tolerance(rng: np.random.Generator, dtype: str, tolerance: float) -> None:
    compression = Compression(tolerance=tolerance)
    array = (rng.standard_normal(5000) * 10.0 ** rng.uniform(-9, 3, 5000)).astype(dtype)
    error = np.abs(there_and_back(array, compression) - array)
    assert np.all(error <= tolerance * np.abs(array))
    assert np.all(error <= compression.relative_error(dtype) * np.abs(array))
    assert (error.max() > 0) == (compression.mantissa_bits(dtype) is not None)


def test_cutting_leaves_codes_and_what_is_not_finite_alone() -> None:
    compression = Compression("none", tolerance=0.25)
    codes = np.arange(-128, 128).astype("int8")
    assert np.array_equal(there_and_back(codes, compression), codes)
    bad = np.array([np.nan, np.inf, -np.inf] * 50, "float32")
    bad[3] = np.array([0x7F800001], "uint32").view("float32")[0]
    assert not np.isfinite(there_and_back(bad, compression)).any()


def test_truncated_data_are_an_error() -> None:
    array = smooth("float32", 2000)
    data = blosc.compress(array, LOSSLESS)
    for length in range(len(data)):
        with pytest.raises(StorageError, match="fewer|wanted are"):
            blosc.decompress(data[:length], np.empty_like(array))


@pytest.mark.parametrize("size", [1999, 2001])
def test_a_piece_of_another_size_is_an_error(size: int) -> None:
    data = blosc.compress(smooth("float32", 2000), LOSSLESS)
    with pytest.raises(StorageError, match=f"8000 bytes .* wanted are {4 * size}"):
        blosc.decompress(data, np.empty(size, "float32"))


def test_arrays_that_cannot_be_used_are_refused() -> None:
    data = blosc.compress(smooth("float32", 2000), LOSSLESS)
    fixed = np.empty(2000, "float32")
    fixed.flags.writeable = False
    with pytest.raises(InvalidValueError, match="can be written"):
        blosc.decompress(data, fixed)
    with pytest.raises(InvalidValueError, match="contiguous"):
        blosc.decompress(data, np.empty(4000, "float32")[::2])
    with pytest.raises(InvalidValueError, match="contiguous"):
        blosc.compress(np.empty(4000, "float32")[::2], LOSSLESS)
    with pytest.raises(InvalidValueError, match="piece by piece"):
        blosc.compress(np.empty(0, "float32"), LOSSLESS)
    with pytest.raises(InvalidValueError, match="codec"):
        blosc.compress(fixed, Compression("int8", None))


def test_a_piece_beyond_the_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert blosc.MOST_BYTES <= blosc2.MAX_BUFFERSIZE
    monkeypatch.setattr(blosc, "MOST_BYTES", 7999)
    with pytest.raises(InvalidValueError, match="7999 bytes"):
        blosc.compress(smooth("float32", 2000), LOSSLESS)


@pytest.mark.parametrize("before", [False, True])
def test_the_switch_is_put_back_by_the_last(before: bool) -> None:
    found = blosc2.set_releasegil(before)
    try:
        one, other = blosc.side_by_side(), blosc.side_by_side()
        one.__enter__()
        other.__enter__()
        one.__exit__(None, None, None)
        assert blosc2.set_releasegil(True) is True
        other.__exit__(None, None, None)
        assert blosc2.set_releasegil(before) is before
        with pytest.raises(ZeroDivisionError), blosc.side_by_side():
            _ = 1 / 0
        assert blosc2.set_releasegil(before) is before
    finally:
        blosc2.set_releasegil(found)


def test_threads_do_not_meet(rng: np.random.Generator) -> None:
    arrays = [rng.standard_normal(20_000).astype("float32").cumsum(dtype="float32") for _ in range(16)]
    with blosc.side_by_side(), ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda array: there_and_back(array, LOSSLESS), arrays))
    assert all(np.array_equal(one, other) for one, other in zip(arrays, found, strict=True))


def test_without_blosc2_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "blosc2", None)
    with pytest.raises(BackendError, match="pip install blosc2"):
        blosc.compress(smooth("float32"), LOSSLESS)
    with pytest.raises(BackendError, match="pip install blosc2"), blosc.side_by_side():
        pass


def test_the_door_opens_when_something_is_compressed() -> None:
    text = "import sys, numbawave.history.codecs.blosc; assert 'blosc2' not in sys.modules"
    subprocess.run([sys.executable, "-c", text], check=True, timeout=60)
