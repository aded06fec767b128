"""The layer's profiles against their formula, evaluated cell by cell."""

import math

import numpy as np
import pytest

from numbawave.boundary.cpml import REFLECTION, Damping
from numbawave.grid.domain import Axis
from numbawave.grid.weights import ACCURACIES, centred_first
from numbawave.stencil.form import Profile
from tests import tolerance

LOW, HIGH, CELLS, HALO, SPACING = 4, 6, 5, 4, 2.5
AXIS = Axis("y", CELLS, LOW, HIGH, SPACING, HALO, fastest=False)
DAMPING = Damping(dt=0.01, max_vel=3.0, frequency=0.7)


def formula(place: float, damping: Damping = DAMPING) -> tuple[float, float]:
    """Coefficients a and b at a place in cells from the model's first cell."""
    depth, width = (-place, LOW) if place < 0 else (place - (CELLS - 1), HIGH)
    if depth <= 0:
        return 0.0, 0.0
    q = min(depth / width, 1.0)
    sigma = -3 * damping.max_vel * math.log(REFLECTION) * q**2 / (2 * width * SPACING)
    alpha = math.pi * damping.frequency * (1 - q)
    decay = math.expm1(-(sigma + alpha) * abs(damping.dt))
    return decay + 1, sigma / (sigma + alpha) * decay


def profile(name: str, damping: Damping = DAMPING, accuracy: int = 4) -> np.ndarray:
    return damping.profile(Profile(name, "y", half=name.endswith("_half")), AXIS, accuracy)


@pytest.mark.parametrize(("suffix", "shift"), [("", 0.0), ("_half", 0.5)])
@pytest.mark.parametrize("dt", [0.01, -0.01, 1e-12])
def test_profiles_follow_their_formula(suffix: str, shift: float, dt: float) -> None:
    damping = Damping(dt, DAMPING.max_vel, DAMPING.frequency)
    found = [profile(f"{kind}_y{suffix}", damping) for kind in "ab"]
    for index in range(AXIS.first, AXIS.stop):
        expected = formula(index - AXIS.origin + shift, damping)
        for values, value in zip(found, expected, strict=True):
            assert values[index] == pytest.approx(value, rel=tolerance.rounding("f8", 20))


def test_b_is_accurate_where_the_step_is_tiny() -> None:
    """b tends to -sigma dt: its relative error must not grow as the step shrinks."""
    tiny, small = (Damping(dt, DAMPING.max_vel, DAMPING.frequency) for dt in (1e-12, 1e-9))
    one, other = profile("b_y", tiny) / 1e-12, profile("b_y", small) / 1e-9
    inside = other != 0
    assert inside.sum() == LOW + HIGH
    # They differ by the next term, (sigma + alpha) dt / 2, which is about 1e-9 relative; without expm1 it would be 1e-4.
    np.testing.assert_allclose(one[inside], other[inside], rtol=1e-8)


@pytest.mark.parametrize("accuracy", ACCURACIES)
def test_db_is_the_derivative_of_b_continued_beyond_the_layer(accuracy: int) -> None:
    found = profile("db_y", accuracy=accuracy)
    for index in range(AXIS.first, AXIS.stop):
        place = index - AXIS.origin
        expected = sum(
            w / SPACING * (formula(place + k)[1] - formula(place - k)[1])
            for k, w in enumerate(centred_first(accuracy), start=1)
        )
        assert found[index] == pytest.approx(expected, rel=tolerance.rounding("f8", 100), abs=1e-17)


@pytest.mark.parametrize("name", ["a_y", "b_y", "db_y", "a_y_half", "b_y_half"])
def test_profiles_vanish_in_the_halo_and_in_the_model(name: str) -> None:
    values = profile(name)
    assert not values[: AXIS.first].any()
    assert not values[AXIS.stop :].any()
    margin = 2
    assert not values[AXIS.origin + margin : AXIS.origin + CELLS - margin].any()


def test_an_axis_without_layers_has_none() -> None:
    bare = Axis("y", CELLS, 0, 0, SPACING, HALO, fastest=False)
    for name in ("a_y", "b_y", "db_y"):
        assert not DAMPING.profile(Profile(name, "y", half=name.endswith("_half")), bare, 4).any()


def test_profiles_are_mirrored_with_the_widths() -> None:
    mirror = Axis("y", CELLS, HIGH, LOW, SPACING, HALO, fastest=False)
    for name, sign in (("a_y", 1), ("b_y", 1), ("db_y", -1)):
        other = DAMPING.profile(Profile(name, "y", half=name.endswith("_half")), mirror, 4)
        np.testing.assert_allclose(other[::-1], sign * profile(name), rtol=tolerance.rounding("f8", 100), atol=1e-16)


def test_the_layer_damps_more_the_deeper() -> None:
    a, b = profile("a_y"), profile("b_y")
    assert (np.diff(-b[AXIS.origin + CELLS : AXIS.stop]) > 0).all()
    assert ((a >= 0) & (a < 1)).all()
    assert ((b <= 0) & (b > -1)).all()
