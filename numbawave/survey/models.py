"""Checks of a model before any wave runs through it."""

from typing import Any

import numpy as np

from numbawave.errors import InvalidValueError
from numbawave.grid.axes import axis_names

_Array = np.ndarray[Any, np.dtype[Any]]

# Air and diamond differ by a factor of 60; more than this is a wrong unit or a hole filled with a marker.
_LARGEST_RATIO = 1e4


def check_speed(argument: str, array: _Array, ndim: int) -> tuple[float, float]:
    """Refuse a model of speeds that no wave can run through, naming its first bad cell.

    Parameters
    ----------
    argument : str
        Name of the argument, for messages.
    array : ndarray [*grid] or [shot, *grid]
        Speeds, in any unit; floats.
    ndim : int
        Number of axes of the grid.

    Returns
    -------
    (float, float)
        The lowest and the highest speed.

    Raises
    ------
    InvalidValueError
        If the model is empty, or a speed is NaN, infinite, zero or negative, or the fastest is more than
        10,000 times the slowest.
    """
    if array.size == 0:
        raise InvalidValueError(argument, f"shape {array.shape}", "a model has at least one cell", "give a model")
    lowest, highest = float(array.min()), float(array.max())
    # NaN fails both comparisons, so a good model costs two passes and no temporary array.
    if not (lowest > 0 and highest < np.inf):
        _refuse(argument, array, ndim, ~((array > 0) & (array < np.inf)), "a speed is positive and finite")
    if not extremes_are_fine(lowest, highest):
        middle = float(np.median(array))
        odd = array == (highest if highest / middle > middle / lowest else lowest)
        rule = f"the speeds range from {lowest:.4g} to {highest:.4g}, more than {_LARGEST_RATIO:.0f} times"
        _refuse(argument, array, ndim, odd, rule)
    return lowest, highest


def extremes_are_fine(lowest: float, highest: float) -> bool:
    """Whether speeds between these two can be run.

    Parameters
    ----------
    lowest, highest : float
        NaN where one of the speeds is.

    Returns
    -------
    bool
    """
    return 0 < lowest <= highest < np.inf and highest <= _LARGEST_RATIO * lowest


def _refuse(argument: str, array: _Array, ndim: int, bad: _Array, rule: str) -> None:
    place = np.unravel_index(int(bad.argmax()), array.shape)
    names = (("shot",) if array.ndim > ndim else ()) + axis_names(ndim)
    cell = ", ".join(f"{name} {index}" for name, index in zip(names, place, strict=True))
    value = f"{float(array[place])} in the cell {cell}"
    n_bad = int(bad.sum())
    raise InvalidValueError(
        argument, value, f"{rule} ({n_bad} such cell{'s' if n_bad > 1 else ''})", "correct the model there"
    )
