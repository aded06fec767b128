"""The blur is a symmetric operator; smoothing a model keeps constants and water."""

import pytest
import torch

from numbawave.apps.smoothing import blur, smooth, water_layer


@pytest.mark.parametrize("shape", [(24, 32), (9, 10, 11)])
def test_blur_is_its_own_adjoint(shape, random):
    a, b = (torch.randn(shape, generator=random, dtype=torch.float64) for _ in range(2))
    sigma = [1.5, 2.5, 0.7][: len(shape)]
    left, right = (blur(a, sigma) * b).sum(), (a * blur(b, sigma)).sum()
    assert abs(left - right) <= 1e-13 * a.norm() * b.norm()


def test_blur_of_a_spike_is_a_gaussian_of_unit_sum():
    spike = torch.zeros(41, 41, dtype=torch.float64)
    spike[20, 20] = 1.0
    spread = blur(spike, [2.0, 3.0])
    offset = torch.arange(41, dtype=torch.float64) - 20
    assert torch.isclose(spread.sum(), torch.tensor(1.0, dtype=torch.float64))
    assert abs(float((spread.sum(1) * offset**2).sum()) - 4.0) < 0.02
    assert abs(float((spread.sum(0) * offset**2).sum()) - 9.0) < 0.03


def test_zero_width_leaves_the_field_alone(random):
    field = torch.randn(5, 6, generator=random)
    assert torch.equal(blur(field, [0.0, 0.0]), field)


def test_smoothing_keeps_constants_up_to_the_edges():
    model = torch.full((20, 30), 2345.0)
    assert torch.allclose(smooth(model, [4.0, 4.0]), model)


def test_smoothing_keeps_the_water_and_does_not_mix_it_into_the_rock():
    model = torch.full((20, 30), 2000.0)
    model[:6] = 1500.0
    water = water_layer(model, 1500.0)
    assert torch.allclose(smooth(model, [4.0, 4.0], water), model)
    assert torch.equal(smooth(model, [4.0, 4.0], water)[:6], model[:6])


def test_water_ends_at_the_first_rock_from_above():
    model = torch.full((6, 2), 1500.0)
    model[3, 0] = 1800.0
    expected = torch.tensor([[True, True]] * 3 + [[False, True]] * 3)
    assert torch.equal(water_layer(model, 1500.0), expected)
