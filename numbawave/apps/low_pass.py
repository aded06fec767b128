"""The low-pass filter of the frequency stages: zero phase, the same for wavelets and for records."""

import torch
from torch import Tensor


def low_pass(traces: Tensor, dt: float, corner: float) -> Tensor:
    """Keep what lies below a corner frequency, without shifting it in time.

    The gain is 1 up to half the corner, 0 from one and a half corners on, and half a cosine between, so it is
    one half at the corner. A wide ramp keeps the filter short in time: it rings for about one period of the
    corner. The record is zero-padded to twice its length, so its end does not leak into its start.

    Parameters
    ----------
    traces : Tensor [..., time]
        Real floating dtype.
    dt : float
        Time step, s.
    corner : float
        Corner frequency, Hz.

    Returns
    -------
    Tensor [..., time]
    """
    nt = traces.shape[-1]
    frequency = torch.fft.rfftfreq(2 * nt, dt, dtype=traces.dtype, device=traces.device)
    ramp = ((frequency / corner - 0.5).clamp(0.0, 1.0)) * torch.pi
    gain = 0.5 * (1.0 + torch.cos(ramp))
    filtered: Tensor = torch.fft.irfft(torch.fft.rfft(traces, 2 * nt) * gain, 2 * nt)[..., :nt]
    return filtered


def end_fade(nt: int, dt: float, corner: float, dtype: torch.dtype) -> Tensor:
    """Weights that fade a record out over its last period of the corner frequency.

    Filtering a record misses what would have been recorded after its end; filtering the source misses
    nothing. The two therefore differ near the end of the record, and there neither is compared.

    Parameters
    ----------
    nt : int
    dt : float
        s.
    corner : float
        Hz.
    dtype : torch.dtype

    Returns
    -------
    Tensor [time]
        1, then half a cosine down to 0.
    """
    n_fade = min(nt, max(1, round(1.0 / (corner * dt))))
    weights = torch.ones(nt, dtype=dtype)
    weights[nt - n_fade :] = 0.5 * (1.0 + torch.cos(torch.pi * torch.arange(1, n_fade + 1, dtype=dtype) / n_fade))
    return weights


def sampling_stride(dt: float, corner: float) -> int:
    """Every how many time steps the gradient needs a sample of a wave below `corner` (Hz).

    The gradient sums the product of two waves that end at 1.5 corners, so the product ends at 3 corners; 4
    samples a period of the corner keep its mean free of aliases.

    Parameters
    ----------
    dt : float
        s.
    corner : float
        Hz.

    Returns
    -------
    int
    """
    return max(1, int(1.0 / (4.0 * corner * dt)))
