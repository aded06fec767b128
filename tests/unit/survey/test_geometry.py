import numpy as np
import pytest

from numbawave.errors import InvalidTypeError, InvalidValueError
from numbawave.survey.geometry import cell, check_amplitudes, check_locations

SHAPE = (20, 30)


def locations(*points):
    return np.array(points).reshape(1, -1, 2)


def test_good_locations_come_back_as_int64():
    given = np.array([[[0, 0], [19, 29], [0, 0]]], dtype=np.uint8)
    checked = check_locations("receiver_locations", given, 1, SHAPE)
    assert checked.dtype == np.int64
    np.testing.assert_array_equal(checked, given)


def test_a_shot_without_points_is_allowed():
    assert check_locations("source_locations", np.zeros((3, 0, 2), int), 3, SHAPE).shape == (3, 0, 2)


def test_lists_and_any_number_of_shots_are_allowed():
    assert check_locations("source_locations", [[[1, 2]], [[3, 4]]], None, SHAPE).shape == (2, 1, 2)


@pytest.mark.parametrize(("axis", "name", "last"), [(0, "z", 19), (1, "x", 29)])
@pytest.mark.parametrize("face", ["low", "high"])
def test_a_point_outside_any_face_is_named(axis, name, last, face):
    points = np.full((2, 3, 2), 5)
    points[1, 2, axis] = -1 if face == "low" else last + 1
    message = rf"receiver_locations\[shot 1, point 2, axis {name}\] = .*from 0 to {last}"
    with pytest.raises(InvalidValueError, match=message):
        check_locations("receiver_locations", points, 2, SHAPE)


@pytest.mark.parametrize("dtype", [np.int64, np.float32])
def test_metres_are_recognised(dtype):
    metres = locations((100, 250), (0, 290)).astype(dtype)
    with pytest.raises((InvalidTypeError, InvalidValueError), match=r"not metres: did you mean.*\[10, 25\]"):
        check_locations("source_locations", metres, 1, SHAPE, (10.0, 10.0))


def test_points_that_are_nowhere_are_not_taken_for_metres():
    with pytest.raises(InvalidValueError) as caught:
        check_locations("source_locations", locations((100, 9999)), 1, SHAPE, (10.0, 10.0))
    assert "metres" not in str(caught.value)


@pytest.mark.parametrize("dtype", [np.float64, bool, complex])
def test_locations_are_integers(dtype):
    with pytest.raises(InvalidTypeError, match="source_locations.*integers"):
        check_locations("source_locations", locations((1, 2)).astype(dtype), 1, SHAPE)


@pytest.mark.parametrize("shape", [(2,), (1, 2), (1, 1, 3), (1, 1, 1, 2)])
def test_the_shape_is_checked(shape):
    with pytest.raises(InvalidValueError, match=r"must have shape \[shot, point, 2\]"):
        check_locations("source_locations", np.zeros(shape, int), 1, SHAPE)


def test_the_number_of_shots_is_checked():
    with pytest.raises(InvalidValueError, match="2 shots: the other arguments have 3"):
        check_locations("source_locations", np.zeros((2, 1, 2), int), 3, SHAPE)


def test_ragged_lists_are_refused():
    with pytest.raises(InvalidTypeError, match="source_locations"):
        check_locations("source_locations", [[[1, 2]], [[1, 2], [3, 4]]], 2, SHAPE)


def test_amplitudes_match_their_locations():
    points = np.zeros((2, 3, 2), np.int64)
    assert check_amplitudes("source_amplitudes", (2, 3, 50), points) == 50
    for shape, rule in [
        ((3, 50), "must have shape"),
        ((1, 3, 50), "2 shots of 3 sources"),
        ((2, 1, 50), "2 shots of 3 sources"),
        ((2, 3, 0), "at least one time sample"),
    ]:
        with pytest.raises(InvalidValueError, match=f"source_amplitudes.*{rule}"):
            check_amplitudes("source_amplitudes", shape, points)


@pytest.mark.parametrize(
    ("metres", "spacing", "expected"),
    [
        (149.0, 10.0, 15),
        ([0.0, 4.9, 5.0, 15.0], 10, [0, 0, 1, 2]),
        ([[100.0, 100.0]], (5.0, 20.0), [[20, 5]]),
        (-4.0, 10.0, 0),
    ],
)
def test_positions_become_the_nearest_cells(metres, spacing, expected):
    cells = cell(metres, spacing)
    assert cells.dtype == np.int64
    np.testing.assert_array_equal(cells, expected)
    assert cells.shape == np.shape(expected)


@pytest.mark.parametrize(
    ("metres", "spacing"), [(float("nan"), 10.0), (1.0, 0.0), (1.0, -2.0), ([[1.0, 2.0]], (1.0, 2.0, 3.0))]
)
def test_positions_without_a_cell_are_refused(metres, spacing):
    with pytest.raises(InvalidValueError):
        cell(metres, spacing)
