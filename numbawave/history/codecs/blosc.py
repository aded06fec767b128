"""The door to blosc2: pieces of arrays to bytes, and back."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from numpy.typing import NDArray

from numbawave.errors import BackendError, InvalidValueError, StorageError
from numbawave.history.codecs.compression import Compression, Shuffle

MOST_BYTES = 2**31 - 1 - 32
"""Of a piece: blosc2 counts in 32 bits, and adds up to 32 bytes."""

LEAST_BYTES = 32
"""Of a chunk: its header."""

_FILTERS: dict[Shuffle, str] = {"bit": "BITSHUFFLE", "byte": "SHUFFLE", "none": "NOFILTER"}


def compress(array: NDArray[Any], compression: Compression) -> bytes:
    """Compress one piece; may run in many threads at once.

    Parameters
    ----------
    array : ndarray
        Of any shape and dtype, C-contiguous, at most ``MOST_BYTES``.
    compression : Compression
        Its codec, level, filters and, for floats, the bits of the mantissa to keep.

    Returns
    -------
    bytes
        A blosc2 chunk, which has no checksum.

    Raises
    ------
    InvalidValueError
        Where the piece is empty, too large or not contiguous, or the codec is None.
    BackendError
        Where blosc2 is not installed, or fails.
    """
    _check(array)
    if compression.codec is None:
        raise InvalidValueError("codec", None, "names what compresses on the host", 'use codec="lz4"')
    blosc2 = _package()
    bits = compression.mantissa_bits(array.dtype) if array.dtype.kind == "f" else None
    cut = [(blosc2.Filter.TRUNC_PREC, bits)] if bits else []
    filters = [*cut, (getattr(blosc2.Filter, _FILTERS[_shuffle(array, compression)]), 0)]
    try:
        chunk = blosc2.compress2(
            array,
            codec=getattr(blosc2.Codec, compression.codec.upper()),
            clevel=compression.level,
            typesize=array.itemsize,
            nthreads=1,
            filters=[kind for kind, _ in filters],
            filters_meta=[meta for _, meta in filters],
        )
    except (RuntimeError, ValueError) as error:
        remedy = "give more memory, or use storage_compression=False"
        raise BackendError("storage_compression", compression, f"blosc2 failed ({error})", remedy) from error
    return bytes(chunk)


def decompress(data: Any, out: NDArray[Any]) -> None:
    """Bring back one piece; may run in many threads at once.

    Parameters
    ----------
    data : buffer
        What ``compress`` gave, whole: a checksum over it is the caller's.
    out : ndarray
        Of the piece's size in bytes, C-contiguous; is overwritten, unless an error is raised before.

    Raises
    ------
    StorageError
        Where the data are not what ``compress`` gave, or are of a piece of another size.
    InvalidValueError
        Where ``out`` is not contiguous or cannot be written.
    BackendError
        Where blosc2 is not installed.
    """
    _check(out)
    if not out.flags.writeable:
        raise InvalidValueError("out", f"{out.shape} {out.dtype}", "can be written", "give an array of your own")
    chunk = memoryview(data)
    if len(chunk) < LEAST_BYTES:
        raise _damaged(chunk, f"{len(chunk)} bytes are fewer than any compressed piece has")
    blosc2 = _package()
    size, held, _ = blosc2.get_cbuffer_sizes(chunk)
    if held != len(chunk) or size != out.nbytes:
        raise _damaged(chunk, f"it holds {size} bytes in {held}, wanted are {out.nbytes} in {len(chunk)}")
    try:
        blosc2.decompress2(chunk, out, nthreads=1)
    except (RuntimeError, ValueError) as error:
        raise _damaged(chunk, f"blosc2 cannot read it ({error})") from error


class _Switch:
    """Whether blosc2 releases Python's lock, which is one for the process, while several runs may be alive."""

    def __init__(self) -> None:
        self.lock, self.users, self.before = threading.Lock(), 0, False

    def take(self) -> None:
        with self.lock:
            if not self.users:
                self.before = _package().set_releasegil(True)
            self.users += 1

    def leave(self) -> None:
        with self.lock:
            self.users -= 1
            if not self.users:
                _package().set_releasegil(self.before)


_SWITCH = _Switch()


@contextmanager
def side_by_side() -> Iterator[None]:
    """Let threads compress at the same time: without, two of them are no faster than one.

    The last one to leave puts the switch back as the first one found it.
    """
    _SWITCH.take()
    try:
        yield
    finally:
        _SWITCH.leave()


def _package() -> Any:
    try:
        import blosc2
    except ImportError as error:
        remedy = "pip install blosc2, or use storage_compression=False"
        raise BackendError("storage_compression", "blosc2", f"cannot be imported ({error})", remedy) from error
    return blosc2


def _shuffle(array: NDArray[Any], compression: Compression) -> Shuffle:
    """What is rearranged. Measured with LZ4 on waves that fill a hundredth, half and all of a layered 120^3 grid.

    Codes of one byte: 4.0 to 17 times smaller than float32 without, 4.0 to 10 with bits rearranged, which halves the speed.
    Words of two bytes and float32: bytes save 6 to 9 % beside bits. Float64, and values that were cut, whose last bits
    are zero: bits save 10 to 15 % beside bytes.
    """
    if compression.shuffle != "auto":
        return compression.shuffle
    if array.itemsize == 1:
        return "none"
    return "bit" if array.itemsize == 8 or (array.dtype.kind == "f" and compression.mantissa_bits(array.dtype)) else "byte"


def _check(array: NDArray[Any]) -> None:
    shown = f"{array.shape} {array.dtype}"
    if not array.flags.c_contiguous:
        raise InvalidValueError("array", shown, "is contiguous, its last axis fastest", "give a contiguous copy")
    if not 0 < array.nbytes <= MOST_BYTES:
        raise InvalidValueError("array", shown, f"has 1 to {MOST_BYTES} bytes", "compress it piece by piece")


def _damaged(data: memoryview, rule: str) -> StorageError:
    return StorageError("stored history", f"{len(data)} bytes", rule, "run again; should it recur, check memory and disk")
