"""Models on the padded grid: edges replicated into the layers, zero beyond, all by differentiable operations."""

import torch

from numbawave.grid.domain import Domain


def replicate(model: torch.Tensor, grid: Domain) -> torch.Tensor:
    """Continue a model into the layers by its edge values.

    A cell of a layer is its edge cell's copy, so its gradient folds onto that edge cell, in one fixed order.

    Parameters
    ----------
    model : torch.Tensor [*grid] or [shot, *grid]
    grid : Domain

    Returns
    -------
    torch.Tensor
        The model on the grid with its layers.
    """
    for axis, dim in zip(grid.axes, range(-len(grid.axes), 0), strict=True):
        shape = list(model.shape)
        shape[dim] = axis.low
        parts = [model.narrow(dim, 0, 1).expand(shape)] if axis.low else []
        shape[dim] = axis.high
        last = [model.narrow(dim, model.shape[dim] - 1, 1).expand(shape)] if axis.high else []
        model = torch.cat([*parts, model, *last], dim) if parts or last else model
    return model


def zero_pad(values: torch.Tensor, grid: Domain) -> torch.Tensor:
    """Put values of the grid with its layers into the padded grid, zero in halo and dead cells."""
    widths = [w for axis in reversed(grid.axes) for w in (axis.first, axis.size - axis.stop)]
    return torch.nn.functional.pad(values, widths)


def interior(values: torch.Tensor, grid: Domain) -> torch.Tensor:
    """The view of a padded field on the grid with its layers."""
    for dim, axis in zip(range(-len(grid.axes), 0), grid.axes, strict=True):
        values = values.narrow(dim, axis.first, axis.stop - axis.first)
    return values
