"""Misfits between predicted and observed records: pure functions in a sorted registry.

Each takes records [..., time] of one real dtype and returns a scalar which is zero when they are equal. Each
is a sum over traces, so a batch of shots adds its own part and the order of batches changes rounding only.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from ..errors import InvalidValueError

Misfit = Callable[[Tensor, Tensor], Tensor]


def l2(predicted: Tensor, observed: Tensor) -> Tensor:
    """Half the sum of squared differences.

    Not for records with a few wild samples (use `huber`) or of unknown amplitude (use `normalised`).

    Parameters
    ----------
    predicted, observed : Tensor [..., time]

    Returns
    -------
    Tensor, scalar

    Source
    ------
    Tarantola (1984), Geophysics 49, 1259-1266, doi:10.1190/1.1441754.
    """
    return 0.5 * (predicted - observed).square().sum()


def l1(predicted: Tensor, observed: Tensor) -> Tensor:
    """Sum of absolute differences: robust, with a kink at zero that slows the last iterations.

    Parameters
    ----------
    predicted, observed : Tensor [..., time]

    Returns
    -------
    Tensor, scalar

    Source
    ------
    Brossier, Operto & Virieux (2010), Geophysics 75(3), R37-R46, doi:10.1190/1.3379323.
    """
    return (predicted - observed).abs().sum()


def huber(predicted: Tensor, observed: Tensor) -> Tensor:
    """Squared below, absolute above a threshold of half the root mean square of each observed trace.

    Parameters
    ----------
    predicted, observed : Tensor [..., time]

    Returns
    -------
    Tensor, scalar

    Source
    ------
    Guitton & Symes (2003), Geophysics 68, 1310-1319, doi:10.1190/1.1598124.
    """
    threshold = 0.5 * observed.square().mean(-1, keepdim=True).sqrt() + torch.finfo(observed.dtype).tiny
    distance = (predicted - observed).abs()
    inside = distance.clamp(max=threshold)
    return (inside * (distance - 0.5 * inside)).sum()


def normalised(predicted: Tensor, observed: Tensor) -> Tensor:
    """One minus the zero-lag correlation of unit traces, summed: amplitudes do not matter, shapes do.

    For data whose amplitudes the physics cannot match. Not when amplitudes carry the answer. Dead traces
    count nothing.

    Parameters
    ----------
    predicted, observed : Tensor [..., time]

    Returns
    -------
    Tensor, scalar

    Source
    ------
    Choi & Alkhalifah (2012), Geophysical Prospecting 60, 748-758,
    doi:10.1111/j.1365-2478.2012.01079.x.
    """
    unit_predicted, unit_observed = _unit(predicted), _unit(observed)
    # half the squared distance of unit vectors is one minus their correlation, and is exactly zero at
    # equality
    alive = (observed.abs().amax(-1) > 0).to(observed.dtype)
    return 0.5 * ((unit_predicted - unit_observed).square().sum(-1) * alive).sum()


def _unit(traces: Tensor) -> Tensor:
    peak = traces.detach().abs().amax(-1, keepdim=True)
    scaled = traces / torch.where(peak > 0, peak, torch.ones_like(peak))  # squares of small samples would underflow
    norm = scaled.square().sum(-1, keepdim=True)
    return scaled / torch.where(norm > 0, norm, torch.ones_like(norm)).sqrt()


def envelope(predicted: Tensor, observed: Tensor) -> Tensor:
    """Half the squared difference of the envelopes: works from farther away, sees less detail.

    For a poor start model; follow it by `l2`. A thousandth of the observed trace's largest envelope is added
    in quadrature to both, so that the gradient stays finite where the trace is silent.

    Parameters
    ----------
    predicted, observed : Tensor [..., time]

    Returns
    -------
    Tensor, scalar

    Source
    ------
    Wu, Luo & Wu (2014), Geophysics 79(3), WA13-WA24, doi:10.1190/geo2013-0294.1.
    """
    energy_observed, energy_predicted = _energy(observed), _energy(predicted)
    floor = 1e-6 * energy_observed.amax(-1, keepdim=True) + torch.finfo(observed.dtype).tiny
    difference = (energy_predicted + floor).sqrt() - (energy_observed + floor).sqrt()
    return 0.5 * difference.square().sum()


def _energy(traces: Tensor) -> Tensor:
    """Squared modulus of the analytic signal, [..., time]."""
    nt = traces.shape[-1]
    gain = torch.zeros(nt, dtype=traces.dtype, device=traces.device)
    gain[0] = 1.0
    gain[1 : (nt + 1) // 2] = 2.0
    if nt % 2 == 0:
        gain[nt // 2] = 1.0
    analytic = torch.fft.ifft(torch.fft.fft(traces) * gain)
    energy: Tensor = analytic.real.square() + analytic.imag.square()
    return energy


MISFITS: dict[str, Misfit] = {
    "envelope": envelope,
    "huber": huber,
    "l1": l1,
    "l2": l2,
    "normalised": normalised,
}


def get_misfit(name: str) -> Misfit:
    """Look a misfit up.

    Parameters
    ----------
    name : str

    Returns
    -------
    callable

    Raises
    ------
    InvalidValueError
        If there is none of that name.
    """
    if name not in MISFITS:
        raise InvalidValueError("misfit", name, "there is no misfit of this name", f"use one of {', '.join(MISFITS)}")
    return MISFITS[name]
