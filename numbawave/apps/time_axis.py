"""How long an inversion records, and in which steps, where a job leaves that open."""

import math
from collections.abc import Sequence

from torch import Tensor

from .job import Job

COURANT = 0.6
"""dt vmax sqrt(sum 1/h^2) up to which the propagator needs no sub-steps."""


def longest_step(vmax: float, spacing: Sequence[float]) -> float:
    """Find the longest time step that needs no sub-steps.

    Parameters
    ----------
    vmax : float
        m/s.
    spacing : sequence of float
        m.

    Returns
    -------
    float
        s, rounded down to three figures.
    """
    step = COURANT / (vmax * math.sqrt(sum(1.0 / h**2 for h in spacing)))
    digits = 10.0 ** (2 - math.floor(math.log10(step)))
    return math.floor(step * digits) / digits


def peak_time(job: Job) -> float:
    """Choose when the wavelet peaks: late enough that neither it nor its filtered forms are cut off.

    Parameters
    ----------
    job : Job

    Returns
    -------
    float
        s.
    """
    return 1.5 / min(job.peak_frequency, *(corner for corner, _ in job.stages))


def enough_samples(job: Job, start: Tensor, spacing: Sequence[float], dt: float) -> int:
    """Count the samples until a reflection from the bottom has reached the far end, with wavelet and fade.

    Parameters
    ----------
    job : Job
    start : Tensor [*grid]
        m/s; its mean is the speed of that reflection.
    spacing : sequence of float
        m.
    dt : float
        s.

    Returns
    -------
    int
    """
    lengths = [n * h for n, h in zip(start.shape, spacing, strict=True)]
    path = math.hypot(2 * lengths[0], *lengths[1:])
    fade = 1.0 / min(corner for corner, _ in job.stages)
    return math.ceil((path / float(start.mean()) + peak_time(job) + fade) / dt)
