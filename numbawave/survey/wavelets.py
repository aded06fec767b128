"""Source wavelets as NumPy arrays."""

import math
from typing import Any

import numpy as np

from numbawave.errors import InvalidValueError

_Array = np.ndarray[Any, np.dtype[Any]]


def ricker(freq: float, length: int, dt: float, peak_time: float | None = None, dtype: Any = np.float32) -> _Array:
    """Sample a Ricker wavelet, the negative second derivative of a Gaussian: no energy at zero frequency.

    Parameters
    ----------
    freq : float
        Frequency of the spectrum's peak, in units of 1 / dt.
    length : int
        Number of samples.
    dt : float
        Time between samples.
    peak_time : float, optional
        Time of the largest value, 1; the middle of the record unless given. Below about ``1.5 / freq`` the
        wavelet starts with a step, which excites every frequency.
    dtype : dtype, optional
        Type of the samples; they are computed in float64.

    Returns
    -------
    ndarray [length]
        The samples.

    Raises
    ------
    InvalidValueError
        If the frequency or the length is not positive, or the step is zero or not finite.

    Source
    ------
    N. Ricker (1953), The form and laws of propagation of seismic wavelets, Geophysics 18, 10-40,
    doi:10.1190/1.1437843.
    """
    square = _phase(freq, length, dt, peak_time) ** 2
    return np.asarray((1 - 2 * square) * np.exp(-square), dtype=dtype)


def gaussian(freq: float, length: int, dt: float, peak_time: float | None = None, dtype: Any = np.float32) -> _Array:
    """Sample the Gaussian whose second derivative is the Ricker wavelet of the same frequency.

    Not for inversion of data: most of its energy is at zero frequency, which real sources lack.

    Parameters
    ----------
    freq : float
        Frequency of that Ricker wavelet, in units of 1 / dt.
    length : int
        Number of samples.
    dt : float
        Time between samples.
    peak_time : float, optional
        Time of the largest value, 1; the middle of the record unless given.
    dtype : dtype, optional
        Type of the samples; they are computed in float64.

    Returns
    -------
    ndarray [length]
        The samples ``exp(-(pi freq (t - peak_time))^2)``.

    Raises
    ------
    InvalidValueError
        If the frequency or the length is not positive, or the step is zero or not finite.
    """
    return np.asarray(np.exp(-(_phase(freq, length, dt, peak_time) ** 2)), dtype=dtype)


def _phase(freq: float, length: int, dt: float, peak_time: float | None) -> _Array:
    if not math.isfinite(freq) or freq <= 0:
        raise InvalidValueError("freq", freq, "must be positive and finite", "give the peak frequency")
    if length != int(length) or length < 1:
        raise InvalidValueError("length", length, "must be a positive integer", "give the number of samples")
    if not math.isfinite(dt) or dt == 0:
        raise InvalidValueError("dt", dt, "must be finite and not zero", "give the time between samples")
    peak = length * dt / 2 if peak_time is None else peak_time
    if not math.isfinite(peak):
        raise InvalidValueError("peak_time", peak_time, "must be finite", "give a time such as 1.5 / freq")
    return np.asarray(math.pi * freq * (np.arange(int(length)) * dt - peak))
