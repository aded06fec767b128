"""The scalar wave equation with constant density.

    u_tt = v^2 (laplacian(u) - f)

Discretised to second order in time; the record and the injection keep the order record, step, inject.
Source: K. R. Kelly, R. W. Ward, S. Treitel, R. M. Alford (1976), Synthetic seismograms: a finite-difference approach,
Geophysics 41, 2-27, doi:10.1190/1.1440605.
"""

from collections.abc import Mapping
from typing import Any

from numbawave.equations.equation import Equation, Model
from numbawave.stencil.trace import Trace


def update(t: Trace) -> None:
    """One time step: ``u_next = c (laplacian(u) - f) + 2 u - u_previous`` with ``c = v^2 dt^2``."""
    u, c, f = t.field("wavefield", levels=2, recorded=True), t.parameter("c"), t.source("source")
    w = t.named("w", t.laplacian(u) - f)
    t.advance({u: c * w + 2 * u - u.previous})


def grids(models: Mapping[str, Any], dt: float) -> dict[str, Any]:
    """``c = v^2 dt^2``, in this order: so the gradient needs no grid besides the model itself."""
    return {"c": models["v"] ** 2 * dt**2}


SCALAR = Equation("scalar", (Model("v", "m/s", "wave speed"),), "v", update, grids)
