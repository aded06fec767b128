"""Gaussian smoothing of velocity models and gradients, axis by axis."""

from collections.abc import Sequence

import torch
from torch import Tensor


def blur(field: Tensor, sigma: Sequence[float]) -> Tensor:
    """Convolve with a Gaussian along every axis; outside the grid the field counts as zero.

    With zeros outside, the operator is a symmetric matrix, so it may stand between a gradient and its step
    without turning a descent direction uphill.

    Parameters
    ----------
    field : Tensor [*grid]
        Any real floating dtype, CPU or GPU.
    sigma : sequence of float
        Standard deviation along each axis, in cells; 0 leaves an axis alone.

    Returns
    -------
    Tensor [*grid]
    """
    for axis, width in enumerate(sigma):
        if width > 0:
            field = _blur_axis(field, axis, float(width))
    return field


def _blur_axis(field: Tensor, axis: int, sigma: float) -> Tensor:
    radius = max(1, int(4 * sigma + 0.5))
    offset = torch.arange(-radius, radius + 1, dtype=field.dtype, device=field.device)
    kernel = torch.exp(-0.5 * (offset / sigma) ** 2)
    kernel = kernel / kernel.sum()
    moved = field.movedim(axis, -1)
    lines = moved.reshape(-1, 1, moved.shape[-1])
    out = torch.nn.functional.conv1d(lines, kernel[None, None], padding=radius)
    return out.reshape(moved.shape).movedim(-1, axis).contiguous()


def smooth(velocity: Tensor, sigma: Sequence[float], water: Tensor | None = None) -> Tensor:
    """Blur a velocity model for use as a start model, and keep its water as it is.

    The weights of water and of everything beyond the grid are left out of each average (a normalised
    convolution), so the sea floor stays sharp and the edges are not pulled down.

    Parameters
    ----------
    velocity : Tensor [*grid]
        m/s.
    sigma : sequence of float
        Standard deviation along each axis, in cells.
    water : Tensor [*grid] of bool, optional
        True in the water.

    Returns
    -------
    Tensor [*grid]
        The dtype and device of `velocity`; averaged in float64.
    """
    rock = torch.ones_like(velocity, dtype=torch.float64) if water is None else (~water).to(torch.float64)
    weight = blur(rock, sigma)
    averaged = blur(rock * velocity.to(torch.float64), sigma) / weight.clamp_min(torch.finfo(torch.float64).tiny)
    return torch.where(rock > 0, averaged, velocity.to(torch.float64)).to(velocity.dtype)


def water_layer(velocity: Tensor, water_speed: float, tolerance: float = 25.0) -> Tensor:
    """Find the water: the cells from the top down whose speed is that of water, without a break.

    Parameters
    ----------
    velocity : Tensor [z, x] or [z, y, x]
        m/s.
    water_speed, tolerance : float
        m/s; a cell is water when its speed differs by at most `tolerance`.

    Returns
    -------
    Tensor of bool, the shape of `velocity`
    """
    wet = (velocity - water_speed).abs() <= tolerance
    return torch.cumprod(wet.to(torch.int8), dim=0).to(torch.bool)
