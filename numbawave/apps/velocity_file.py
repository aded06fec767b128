"""Velocity models and records from files: NumPy, and SEG-Y through segyio."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidTypeError, InvalidValueError, StorageError

SEGY_ENDINGS = (".sgy", ".segy")
FORMAT_CODE = 3224
"""Bytes of a SEG-Y file in front of the code of its samples' format."""


def load_array(argument: str, path: str) -> NDArray[Any]:
    """Read a .npy file of finite real numbers.

    Parameters
    ----------
    argument : str
        The job's key, for messages.
    path : str

    Returns
    -------
    ndarray

    Raises
    ------
    StorageError
        If there is no such file or it is not one of NumPy's.
    InvalidTypeError, InvalidValueError
        If it holds something else than finite real numbers.
    """
    try:
        with open(path, "rb") as stream:
            array = np.load(stream, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        reason = getattr(error, "strerror", None) or error
        remedy = "check the path; write the file with numpy.save"
        raise StorageError(argument, path, f"cannot be read as a .npy file ({reason})", remedy) from error
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "fiu":
        raise InvalidTypeError(argument, path, "must hold one array of real numbers", "save it with numpy.save")
    return _checked_finite(argument, path, array)


def _checked_finite(argument: str, path: str, array: NDArray[Any]) -> NDArray[Any]:
    if not np.isfinite(array).all():
        cell = tuple(int(n) for n in np.argwhere(~np.isfinite(array))[0])
        raise InvalidValueError(argument, path, f"holds NaN or infinity, first at {cell}", "fill or cut those values")
    return array


def load_velocity(argument: str, path: str, shape: tuple[int, ...] = ()) -> NDArray[np.float64]:
    """Read a velocity model.

    Parameters
    ----------
    argument : str
        The job's key, for messages.
    path : str
        ``.npy`` with axes z, x or z, y, x; or ``.sgy``/``.segy`` with one trace for each (y, x), x fastest,
        down in z.
    shape : tuple of int, optional
        The shape that the model must have. SEG-Y in 3-D needs it where the file's headers do not number lines
        and crosslines, to fold the traces into y and x.

    Returns
    -------
    ndarray [z, x] or [z, y, x], float64, m/s

    Raises
    ------
    StorageError
        If the file cannot be read.
    InvalidValueError
        If its shape or a speed is not possible.
    """
    if Path(path).suffix.lower() in SEGY_ENDINGS:
        velocity = _checked_finite(argument, path, _fold(argument, path, *_read_segy(argument, path), shape))
    else:
        velocity = load_array(argument, path).astype(np.float64)
    if velocity.ndim not in (2, 3) or (shape and velocity.shape != shape):
        wanted = f"the job says shape {shape}" if shape else "a model has axes z, x or z, y, x"
        raise InvalidValueError(argument, path, f"has the shape {velocity.shape}, but {wanted}", "correct either")
    if not (velocity > 0).all():
        cell = tuple(int(n) for n in np.argwhere(velocity <= 0)[0])
        raise InvalidValueError(argument, path, f"speeds are positive m/s, but cell {cell} is not", "fill that cell")
    return velocity


def _read_segy(argument: str, path: str) -> tuple[NDArray[np.float64], tuple[int, ...]]:
    """Traces [trace, z], and the numbers of lines, crosslines and offsets where the headers state them."""
    try:
        import segyio
    except ImportError as error:
        rule = "reading SEG-Y needs the package segyio"
        raise StorageError(argument, path, rule, "pip install numbawave[segy]") from error
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)  # segyio reads formats that it does not know as another
            with segyio.open(path, strict=False, endian=_byte_order(path)) as stream:
                lines = () if stream.unstructured else (len(stream.fast), len(stream.slow), len(stream.offsets))
                return np.asarray(stream.trace.raw[:], dtype=np.float64), lines
    except (OSError, RuntimeError, ValueError, IndexError, UserWarning) as error:
        raise StorageError(argument, path, f"cannot be read as SEG-Y ({error})", "check the path and the file") from error


def _byte_order(path: str) -> str:
    """Which end comes first: the code of the samples' format, a number of two bytes, is below 256."""
    with open(path, "rb") as stream:
        stream.seek(FORMAT_CODE)
        return "little" if stream.read(2) >= b"\x01\x00" else "big"


def _fold(
    argument: str, path: str, traces: NDArray[np.float64], lines: tuple[int, ...], shape: tuple[int, ...]
) -> NDArray[np.float64]:
    axes = tuple(n for n in lines if n > 1)
    if len(axes) < 2:  # the headers number the traces at most
        axes = shape[1:] or (len(traces),)
    if len(traces) != np.prod(axes):
        rule = f"has {traces.shape[0]} traces of {traces.shape[1]} samples, but the job says shape {shape}"
        raise InvalidValueError(argument, path, rule, "correct the shape: samples first, then the traces' axes")
    return np.ascontiguousarray(traces.T).reshape(-1, *axes)
