"""Names of the axes, and arguments that hold one value per axis or per face."""

from typing import Any

import numpy as np

from numbawave.errors import InvalidTypeError, InvalidValueError


def axis_names(ndim: int) -> tuple[str, ...]:
    """Name the axes of a grid, slowest first.

    Parameters
    ----------
    ndim : int
        Number of axes: 1, 2 or 3.

    Returns
    -------
    tuple of str
        "x"; "z", "x"; or "z", "y", "x".

    Raises
    ------
    InvalidValueError
        If there are not 1, 2 or 3 axes.
    """
    if ndim not in (1, 2, 3):
        raise InvalidValueError("ndim", ndim, "a grid has 1, 2 or 3 axes", "give a model of 1, 2 or 3 dimensions")
    return {1: ("x",), 2: ("z", "x"), 3: ("z", "y", "x")}[ndim]


def per_axis(argument: str, value: Any, ndim: int) -> tuple[float, ...]:
    """Spread a length, such as the grid spacing, over the axes.

    Parameters
    ----------
    argument : str
        Name of the argument, for messages.
    value : float or sequence of float
        One positive length for all axes, or one per axis, slowest first.
    ndim : int
        Number of axes.

    Returns
    -------
    tuple of float
        ``ndim`` lengths.

    Raises
    ------
    InvalidTypeError
        If a value is not a number.
    InvalidValueError
        If there are neither 1 nor ``ndim`` values, or one is not positive and finite.
    """
    numbers = _numbers(argument, value, "iuf", "a number, or one for each axis")
    if numbers.shape not in {(), (1,), (ndim,)}:
        axes = ", ".join(axis_names(ndim))
        raise InvalidValueError(
            argument, value, f"needs 1 or {ndim} values, not {numbers.size}", f"give one for each of {axes}"
        )
    if not (np.isfinite(numbers) & (numbers > 0)).all():
        raise InvalidValueError(argument, value, "must be positive and finite", "give the distance between cells")
    return tuple(float(number) for number in np.broadcast_to(numbers, ndim))


def per_face(argument: str, value: Any, ndim: int) -> tuple[tuple[int, int], ...]:
    """Spread a width in cells over the two faces of every axis.

    Parameters
    ----------
    argument : str
        Name of the argument, for messages.
    value : int or sequence of int
        One width for all faces, or ``2 * ndim`` of them: low and high face of each axis, slowest axis first.
    ndim : int
        Number of axes.

    Returns
    -------
    tuple of (int, int)
        Width at the low and at the high face of each axis.

    Raises
    ------
    InvalidTypeError
        If a width is not an integer.
    InvalidValueError
        If there are neither 1 nor ``2 * ndim`` widths, or one is negative.
    """
    widths = _numbers(argument, value, "iu", "an integer, or one for each face")
    if widths.shape not in {(), (2 * ndim,)}:
        faces = ", ".join(f"{name} {end}" for name in axis_names(ndim) for end in ("low", "high"))
        raise InvalidValueError(
            argument,
            value,
            f"needs 1 or {2 * ndim} widths, not {widths.size}",
            f"give one for each of {faces}",
        )
    if (widths < 0).any():
        raise InvalidValueError(argument, value, "a width in cells is not negative", "use 0 for a face without one")
    low_high = np.broadcast_to(widths, 2 * ndim).reshape(ndim, 2)
    return tuple((int(low), int(high)) for low, high in low_high)


def _numbers(argument: str, value: Any, kinds: str, rule: str) -> np.ndarray[Any, np.dtype[Any]]:
    try:
        numbers = np.asarray(value)
    except (ValueError, TypeError) as error:
        raise InvalidTypeError(argument, value, f"must be {rule}", "give a flat list of numbers") from error
    if numbers.dtype.kind not in kinds:
        raise InvalidTypeError(argument, value, f"must be {rule}, not {numbers.dtype}", "convert it first")
    return numbers
