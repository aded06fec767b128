"""Between the caller's cotangents and gradients and the scaled adjoint that a run steps back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numbawave.stencil.form import Field

Given = Mapping[str, Any]


def residual(run: Any, record: str, values: Any) -> Any:
    """Cotangents of a record as the adjoint reads them, zero for None."""
    return run.make(f"back.residual_{record}") if values is None else run.space.contiguous(values)


def start(run: Any, parameters: Given, name: str, field: Field, array: str, cotangent: Any) -> Any:
    """Where the adjoint of a state's array starts.

    Parameters
    ----------
    run : Run
    parameters : mapping of str to array
    name : str
        Of the state's part; see ``Setup.state_names``.
    field : Field
    array : str
        The array that holds it.
    cotangent : array or None
        Zero for None.
    """
    found = run.make(f"back.adjoint_{array}", zero=cotangent is None)
    if cotangent is None:
        return found
    found[...] = cotangent
    for position, axis in enumerate(run.grid.axes, start=1):
        end = 0
        for first, stop in axis.kept(run.setup.storage_depth(axis.name) if axis.name == field.slab else None):
            found[(slice(None),) * position + (slice(end, first),)] = 0.0
            end = stop
        found[(slice(None),) * position + (slice(end, None),)] = 0.0
    if name != field.name:
        found /= run.setup.older(field)
    scale = run.setup.adjoint.scales.get(field.name)
    if scale is not None:
        found *= parameters[scale.name]
    return found


def finish(run: Any, parameters: Given, name: str, field: Field, adjoint: Any) -> Any:
    """The gradient of an initial state's array; parameters as for ``start``."""
    if name != field.name:
        adjoint *= run.dtype.type(run.setup.older(field))
    scale = run.setup.adjoint.scales.get(field.name)
    return adjoint if scale is None else run.space.divide(adjoint, parameters[scale.name])


def gradients(run: Any, arrays: Mapping[str, Any], parameters: Given) -> dict[str, Any]:
    """The gradients of the parameter grids, from what images added up; zero outside the run's window."""
    found = {name: arrays[f"gradient_{name}"] for name in parameters}
    images = [image for stage in run.setup.adjoint.program.stages for image in stage.images]
    for name, gradient in found.items():
        if run.window != run.grid.box("full"):
            for position, ends in enumerate(run.window.slices):
                for outside in (slice(0, ends.start), slice(ends.stop, None)):
                    gradient[(..., outside, *[slice(None)] * (len(run.grid.axes) - position - 1))] = 0
        if run.stride > 1:
            gradient *= run.dtype.type(run.stride)
        (divisor,) = {image.divisor for image in images if image.parameter.name == name} or {None}
        if divisor is not None:
            run.space.divide(gradient, parameters[divisor.name])
    return found
