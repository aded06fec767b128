"""How far apart two results may be. Every tolerance of the tests is derived here: eps times operations."""

import numpy as np
from numpy.typing import DTypeLike

OPERATIONS_A_STEP = 300
"""Rounded operations that a cell's value passes in one step, at most: order 8, three absorbing axes, forward or back."""


def rounding(dtype: DTypeLike, operations: float) -> float:
    """Relative difference after so many rounded operations, should all errors add up."""
    return float(np.finfo(dtype).eps) * operations


def steps(dtype: DTypeLike, n_steps: int) -> float:
    """Relative difference of two orders of summation of the same run."""
    return rounding(dtype, OPERATIONS_A_STEP * n_steps)


def apart(one: np.ndarray, other: np.ndarray) -> float:
    """Largest difference, relative to the largest value."""
    one, other = np.asarray(one), np.asarray(other)
    assert one.shape == other.shape
    if one.size == 0:
        return 0.0
    return float(np.abs(one - other).max() / max(np.abs(other).max(), np.finfo(other.dtype).tiny))
