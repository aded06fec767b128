"""Convolutional perfectly matched layers: a replacement for the derivatives along an absorbing axis, and its profiles.

Source: R. Martin, D. Komatitsch, S. D. Gedney (2008), A variational formulation of a stabilized unsplit convolutional
perfectly matched layer, CMES 37, 274-304; D. Komatitsch, R. Martin (2007), Geophysics 72, SM155-SM167,
doi:10.1190/1.2757586; for the second-order equation A. Pasalic, R. McGarry (2010), SEG Technical Program Expanded
Abstracts, 2925-2929, doi:10.1190/1.3513453.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from numbawave.grid.domain import Axis
from numbawave.grid.weights import centred_first
from numbawave.stencil.form import Form, Profile, derivative
from numbawave.stencil.trace import Trace

REFLECTION = 0.001
"""The reflection coefficient at normal incidence for which the damping is chosen."""


class Cpml:
    """The layer as an operator: derivatives along one axis, with memory variables in the axis's slabs."""

    def first(self, trace: Trace, axis: str, slope: Form) -> Form:
        """``d + psi'`` with ``psi' = a psi + b d``, d the plain first derivative."""
        half = axis in slope.at
        a, b = (trace.profile(f"{kind}_{axis}{'_half' * half}", axis, half=half) for kind in "ab")
        psi = trace.memory(f"psi_{axis}", axis, slope.at)
        memory = trace.named(f"memory_{axis}", a * psi + b * slope)
        trace.remember(psi, memory)
        return slope + memory

    def second(self, trace: Trace, axis: str, form: Form) -> Form:
        """The stretched second derivative, written as the plain one plus what vanishes outside the layer.

        With ``g`` and ``s`` the plain first and second derivatives::

            t = b s + db g + D1(a psi)         T = s + t
            stretched = s + t + b T + a zeta   psi' = b g + a psi    zeta' = b T + a zeta
        """
        a, b = trace.profile(f"a_{axis}", axis), trace.profile(f"b_{axis}", axis)
        db = trace.profile(f"db_{axis}", axis, reach=1)
        psi, zeta = trace.memory(f"psi_{axis}", axis), trace.memory(f"zeta_{axis}", axis)
        slope = trace.named(f"slope_{axis}", derivative(axis, 1, "centred", form))
        bend = trace.named(f"bend_{axis}", derivative(axis, 2, "centred", form))
        extra = trace.named(f"extra_{axis}", b * bend + db * slope + derivative(axis, 1, "centred", a * psi))
        memory = trace.named(f"memory_{axis}", b * (bend + extra) + a * zeta)
        trace.remember(psi, b * slope + a * psi)
        trace.remember(zeta, memory)
        return bend + extra + memory


@dataclass(frozen=True)
class Damping:
    """What the profiles depend on besides the axis.

    Attributes
    ----------
    dt : float
        Internal time step.
    max_vel : float
        The largest speed, for which the damping is chosen.
    frequency : float
        The frequency at which the layer absorbs best.
    """

    dt: float
    max_vel: float
    frequency: float

    def profile(self, profile: Profile, axis: Axis, accuracy: int) -> NDArray[np.float64]:
        """Values of a profile along an axis, halo included.

        Parameters
        ----------
        profile : Profile
            ``a_*``, ``b_*`` or ``db_*``, on nodes or ("_half") half points.
        axis : Axis
        accuracy : int
            Order of the derivative in ``db``.

        Returns
        -------
        ndarray, shape [axis.size], float64
            Zero outside the slabs and beyond the outermost cell.
        """
        kind = profile.name.split("_")[0]
        a, b = self._pair(axis, 0.5 * profile.half)
        values = a if kind == "a" else b
        if kind == "db":
            values = np.zeros_like(b)
            for k, weight in enumerate(centred_first(accuracy), start=1):
                values[k:-k] += weight / axis.spacing * (b[2 * k :] - b[: -2 * k])
        values[: axis.first] = 0.0
        values[axis.stop :] = 0.0
        return values

    def profiles(self, wanted: tuple[Profile, ...], axes: tuple[Axis, ...], accuracy: int) -> NDArray[np.float64]:
        """Several profiles as rows of one array, each with zeros behind its own values; not to be written to."""
        return _rows(self, wanted, axes, accuracy)

    def _pair(self, axis: Axis, shift: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        # expm1 keeps b exact where dt is tiny; the outermost value is continued into the halo for db.
        at = np.arange(axis.size) + shift
        sigma, alpha = np.zeros(axis.size), np.zeros(axis.size)
        inside = np.zeros(axis.size, dtype=bool)
        for width, depth in ((axis.low, axis.origin - at), (axis.high, at - (axis.origin + axis.cells - 1))):
            here = (depth > 0) & (width > 0)
            share = np.clip(depth / max(width, 1), 0.0, 1.0)
            rate = -3.0 * self.max_vel * math.log(REFLECTION) / (2.0 * max(width, 1) * axis.spacing)
            sigma += np.where(here, rate * share**2, 0.0)
            alpha += np.where(here, math.pi * self.frequency * (1.0 - share), 0.0)
            inside |= here
        total = sigma + alpha
        decay = np.expm1(-total * abs(self.dt))
        ratio = np.divide(sigma, total, out=np.zeros_like(total), where=total > 0)
        return np.where(inside, decay + 1.0, 0.0), np.where(inside, ratio * decay, 0.0)


@lru_cache(maxsize=16)
def _rows(damping: Damping, wanted: tuple[Profile, ...], axes: tuple[Axis, ...], accuracy: int) -> NDArray[np.float64]:
    by_name = {axis.name: axis for axis in axes}
    rows = np.zeros((len(wanted), max(axis.size for axis in axes)))
    for row, profile in zip(rows, wanted, strict=True):
        values = damping.profile(profile, by_name[profile.axis], accuracy)
        row[: values.size] = values
    rows.flags.writeable = False
    return rows
