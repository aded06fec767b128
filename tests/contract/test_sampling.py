"""Any interval of history gives its own sum of images, whether or not it divides the number of steps."""

import numpy as np
import pytest
import torch

from tests import tolerance
from tests.contract.experiment import UPDATES, Case, Experiment
from tests.unit.torch_bridge.small import loss, run, small

NT = 6


def gradient(case: Case, history_of: int | None = None) -> dict[str, np.ndarray]:
    """Gradients of the parameters with no source; ``history_of`` leaves only the images of one step in history."""
    experiment = Experiment(case)
    experiment.amplitudes = {name: np.zeros_like(value) for name, value in experiment.amplitudes.items()}
    experiment.forward(keep=True)
    if history_of is not None:
        slot = experiment.run.history[history_of].copy()
        experiment.run.history[...] = 0.0
        experiment.run.history[history_of] = slot
    return experiment.adjoint()[0]


@pytest.mark.parametrize("equation", UPDATES)
@pytest.mark.parametrize("stride", range(1, NT + 2))
def test_an_interval_sums_the_images_of_its_steps(equation: str, stride: int) -> None:
    plain = Case(equation, 1, steps=NT)
    images = [gradient(plain, step) for step in range(0, NT, stride)]

    found = gradient(Case(equation, 1, steps=NT, stride=stride))

    for name in found:
        expected = stride * sum(image[name] for image in images)
        assert tolerance.apart(found[name], expected) <= tolerance.steps("f8", NT)


@pytest.mark.parametrize("backend", ["cpu", "reference"])
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
