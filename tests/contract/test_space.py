"""Arrays may be tensors: a run that keeps torch's gives what a run on NumPy's gives, found without a GPU."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch

from numbawave.backends import simulated
from numbawave.torch_bridge.space import DeviceTensors
from tests.contract.experiment import CUDA, Case, Experiment, marked

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not simulated(), reason="on a GPU every case runs on tensors")]


@dataclass(frozen=True)
class Tensors(DeviceTensors):
    """What a GPU's tensors do, done in the host's memory."""

    @property
    def stream(self) -> int:
        """There is none."""
        return 0


@pytest.mark.parametrize("case", marked(replace(c, steps=4) for c in CUDA if c.ndim == 2 or c.batched))
def test_tensors_serve_as_arrays(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    plain, other = Experiment(case), Experiment(case)
    expected = [*plain.forward(keep=True), *plain.adjoint()]
    monkeypatch.setattr("numbawave.backends.cuda_launch.device_view", lambda array: np.asarray(array).reshape(-1))
    space: Any = Tensors(getattr(torch, case.dtype), None)  # type: ignore[arg-type]
    monkeypatch.setattr(other.run, "space", space)
    monkeypatch.setattr(other, "_up", lambda *given: [{n: space.upload(v) for n, v in arrays.items()} for arrays in given])

    found = [*other.forward(keep=True), *other.adjoint()]

    assert isinstance(other.history, torch.Tensor)
    for one, wanted in zip(found, expected, strict=True):
        assert one.keys() == wanted.keys()
        for name in wanted:
            assert np.array_equal(one[name], wanted[name]), name
