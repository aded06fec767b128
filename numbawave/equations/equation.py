"""What an equation is: its models, its update, and how the parameter grids follow from the models."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from numbawave.stencil.trace import Trace


@dataclass(frozen=True)
class Model:
    """A grid that the user gives: its argument name, its unit and what it is."""

    name: str
    unit: str
    meaning: str


@dataclass(frozen=True)
class Equation:
    """A wave equation.

    Attributes
    ----------
    name : str
    models : tuple of Model
        In the order of the public call's arguments.
    speed : str
        The model that bounds the wave speed.
    update : callable
        Writes one time step on a Trace.
    grids : callable
        ``grids(models, dt)`` gives the parameter grids by name, from arrays or tensors, with arithmetic alone.
    """

    name: str
    models: tuple[Model, ...]
    speed: str
    update: Callable[[Trace], None]
    grids: Callable[[Mapping[str, Any], float], dict[str, Any]]
