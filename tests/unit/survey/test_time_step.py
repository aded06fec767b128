import math

import pytest

from numbawave.errors import InvalidValueError
from numbawave.survey.time_step import (
    TimeStep,
    check_courant_number,
    critical_courant_number,
    internal_time_step,
)


def test_a_stable_step_is_kept():
    assert internal_time_step(0.001, (10.0, 10.0), 2000.0) == TimeStep(0.001, 1, 0.001)


def test_an_unstable_step_is_divided_until_it_is_stable():
    step = internal_time_step(0.004, (5.0, 5.0), 2500.0)
    courant = 0.004 * 2500.0 * math.sqrt(2) / 5.0
    assert step.step_ratio == math.ceil(courant / 0.6)
    assert step.internal_dt == 0.004 / step.step_ratio


def test_a_step_exactly_at_the_limit_is_not_divided():
    assert internal_time_step(0.5, (1.0,), 1.0, courant_number=0.5).step_ratio == 1


def test_time_may_run_backwards():
    forwards, backwards = (internal_time_step(dt, (5.0,), 2500.0) for dt in (0.004, -0.004))
    assert backwards.step_ratio == forwards.step_ratio
    assert backwards.internal_dt == -forwards.internal_dt


def test_the_units_do_not_matter():
    metres = internal_time_step(0.004, (5.0, 7.0), 2500.0)
    millimetres = internal_time_step(0.004e6, (5000.0, 7000.0), 2.5)
    assert millimetres.step_ratio == metres.step_ratio


@pytest.mark.peer
def test_the_division_is_the_peers(rng):
    cfl_condition_n = pytest.importorskip("deepwave")._common.cfl_condition_n
    for _ in range(2000):
        spacing = [float(rng.choice([0.1, 1, 4, 5, 7.5, 10])) for _ in range(rng.integers(1, 4))]
        courant_number = float(rng.choice([0.1, 0.5, 0.6, 0.75]))
        # Ratios at, and one rounding beside, a whole number: where a different order of products would show.
        speed = float(rng.choice([1, 1500, 2000, rng.uniform(1000, 5000)]))
        limit = courant_number / (speed * math.sqrt(sum(1 / h**2 for h in spacing)))
        dt = limit * int(rng.integers(1, 7)) * float(1 + rng.integers(-2, 3) * 2.0**-52)
        step = internal_time_step(dt, spacing, speed, courant_number)
        assert (step.internal_dt, step.step_ratio) == cfl_condition_n(spacing, dt, speed, courant_number=courant_number)


@pytest.mark.parametrize(
    ("argument", "values"),
    [
        ("dt", {"dt": 0.0}),
        ("dt", {"dt": float("nan")}),
        ("dt", {"dt": float("inf")}),
        ("dt", {"dt": 1e30}),
        ("max_vel", {"max_vel": 0.0}),
        ("max_vel", {"max_vel": -1.0}),
        ("max_vel", {"max_vel": float("nan")}),
        ("courant_number", {"courant_number": 0.0}),
    ],
)
def test_values_without_a_step_are_refused_by_name(argument, values):
    with pytest.raises(InvalidValueError, match=f"^{argument} = "):
        internal_time_step(**{"dt": 0.001, "grid_spacing": (5.0,), "max_vel": 1500.0, **values})


def test_the_critical_numbers_are_the_known_ones():
    known = {2: 1.0, 4: 0.8660, 6: 0.8135, 8: 0.7844}
    assert {order: round(critical_courant_number(order), 4) for order in known} == known


def test_a_courant_number_above_the_critical_one_is_refused():
    assert check_courant_number(0.86, 4) == 0.86
    with pytest.raises(InvalidValueError, match=r"courant_number = 0.87.*at most 0.8660 for accuracy 4"):
        check_courant_number(0.87, 4)
