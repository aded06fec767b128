"""The frequency that carries most of the sources' energy, to which the absorbing layer is tuned."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from numbawave.errors import InvalidValueError

_Array = np.ndarray[Any, np.dtype[Any]]

# Fewer bins than this below the peak make the parabola through it inaccurate: the record is then padded.
_BINS_BELOW_PEAK = 64
_LONGEST_TRANSFORM = 2**18
_SAMPLES_AT_ONCE = 2**22


def peak_frequency(amplitudes: Any, dt: float) -> float:
    """Find the peak of the sources' summed power spectrum.

    Powers are summed, not waveforms, so delays and signs of the sources do not matter. Channels (kinds of
    source, in different units) count alike: each is scaled to unit energy.

    Parameters
    ----------
    amplitudes : array [..., time] or sequence of such arrays
        Source amplitudes of one channel, or of each channel. Worked on in float64.
    dt : float
        Time between samples.

    Returns
    -------
    float
        The frequency in units of 1 / dt, to three significant figures and at most the Nyquist frequency;
        ``0.1 / |dt|`` where there is no peak away from zero frequency.

    Raises
    ------
    InvalidValueError
        If ``dt`` is zero or not finite.
    """
    if not math.isfinite(dt) or dt == 0:
        raise InvalidValueError("dt", dt, "must be finite and not zero", "give the time between samples")
    given = [amplitudes] if hasattr(amplitudes, "ndim") else amplitudes
    channels = [channel for channel in map(np.asarray, given) if channel.size and channel.shape[-1] > 1]
    frequency = _refined_peak(channels) / abs(dt) if channels else 0.0
    if not math.isfinite(frequency) or frequency <= 0:
        # A fifth of the Nyquist frequency, in the order of operations that the reference peer rounds in.
        return 0.5 / abs(dt) / 5
    return min(round(frequency, 2 - math.floor(math.log10(frequency))), 0.5 / abs(dt))


def _refined_peak(channels: Sequence[_Array]) -> float:
    """Peak in cycles a sample, refined by a parabola through the logarithms; 0 without a peak."""
    n_time = n_fft = max(channel.shape[-1] for channel in channels)
    power = _power(channels, n_fft)
    peak = _peak_bin(power)
    if 0 < peak < _BINS_BELOW_PEAK:
        n_fft = min(n_time * math.ceil(_BINS_BELOW_PEAK / peak), max(n_time, _LONGEST_TRANSFORM))
        power = _power(channels, n_fft)
        peak = _peak_bin(power)
    if not 0 < peak < power.size - 1:
        return float(peak / n_fft)
    left, middle, right = np.log(power[peak - 1 : peak + 2] + np.finfo(np.float64).tiny)
    curvature = left - 2 * middle + right
    offset = 0.5 * (left - right) / curvature if curvature < 0 else 0.0
    return float((peak + min(max(offset, -0.5), 0.5)) / n_fft)


def _peak_bin(power: _Array) -> int:
    return int(power.argmax()) if power[1:].any() else 0


def _power(channels: Sequence[_Array], n_fft: int) -> _Array:
    total = np.zeros(n_fft // 2 + 1)
    rows = max(1, _SAMPLES_AT_ONCE // n_fft)
    for channel in channels:
        traces = channel.reshape(-1, channel.shape[-1])
        # Scaling by the largest sample keeps the squares inside float64 in every unit.
        scale = float(np.abs(traces).max())
        if not math.isfinite(scale):
            return np.zeros_like(total)
        if scale == 0:
            continue
        power = np.zeros_like(total)
        for first in range(0, len(traces), rows):
            spectrum = np.fft.rfft(traces[first : first + rows].astype(np.float64) / scale, n=n_fft)
            power += (spectrum.real**2 + spectrum.imag**2).sum(axis=0)
        total += power / power.sum()
    return total
