"""Finite-difference weights of orders 2 to 8, exact before they are rounded to floats.

Source: B. Fornberg (1988), Generation of finite difference formulas on arbitrarily spaced grids,
Mathematics of Computation 51, 699-706, doi:10.1090/S0025-5718-1988-0935077-0, tables 1 and 2.
"""

from fractions import Fraction
from functools import lru_cache
from math import prod

from numbawave.errors import InvalidValueError

ACCURACIES = (2, 4, 6, 8)


def check_accuracy(accuracy: int) -> int:
    """Refuse an order of accuracy that has no weights here.

    Parameters
    ----------
    accuracy : int
        Order of the spatial derivatives.

    Returns
    -------
    int
        The same order.

    Raises
    ------
    InvalidValueError
        If it is not 2, 4, 6 or 8.
    """
    if accuracy not in ACCURACIES or isinstance(accuracy, bool):
        raise InvalidValueError("accuracy", accuracy, "must be 2, 4, 6 or 8", "choose one of these; 4 suits most models")
    return int(accuracy)


@lru_cache
def centred_first(accuracy: int) -> tuple[float, ...]:
    """Weights of the first derivative at a point, from its neighbours on both sides.

    Parameters
    ----------
    accuracy : int
        Order of accuracy: 2, 4, 6 or 8.

    Returns
    -------
    tuple of float
        w_1 ... w_P with P = accuracy / 2; the derivative is sum of w_k (u[x + k] - u[x - k]) / h.

    Raises
    ------
    InvalidValueError
        If the order is not 2, 4, 6 or 8.
    """
    return _odd_weights([Fraction(k) for k in range(1, check_accuracy(accuracy) // 2 + 1)])


@lru_cache
def half_point(accuracy: int) -> tuple[float, ...]:
    """Weights of the first derivative midway between points, for staggered positions.

    Parameters
    ----------
    accuracy : int
        Order of accuracy: 2, 4, 6 or 8.

    Returns
    -------
    tuple of float
        w_1 ... w_P with P = accuracy / 2; the derivative is sum of w_k (u[x + k - 1/2] - u[x - k + 1/2]) / h.

    Raises
    ------
    InvalidValueError
        If the order is not 2, 4, 6 or 8.
    """
    return _odd_weights([Fraction(2 * k - 1, 2) for k in range(1, check_accuracy(accuracy) // 2 + 1)])


@lru_cache
def centred_second(accuracy: int) -> tuple[float, ...]:
    """Weights of the second derivative at a point.

    Parameters
    ----------
    accuracy : int
        Order of accuracy: 2, 4, 6 or 8.

    Returns
    -------
    tuple of float
        w_0 ... w_P with P = accuracy / 2; the derivative is
        (w_0 u[x] + sum of w_k (u[x + k] + u[x - k])) / h^2.

    Raises
    ------
    InvalidValueError
        If the order is not 2, 4, 6 or 8.
    """
    offsets = [Fraction(k) for k in range(1, check_accuracy(accuracy) // 2 + 1)]
    sides = [limit / x**2 for x, limit in zip(offsets, _limits_at_zero(offsets), strict=True)]
    return tuple(float(weight) for weight in [-2 * sum(sides), *sides])


def _odd_weights(offsets: list[Fraction]) -> tuple[float, ...]:
    return tuple(float(limit / (2 * x)) for x, limit in zip(offsets, _limits_at_zero(offsets), strict=True))


def _limits_at_zero(offsets: list[Fraction]) -> list[Fraction]:
    # (u(x) - u(-x)) / 2x and (u(x) - 2 u(0) + u(-x)) / x^2 are polynomials in x^2 whose values at 0 are the
    # derivatives, so Lagrange's polynomials in x^2, taken at 0, combine the pairs: no system to solve.
    return [prod((y**2 / (y**2 - x**2) for y in offsets if y != x), start=Fraction(1)) for x in offsets]
