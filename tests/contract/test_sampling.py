"""Any interval of history gives its own sum of images, whether or not it divides the number of steps."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from tests import tolerance
from tests.contract.experiment import UPDATES, Case, Experiment, marked
from tests.unit.torch_bridge.small import BACKENDS, loss, run, small

NT = 6


def gradient(case: Case, history_of: int | None = None) -> dict[str, np.ndarray]:
    """Gradients of the parameters with no source; ``history_of`` leaves only the images of one step in history."""
    experiment = Experiment(case)
    experiment.amplitudes = {name: np.zeros_like(value) for name, value in experiment.amplitudes.items()}
    experiment.forward(keep=True)
    if history_of is not None:
        experiment.history[:history_of] = 0.0
        experiment.history[history_of + 1 :] = 0.0
    return experiment.adjoint()[0]


@pytest.mark.parametrize("case", marked(Case(e, 1, backend=b, steps=NT) for e in UPDATES for b in ("cuda", "reference")))
@pytest.mark.parametrize("stride", range(1, NT + 2))
def test_an_interval_sums_the_images_of_its_steps(case: Case, stride: int) -> None:
    images = [gradient(case, step) for step in range(0, NT, stride)]

    found = gradient(replace(case, stride=stride))

    for name in found:
        expected = stride * sum(image[name] for image in images)
        assert tolerance.apart(found[name], expected) <= tolerance.steps("f8", NT)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("interval", [*range(1, NT + 2), "internal"])
def test_every_interval_runs(backend: str, interval: int | str) -> None:
    call = small(2, nt=NT, backend=backend)
    v = call["v"].requires_grad_()

    out = run(call, model_gradient_sampling_interval=interval)
    loss(out).backward()

    assert torch.isfinite(v.grad).all()
    assert v.grad.any()
    slots = NT if interval == "internal" else -(-NT // interval)
    whole = run(call).info.history_bytes
    assert out.info.history_bytes == whole * slots // NT


def test_with_sub_steps_the_interval_counts_the_callers_steps() -> None:
    call = small(2, nt=NT, dt=0.9)
    v = call["v"].requires_grad_()
    ratio = run(call).info.step_ratio

    once, internal = run(call).info, run(call, model_gradient_sampling_interval="internal").info

    assert ratio > 1
    assert internal.history_bytes == ratio * once.history_bytes
    loss(run(call)).backward()
    assert torch.isfinite(v.grad).all()
