"""The internal time step: the given one, divided until it is stable."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from numbawave.errors import InvalidValueError
from numbawave.grid.weights import centred_second

DEFAULT_COURANT_NUMBER = 0.6


@dataclass(frozen=True)
class TimeStep:
    """How the caller's time step is divided.

    Attributes
    ----------
    dt : float
        The caller's time step; negative runs time backwards.
    step_ratio : int
        Internal steps in one of the caller's.
    internal_dt : float
        ``dt / step_ratio``.
    """

    dt: float
    step_ratio: int
    internal_dt: float


def internal_time_step(
    dt: float, grid_spacing: Sequence[float], max_vel: float, courant_number: float = DEFAULT_COURANT_NUMBER
) -> TimeStep:
    """Divide the time step by the smallest whole number that keeps the Courant number.

    The rule is ``|internal_dt| max_vel sqrt(sum of 1 / h^2) <= courant_number``.

    Parameters
    ----------
    dt : float
        The caller's time step.
    grid_spacing : sequence of float
        Positive spacing h of every axis.
    max_vel : float
        The largest speed, in units of spacing per time.
    courant_number : float, optional
        The Courant number not to exceed.

    Returns
    -------
    TimeStep
        The step and its division.

    Raises
    ------
    InvalidValueError
        If the step is zero or not finite, the speed or the Courant number is not positive and finite,
        or the division cannot be represented.

    Source
    ------
    R. Courant, K. Friedrichs, H. Lewy (1928), Mathematische Annalen 100, 32-74, doi:10.1007/BF01448839.
    """
    if not math.isfinite(dt) or dt == 0:
        raise InvalidValueError("dt", dt, "must be finite and not zero", "give the time between samples")
    if not math.isfinite(max_vel) or max_vel <= 0:
        raise InvalidValueError("max_vel", max_vel, "must be positive and finite", "give the largest speed")
    if not math.isfinite(courant_number) or courant_number <= 0:
        raise InvalidValueError(
            "courant_number", courant_number, "must be positive and finite", f"use {DEFAULT_COURANT_NUMBER}"
        )
    # The finest spacing is divided out of the root, and the products keep this order, so that a step exactly
    # at the limit is divided as often as the reference peer divides it.
    finest = min(grid_spacing)
    ratio = abs(dt) * max_vel * math.hypot(*(finest / spacing for spacing in grid_spacing)) / finest / courant_number
    if not math.isfinite(ratio) or ratio > 2**31:
        raise InvalidValueError(
            "dt",
            dt,
            f"needs about {ratio:.3g} internal steps",
            "check the units of dt, grid_spacing and max_vel",
        )
    step_ratio = max(1, math.ceil(ratio))
    return TimeStep(dt, step_ratio, dt / step_ratio)


def critical_courant_number(accuracy: int) -> float:
    """Return the largest Courant number at which the second-order wave equation is stable.

    Parameters
    ----------
    accuracy : int
        Order of the spatial derivatives: 2, 4, 6 or 8.

    Returns
    -------
    float
        2 divided by the root of the second derivative's response at the Nyquist wavenumber.
    """
    centre, *sides = centred_second(accuracy)
    return 2 / math.sqrt(-centre - 2 * sum((-1) ** k * weight for k, weight in enumerate(sides, start=1)))


def check_courant_number(courant_number: float, accuracy: int) -> float:
    """Refuse a Courant number at which the wave would grow without bound.

    Parameters
    ----------
    courant_number : float
        The Courant number asked for.
    accuracy : int
        Order of the spatial derivatives.

    Returns
    -------
    float
        The same number.

    Raises
    ------
    InvalidValueError
        If it is not positive or is above the critical value.
    """
    limit = critical_courant_number(accuracy)
    if not 0 < courant_number <= limit:
        raise InvalidValueError(
            "courant_number",
            courant_number,
            f"must be above 0 and at most {limit:.4f} for accuracy {accuracy}",
            f"leave it at {DEFAULT_COURANT_NUMBER}, or choose a value within the limit",
        )
    return courant_number
