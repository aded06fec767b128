"""Band-limited resampling of whole records between the caller's time step and the internal one.

Functions take the array module ``xp`` (``numpy`` or ``torch``) that their signal belongs to; with torch
they are differentiable and stay on the signal's device.
"""

import math
from typing import Any

import numpy as np

from numbawave.errors import InvalidValueError


def upsample(
    signal: Any,
    step_ratio: int,
    xp: Any,
    *,
    freq_taper_frac: float = 0.0,
    time_pad_frac: float = 0.0,
    time_taper: bool = False,
) -> Any:
    """Put ``step_ratio`` samples where there was one, adding no frequency.

    Parameters
    ----------
    signal : array [..., nt]
        Records, real floats of any unit.
    step_ratio : int
        Samples for each given one; 1 returns the signal itself.
    xp : module
        ``numpy`` or ``torch``.
    freq_taper_frac : float, optional
        Part of the spectrum, at its end, that falls to zero as a cosine: less ringing.
    time_pad_frac : float, optional
        Zeros to append while resampling, as a part of nt: less wrap-around.
    time_taper : bool, optional
        Multiply the result by a Hann window. Not for records that already start and end near zero.

    Returns
    -------
    array [..., nt * step_ratio]
        The records at the finer step; the frequency at the old Nyquist limit is removed.

    Raises
    ------
    InvalidValueError
        If the ratio is not a positive integer or a part is outside [0, 1].
    """
    _check(step_ratio, freq_taper_frac, time_pad_frac)
    nt = signal.shape[-1]
    if step_ratio == 1 or 0 in signal.shape:
        return signal
    padded = nt + int(time_pad_frac * nt)
    spectrum = _low_bins(signal, padded, padded, freq_taper_frac, xp)
    fine = xp.fft.irfft(spectrum * step_ratio, n=padded * step_ratio)[..., : nt * step_ratio]
    if time_taper:
        fine = fine * _like(np.hanning(nt * step_ratio), signal, xp)
    return _as_given(fine, signal)


def downsample(
    signal: Any,
    step_ratio: int,
    xp: Any,
    *,
    freq_taper_frac: float = 0.0,
    time_pad_frac: float = 0.0,
    time_taper: bool = False,
) -> Any:
    """Keep one sample in ``step_ratio``, removing first what the coarser step cannot hold.

    Parameters
    ----------
    signal : array [..., nt]
        Records, real floats of any unit; nt is a multiple of ``step_ratio``.
    step_ratio : int
        Samples given for each one returned; 1 returns the signal itself.
    xp : module
        ``numpy`` or ``torch``.
    freq_taper_frac : float, optional
        Part of the kept spectrum, at its end, that falls to zero as a cosine.
    time_pad_frac : float, optional
        Zeros to append while resampling, as a part of the result's length.
    time_taper : bool, optional
        Multiply the signal by a Hann window first. Not for records that already start and end near zero.

    Returns
    -------
    array [..., nt / step_ratio]
        The records at the coarser step, without its Nyquist frequency.

    Raises
    ------
    InvalidValueError
        If the ratio is not a positive integer that divides nt, or a part is outside [0, 1].
    """
    _check(step_ratio, freq_taper_frac, time_pad_frac)
    nt = signal.shape[-1]
    if step_ratio == 1 or 0 in signal.shape:
        return signal
    if nt % step_ratio:
        raise InvalidValueError(
            "step_ratio",
            step_ratio,
            f"must divide the {nt} samples",
            "trim or pad the record to a multiple of it",
        )
    if time_taper:
        signal = signal * _like(np.hanning(nt), signal, xp)
    coarse_nt = nt // step_ratio
    padded = coarse_nt + int(time_pad_frac * coarse_nt)
    spectrum = _low_bins(signal, padded * step_ratio, padded, freq_taper_frac, xp)
    coarse = xp.fft.irfft(spectrum / step_ratio, n=padded)[..., :coarse_nt]
    return _as_given(coarse, signal)


def _low_bins(signal: Any, length: int, coarse_length: int, freq_taper_frac: float, xp: Any) -> Any:
    """Spectrum below the Nyquist frequency of ``coarse_length`` samples; irfft fills the rest with zeros."""
    spectrum = xp.fft.rfft(signal, n=length)[..., : coarse_length // 2 + 1]
    n_taper = int(freq_taper_frac * spectrum.shape[-1])
    if n_taper:
        fall = (1 + np.cos(math.pi * np.arange(1, n_taper + 1) / n_taper)) / 2
        spectrum = spectrum * _like(np.append(np.ones(spectrum.shape[-1] - n_taper), fall), signal, xp)
    return spectrum[..., : (coarse_length + 1) // 2]


def _as_given(result: Any, signal: Any) -> Any:
    # NumPy before 2.0 transforms in float64 only.
    return result if result.dtype == signal.dtype else result.astype(signal.dtype)


def _like(window: Any, signal: Any, xp: Any) -> Any:
    # NumPy arrays know a device from 2.0 on only.
    place = {"device": signal.device} if hasattr(signal, "device") else {}
    return xp.asarray(window, dtype=signal.dtype, **place)


def _check(step_ratio: int, freq_taper_frac: float, time_pad_frac: float) -> None:
    if not isinstance(step_ratio, int) or step_ratio < 1:
        raise InvalidValueError("step_ratio", step_ratio, "must be a positive integer", "use 1 to change nothing")
    check_parts(freq_taper_frac, time_pad_frac)


def check_parts(freq_taper_frac: float, time_pad_frac: float) -> None:
    """Check what resampling tapers and pads.

    Parameters
    ----------
    freq_taper_frac, time_pad_frac : float
        See ``upsample``.

    Raises
    ------
    InvalidValueError
        If a part is outside [0, 1].
    """
    for argument, part in (("freq_taper_frac", freq_taper_frac), ("time_pad_frac", time_pad_frac)):
        if not 0 <= part <= 1:
            raise InvalidValueError(argument, part, "must be between 0 and 1", "give a part, such as 0.1 for a tenth")
