"""Agreement with the reference peer, deepwave: records, gradients and final wavefields."""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

import numbawave
from numbawave.survey.time_step import internal_time_step
from tests import tolerance
from tests.unit.torch_bridge.small import device_of

pytestmark = pytest.mark.peer


@pytest.fixture
def deepwave() -> Iterator[ModuleType]:
    """The peer, without its warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield pytest.importorskip("deepwave")


@dataclass(frozen=True)
class Survey:
    """A random model with sources and receivers that share cells."""

    shape: tuple[int, ...]
    widths: tuple[int, ...]
    spacing: tuple[float, ...]
    accuracy: int = 4
    dt: float = 0.001
    nt: int = 30
    shots: int = 2
    dtype: str = "float64"
    backend: str = "reference"
    batched: bool = False

    def __str__(self) -> str:
        return "-".join([f"{len(self.shape)}d", f"order{self.accuracy}", f"dt{self.dt}", self.dtype, self.backend,
                         f"width{','.join(map(str, self.widths))}", *(["batched"] if self.batched else [])])  # fmt: skip

    def call(self) -> dict[str, Any]:
        """Arguments that both packages take. The peer refuses receivers of a shot in one cell: these differ."""
        rng, dtype = np.random.default_rng(len(self.shape)), getattr(torch, self.dtype)
        cells = int(np.prod(self.shape))
        lead = (self.shots,) if self.batched else ()
        flat = np.stack([rng.permutation(cells)[:5] for _ in range(self.shots)])
        points = np.stack(np.unravel_index(flat, self.shape), -1)
        times = np.arange(self.nt) * self.dt - 8 * self.dt
        trace = (1 - 2 * (np.pi * 25 * times) ** 2) * np.exp(-((np.pi * 25 * times) ** 2))
        strength = rng.standard_normal((self.shots, 2, 1))
        return {
            "v": torch.from_numpy(1500 + 1000 * rng.random((*lead, *self.shape))).to(dtype),
            "grid_spacing": list(self.spacing),
            "dt": self.dt,
            "source_amplitudes": torch.from_numpy(trace * strength).to(dtype),
            "source_locations": torch.from_numpy(points[:, :2]),
            "receiver_locations": torch.from_numpy(points[:, 1:]),
            "accuracy": self.accuracy,
            "pml_width": list(self.widths),
        }


def outcome(propagate: Any, call: dict[str, Any], device: str = "cpu", **more: Any) -> dict[str, np.ndarray]:
    """Records, wavefield and gradients of an objective that is not linear."""
    call = {name: value.to(device) if isinstance(value, torch.Tensor) else value for name, value in call.items()}
    leaves = {name: call[name].clone().requires_grad_() for name in ("v", "source_amplitudes")}
    out = propagate(**(call | leaves | more))
    record = out.receiver_amplitudes
    weights = torch.randn(record.shape, dtype=record.dtype, generator=torch.Generator().manual_seed(1))
    ((record * weights.to(record.device)).sum() / record.detach().abs().max() + (record**2).sum()).backward()
    found = {"record": record, "wavefield": out.wavefield_0, "model": leaves["v"].grad}
    found["amplitudes"] = leaves["source_amplitudes"].grad
    return {name: value.detach().cpu().numpy() for name, value in found.items()}


WIDTHS = {1: (5, 8), 2: (7, 0, 4, 6), 3: (3, 4, 0, 5, 4, 2)}
SHAPES = {1: (30,), 2: (14, 17), 3: (7, 9, 8)}
SPACINGS = {1: (10.0,), 2: (10.0, 7.0), 3: (10.0, 7.0, 8.0)}


def survey(ndim: int, **changes: Any) -> Survey:
    return Survey(SHAPES[ndim], WIDTHS[ndim], SPACINGS[ndim], **changes)


EXACT = [
    *(survey(ndim, accuracy=accuracy, nt=20 if ndim == 3 else 30) for ndim in (1, 2, 3) for accuracy in (2, 4, 6, 8)),
    *(survey(ndim, dt=0.004, nt=10) for ndim in (1, 2, 3)),
    survey(2, batched=True),
    survey(2, shots=1),
    Survey((14, 17), (20,) * 4, (10.0, 10.0)),
    Survey((14, 17), (0,) * 4, (10.0, 10.0)),
    *(survey(ndim, backend="cpu") for ndim in (1, 2, 3)),
    survey(2, backend="cpu", dt=0.004, nt=10),
]
ON_GPU = [*(survey(ndim, backend="cuda", nt=nt) for ndim, nt in ((1, 30), (2, 10), (3, 4))),
          survey(2, backend="cuda", dt=0.004, nt=3)]  # fmt: skip

# The peer's resampling and its profiles are rounded in other orders than ours: some thousand operations a step.
PEER_FACTOR = 10


@pytest.mark.parametrize("case", [*EXACT, *(pytest.param(case, marks=pytest.mark.gpu) for case in ON_GPU)], ids=str)
def test_records_and_gradients_equal_the_peers(case: Survey, deepwave: ModuleType) -> None:
    call = case.call()
    # The peer keeps history once a step of the caller's, as we do by default.
    found = outcome(numbawave.scalar, call, device_of(case.backend), backend=case.backend)
    expected = outcome(deepwave.scalar, call)

    for name in found:
        limit = PEER_FACTOR * tolerance.steps(case.dtype, case.nt)
        assert limit < 1e-10
        assert tolerance.apart(found[name], expected[name]) <= limit, name


@pytest.mark.parametrize("ndim", [1, 2])
def test_float32_equals_the_peers(ndim: int, deepwave: ModuleType) -> None:
    call = survey(ndim, dtype="float32", backend="cpu").call()
    found, expected = outcome(numbawave.scalar, call), outcome(deepwave.scalar, call)
    for name in found:
        assert tolerance.apart(found[name], expected[name]) <= 1e-5, name


def test_the_step_is_divided_as_the_peer_divides_it(deepwave: ModuleType) -> None:
    for dt in np.linspace(1e-4, 2e-2, 23):
        call = survey(2).call() | {"dt": float(dt)}
        _, ratio = deepwave.discretisation.cfl_condition_n(call["grid_spacing"], float(dt), float(call["v"].max()))
        found = internal_time_step(float(dt), call["grid_spacing"], float(call["v"].max()))
        assert found.step_ratio == ratio
