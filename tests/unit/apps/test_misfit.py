"""Every misfit: zero at equality, positive elsewhere, additive over traces, with the right gradient."""

import pytest
import torch

from numbawave.apps.job_file import MISFIT_NAMES
from numbawave.apps.misfit import MISFITS, get_misfit
from numbawave.errors import InvalidValueError

each_misfit = pytest.mark.parametrize("name", MISFITS)


def _records(random: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    observed = torch.randn(2, 3, 17, generator=random, dtype=torch.float64)
    return observed + 0.3 * torch.randn(2, 3, 17, generator=random, dtype=torch.float64), observed


@each_misfit
def test_zero_at_equality_and_positive_elsewhere(name, random):
    predicted, observed = _records(random)
    assert float(MISFITS[name](observed, observed)) == 0.0
    assert float(MISFITS[name](predicted, observed)) > 0.0


@each_misfit
def test_sum_over_shots_is_the_whole(name, random):
    predicted, observed = _records(random)
    parts = sum(MISFITS[name](predicted[shot : shot + 1], observed[shot : shot + 1]) for shot in range(2))
    assert torch.isclose(parts, MISFITS[name](predicted, observed), rtol=1e-13)


@each_misfit
def test_gradient_agrees_with_finite_differences(name, random):
    predicted, observed = _records(random)
    assert torch.autograd.gradcheck(lambda p: MISFITS[name](p, observed), predicted.requires_grad_())


@each_misfit
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_silent_traces_give_finite_values_and_gradients(name, dtype):
    predicted = torch.zeros(1, 2, 16, dtype=dtype, requires_grad=True)
    observed = torch.zeros(1, 2, 16, dtype=dtype)
    observed[0, 0, 5] = 1.0
    loss = MISFITS[name](predicted, observed)
    (gradient,) = torch.autograd.grad(loss, predicted)
    assert torch.isfinite(loss)
    assert torch.isfinite(gradient).all()


def test_normalised_does_not_see_amplitudes(random):
    predicted, observed = _records(random)
    first, second = (MISFITS["normalised"](factor * predicted, observed) for factor in (1.0, 1e-8))
    assert torch.isclose(first, second, rtol=1e-12)


def test_envelope_does_not_see_the_sign(random):
    predicted, observed = _records(random)
    first, second = (MISFITS["envelope"](sign * predicted, observed) for sign in (1.0, -1.0))
    assert torch.isclose(first, second, rtol=1e-12)


def test_registry_is_sorted_and_is_what_a_job_accepts():
    assert list(MISFITS) == sorted(MISFITS) == list(MISFIT_NAMES)


def test_unknown_name_is_refused_with_the_known_ones():
    with pytest.raises(InvalidValueError, match="envelope, huber, l1, l2, normalised"):
        get_misfit("l3")
