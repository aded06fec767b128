"""A small survey with every awkward thing in it: points that share a cell, on the model's edge, faces of unequal width."""

from typing import Any

import numpy as np
import pytest
import torch

import numbawave
from numbawave.backends import simulated

SHAPE = (3, 4, 5)
WIDTHS = (1, 2, 2, 0, 1, 3)
SPACING = (1.0, 1.2, 0.9)
DT, MAX_VEL, PML_FREQ = 0.15, 2.0, 0.4

CUDA = pytest.param("cuda", marks=pytest.mark.gpu)
COMPILED = ["cpu", CUDA]
BACKENDS = [*COMPILED, "reference"]
"""Values of ``backend`` for a test: the GPU's one only where there is a GPU, or its simulator."""

NO_SIMULATOR = pytest.mark.skipif(simulated(), reason="the simulator has neither streams nor a memory of its own")


def device_of(backend: str) -> str:
    """Where a backend's tensors lie; the simulator takes those of the host."""
    return "cuda" if backend == "cuda" and not simulated() else "cpu"


def small(ndim: int = 2, nt: int = 8, shots: int = 2, dtype: torch.dtype = torch.float64, **changes: Any) -> dict[str, Any]:
    """Keyword arguments of a call of ``scalar``, on its backend's device; none of them requires a gradient."""
    rng, shape = np.random.default_rng(1), SHAPE[-ndim:]
    first = np.stack([rng.integers(0, n, shots) for n in shape], -1)
    corner = np.broadcast_to(np.array(shape) - 1, first.shape)
    call: dict[str, Any] = {
        "v": torch.from_numpy(1.0 + 0.9 * rng.random(shape)).to(dtype),
        "grid_spacing": list(SPACING[-ndim:]),
        "dt": DT,
        "source_amplitudes": torch.from_numpy(rng.standard_normal((shots, 3, nt))).to(dtype),
        "source_locations": torch.from_numpy(np.stack([first, first, corner], 1)),
        "receiver_locations": torch.from_numpy(np.stack([first, corner * 0, corner], 1)),
        "pml_width": list(WIDTHS[-2 * ndim :]),
        "max_vel": MAX_VEL,
        "pml_freq": PML_FREQ,
        "backend": "reference",
    }
    call |= changes
    device = device_of(call["backend"])
    return {name: value.to(device) if isinstance(value, torch.Tensor) else value for name, value in call.items()}


def run(call: dict[str, Any], **changes: Any) -> numbawave.PropagatorOutput:
    """The call with changes."""
    return numbawave.scalar(**(call | changes))


def loss(out: numbawave.PropagatorOutput) -> torch.Tensor:
    """A number that every output enters, and not linearly."""
    return sum((out[out.names.index(n)] ** 2).sum() for n in ("receiver_amplitudes", "wavefield_0", "wavefield_m1"))
