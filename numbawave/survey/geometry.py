"""Locations of sources and receivers: whole cell indices, inside the model, checked before any work."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from numbawave.errors import InvalidTypeError, InvalidValueError
from numbawave.grid.axes import axis_names, per_axis

_Array = np.ndarray[Any, np.dtype[Any]]
_Cells = np.ndarray[Any, np.dtype[np.int64]]


def cell(metres: Any, grid_spacing: float | Sequence[float]) -> _Cells:
    """Turn positions into the nearest cell indices.

    Parameters
    ----------
    metres : float or array [..., ndim]
        Distances from the centre of cell 0, in the unit of the spacing.
    grid_spacing : float or sequence of float
        Spacing of all axes, or of each.

    Returns
    -------
    ndarray of int64, shape of ``metres``
        Cell indices; halfway between two cells the higher one.

    Raises
    ------
    InvalidValueError
        If a position is not finite, or a spacing is not positive or has no axis.
    """
    positions = np.asarray(metres, dtype=np.float64)
    if not np.isfinite(positions).all():
        raise InvalidValueError("metres", metres, "positions are finite", "remove NaN and infinity")
    n_axes = positions.shape[-1] if positions.ndim and np.ndim(grid_spacing) else 1
    spacing = np.reshape(per_axis("grid_spacing", grid_spacing, n_axes), np.shape(grid_spacing))
    return np.asarray(np.floor(positions / spacing + 0.5), dtype=np.int64)


def check_locations(
    argument: str,
    locations: Any,
    n_shots: int | None,
    model_shape: Sequence[int],
    grid_spacing: Sequence[float] | None = None,
) -> _Cells:
    """Check the locations of sources or receivers. Several points may share a cell.

    Parameters
    ----------
    argument : str
        Name of the argument, for messages.
    locations : integer array [shot, point, ndim]
        Cell indices, axes slowest to fastest.
    n_shots : int or None
        The number of shots that the other arguments have; None if these locations decide it.
    model_shape : sequence of int
        Cells of the model along each axis, without a shot axis and without padding.
    grid_spacing : sequence of float, optional
        Spacing of each axis; with it, a message about positions in metres suggests the cells meant.

    Returns
    -------
    ndarray [shot, point, ndim] of int64
        The same locations.

    Raises
    ------
    InvalidTypeError
        If the locations are not integers.
    InvalidValueError
        If the shape is wrong, the shots do not match, or a point is outside the model.
    """
    points = _as_array(argument, locations)
    ndim = len(model_shape)
    if points.ndim != 3 or points.shape[-1] != ndim:
        raise InvalidValueError(
            argument,
            f"shape {list(points.shape)}",
            f"must have shape [shot, point, {ndim}] for a model of {ndim} dimension{'s' if ndim > 1 else ''}",
            f"give the indices {', '.join(axis_names(ndim))} of every point of every shot",
        )
    if points.dtype.kind not in "iu":
        raise InvalidTypeError(
            argument,
            f"dtype {points.dtype}",
            "locations are cell indices (integers), not metres",
            _suggestion(points, model_shape, grid_spacing) or "convert them to int64 cell indices",
        )
    if n_shots is not None and len(points) != n_shots:
        raise InvalidValueError(
            argument,
            f"{len(points)} shots",
            f"the other arguments have {n_shots}",
            "give one entry for every shot",
        )
    outside = (points < 0) | (points >= np.asarray(model_shape))
    if outside.any():
        shot, point, axis = (int(index) for index in np.argwhere(outside)[0])
        raise InvalidValueError(
            f"{argument}[shot {shot}, point {point}, axis {axis_names(ndim)[axis]}]",
            int(points[shot, point, axis]),
            f"must be a cell index from 0 to {model_shape[axis] - 1}",
            _suggestion(points, model_shape, grid_spacing) or "move the point inside the model, or extend the model",
        )
    return points.astype(np.int64, copy=False)


def check_amplitudes(argument: str, shape: Sequence[int], locations: _Cells) -> int:
    """Check the shape of source amplitudes against the sources' locations.

    Parameters
    ----------
    argument : str
        Name of the argument, for messages.
    shape : sequence of int
        Shape of the amplitudes; [shot, source, time] is right.
    locations : ndarray [shot, source, ndim]
        The checked locations of these sources.

    Returns
    -------
    int
        The number of time samples.

    Raises
    ------
    InvalidValueError
        If there are not three axes, the shots or sources do not match, or there is no sample.
    """
    n_shots, n_sources = locations.shape[:2]
    if len(shape) != 3:
        raise InvalidValueError(
            argument, f"shape {list(shape)}", "must have shape [shot, source, time]", "add the missing axes"
        )
    if tuple(shape[:2]) != (n_shots, n_sources):
        raise InvalidValueError(
            argument,
            f"{shape[0]} shots of {shape[1]} sources",
            f"the locations have {n_shots} shots of {n_sources} sources",
            "give one time series for every source location",
        )
    if shape[2] < 1:
        raise InvalidValueError(argument, f"shape {list(shape)}", "needs at least one time sample", "add samples")
    return int(shape[2])


def _as_array(argument: str, locations: Any) -> _Array:
    try:
        return np.asarray(locations)
    except (ValueError, TypeError, RuntimeError) as error:
        raise InvalidTypeError(
            argument,
            type(locations).__name__,
            "must be an integer array in host memory",
            "convert it to an array",
        ) from error


def _suggestion(points: _Array, model_shape: Sequence[int], grid_spacing: Sequence[float] | None) -> str:
    """Cells that the points would mean in metres, if all of those are inside the model; else nothing."""
    if grid_spacing is None or points.dtype.kind not in "iuf" or not points.size or not np.isfinite(points).all():
        return ""
    cells = cell(points, grid_spacing)
    if (cells < 0).any() or (cells >= np.asarray(model_shape)).any():
        return ""
    return (
        "cell indices, not metres: did you mean the values divided by the grid spacing, "
        f"{cells[0, 0].tolist()} for the first point? numbawave.cell(metres, grid_spacing) does it"
    )
