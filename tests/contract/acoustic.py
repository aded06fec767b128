"""First-order acoustic waves, velocity and pressure on a staggered grid: the calculus knows more than the package's pages.

    v_t = -(1 / rho) grad(p)        p_t = -K (div(v) - f)

Source: R. W. Graves (1996), Simulating seismic wave propagation in 3D elastic media using staggered-grid finite
differences, BSSA 86, 1091-1106.
"""

from numbawave.stencil.form import add
from numbawave.stencil.trace import Trace


def update(t: Trace) -> None:
    """One time step, with ``B = dt / rho`` at the half points and ``K = dt rho v^2`` at the nodes."""
    p, K, f = t.field("pressure", recorded=True), t.parameter("K"), t.source("source")
    half = {axis: frozenset({axis}) for axis in t.axes}
    v = {axis: t.field(f"velocity_{axis}", half[axis], recorded=axis == "x") for axis in t.axes}
    B = {axis: t.parameter(f"B_{axis}", half[axis]) for axis in t.axes}
    t.advance({v[axis]: v[axis] - B[axis] * t.first(axis, p) for axis in t.axes})
    divergence = t.named("divergence", add(*(t.first(axis, v[axis]) for axis in t.axes)))
    t.advance({p: p - K * (divergence - f)})
