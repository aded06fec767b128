import numpy as np
import pytest

from numbawave.errors import InvalidValueError
from numbawave.survey.models import check_speed


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e9])
def test_a_good_model_gives_its_range_in_any_unit(dtype, unit):
    model = np.linspace(1500, 4500, 12).reshape(3, 4).astype(dtype) * dtype(unit)
    assert check_speed("v", model, 2) == (float(model.min()), float(model.max()))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 0.0, -1500.0])
def test_a_bad_speed_is_named_with_its_cell(bad):
    model = np.full((3, 4, 5), 1500.0)
    model[1, 2, 3] = model[2, 0, 0] = bad
    with pytest.raises(InvalidValueError, match=rf"^v = {bad} in the cell z 1, y 2, x 3: .*\(2 such cells\)"):
        check_speed("v", model, 3)


def test_the_shot_is_named_where_models_differ():
    model = np.full((2, 6), 1500.0)
    model[1, 4] = 0
    with pytest.raises(InvalidValueError, match=r"cell shot 1, x 4: .*\(1 such cell\)"):
        check_speed("v", model, 1)


@pytest.mark.parametrize("odd", [0.001, 9.9e8])
def test_a_speed_far_from_the_others_is_named(odd):
    model = np.full((4, 4), 1500.0)
    model[2, 3] = odd
    with pytest.raises(InvalidValueError, match=r"z 2, x 3: the speeds range from"):
        check_speed("v", model, 2)


def test_an_empty_model_is_refused():
    with pytest.raises(InvalidValueError, match="at least one cell"):
        check_speed("v", np.ones((0, 4)), 2)
