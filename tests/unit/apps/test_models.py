"""The built-in models are reproducible and look like the ground in numbers."""

import numpy as np
import pytest

from numbawave.apps.models import SALT_SPEED, WATER_SPEED, layered_model
from numbawave.errors import InvalidValueError

SHAPES = [((40, 90), (25.0, 25.0)), ((24, 20, 28), (25.0, 30.0, 25.0))]


@pytest.mark.parametrize(("shape", "spacing"), SHAPES)
def test_model_has_water_sediments_that_quicken_with_depth_and_salt(shape, spacing):
    model = layered_model(shape, spacing, 4)
    rock = (model > WATER_SPEED) & (model < SALT_SPEED)
    top, bottom = model[: shape[0] // 2], model[shape[0] // 2 :]
    assert model.shape == shape
    assert model.dtype == np.float32
    assert (model[0] == WATER_SPEED).all()
    assert not (model[shape[0] // 3] == WATER_SPEED).any()
    assert 0.01 < (model == np.float32(SALT_SPEED)).mean() < 0.25
    assert model[rock].min() > 1530
    assert model[rock].max() < 4000
    assert bottom[rock[shape[0] // 2 :]].mean() > top[rock[: shape[0] // 2]].mean() + 300


@pytest.mark.parametrize(("shape", "spacing"), SHAPES)
def test_same_seed_gives_the_same_model_and_another_seed_another(shape, spacing):
    model = layered_model(shape, spacing, 4)
    assert np.array_equal(model, layered_model(shape, spacing, 4))
    assert not np.array_equal(model, layered_model(shape, spacing, 5))


def test_a_finer_grid_shows_the_same_geology():
    coarse = layered_model((40, 90), (25.0, 25.0), 4)
    fine = layered_model((80, 180), (12.5, 12.5), 4)
    blocks = fine.reshape(40, 2, 90, 2).mean((1, 3))
    assert np.median(np.abs(blocks - coarse)) < 30


def test_without_water_and_salt_there_is_neither():
    model = layered_model((40, 90), (25.0, 25.0), 4, water_fraction=0.0, salt=False)
    assert model.min() > WATER_SPEED
    assert model.max() < SALT_SPEED


@pytest.mark.parametrize("shape", [(40,), (4, 40), (8, 8, 8, 8)])
def test_impossible_shapes_are_refused(shape):
    with pytest.raises(InvalidValueError, match="8 cells or more"):
        layered_model(shape, (25.0,) * len(shape), 0)


def test_impossible_water_is_refused():
    with pytest.raises(InvalidValueError, match="0 to 0.5"):
        layered_model((40, 90), (25.0, 25.0), 0, water_fraction=0.9)
