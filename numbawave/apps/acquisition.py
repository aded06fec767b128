"""Where shots and receivers stand: evenly over the surface of the model, at one depth."""

import itertools
from collections.abc import Sequence

import torch
from torch import Tensor

from ..errors import InvalidValueError


def spread(argument: str, counts: Sequence[int], shape: Sequence[int], depth: int) -> Tensor:
    """Stand points evenly along the horizontal axes, one cell in from the edges.

    Parameters
    ----------
    argument : str
        ``shots`` or ``receivers``, for messages.
    counts : sequence of int
        How many along x, or along y and x; empty is one every second cell.
    shape : sequence of int
        The model's cells, (z, x) or (z, y, x).
    depth : int
        Cell of depth.

    Returns
    -------
    Tensor [point, ndim] of int64
        Cells; in 3-D x runs fastest.

    Raises
    ------
    InvalidValueError
        If there is no such depth, or there are more points than cells.
    """
    across = tuple(shape[1:])
    counts = tuple(counts) or tuple(max(1, n // 2) for n in across)
    if len(counts) != len(across):
        rule = f"the model has {len(across)} horizontal axes"
        raise InvalidValueError(argument, counts, rule, "give one count in 2-D, two (y, x) in 3-D")
    if depth >= shape[0]:
        name = f"{argument[:-1]}_depth"
        raise InvalidValueError(name, depth, f"the model has {shape[0]} cells in depth", "give cells, not metres")
    for count, n_cells in zip(counts, across, strict=True):
        if count > n_cells - 2:
            remedy = "give fewer, or a finer model"
            raise InvalidValueError(argument, counts, f"there is room for {n_cells - 2} along that axis", remedy)
    lines = [
        torch.linspace(1, n_cells - 2, count, dtype=torch.float64).round().to(torch.int64).tolist()
        if count > 1
        else [n_cells // 2]
        for count, n_cells in zip(counts, across, strict=True)
    ]
    return torch.tensor([(depth, *point) for point in itertools.product(*lines)], dtype=torch.int64)
