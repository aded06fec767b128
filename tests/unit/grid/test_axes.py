import numpy as np
import pytest

from numbawave.errors import InvalidTypeError, InvalidValueError
from numbawave.grid.axes import axis_names, per_axis, per_face


def test_axes_are_named_slowest_first():
    assert [axis_names(ndim) for ndim in (1, 2, 3)] == [("x",), ("z", "x"), ("z", "y", "x")]


@pytest.mark.parametrize("ndim", [0, 4, -1])
def test_other_numbers_of_axes_are_refused(ndim):
    with pytest.raises(InvalidValueError, match="1, 2 or 3 axes"):
        axis_names(ndim)


@pytest.mark.parametrize("value", [5, 5.0, [5], (5.0, 5), np.float32(5), np.array([5, 5])])
def test_one_spacing_or_one_per_axis(value):
    spacing = per_axis("grid_spacing", value, 2)
    assert spacing == (5.0, 5.0)
    assert all(type(length) is float for length in spacing)


@pytest.mark.parametrize("value", [0, -1.0, [1, float("nan")], [1, float("inf")]])
def test_a_spacing_is_positive_and_finite(value):
    with pytest.raises(InvalidValueError, match="grid_spacing = .*positive and finite"):
        per_axis("grid_spacing", value, 2)


@pytest.mark.parametrize("value", [[1, 2, 3], [], [[1, 2]]])
def test_the_number_of_spacings_is_checked(value):
    with pytest.raises(InvalidValueError, match="needs 1 or 2 values.*z, x"):
        per_axis("grid_spacing", value, 2)


@pytest.mark.parametrize("value", ["5", None, [1, [2, 3]], 1j, [True, False]])
def test_a_spacing_is_a_number(value):
    with pytest.raises(InvalidTypeError, match="grid_spacing"):
        per_axis("grid_spacing", value, 2)


@pytest.mark.parametrize(
    ("value", "expected"),
    [(3, ((3, 3), (3, 3))), ([0, 1, 2, 3], ((0, 1), (2, 3))), (np.array(0), ((0, 0), (0, 0)))],
)
def test_one_width_or_one_per_face(value, expected):
    assert per_face("pml_width", value, 2) == expected


def test_faces_without_a_width_are_listed():
    with pytest.raises(InvalidValueError, match="pml_width.*needs 1 or 4 widths, not 2.*z low, z high, x low"):
        per_face("pml_width", [1, 2], 2)


@pytest.mark.parametrize("value", [-1, [0, 0, -2, 0]])
def test_a_width_is_not_negative(value):
    with pytest.raises(InvalidValueError, match="not negative"):
        per_face("pml_width", value, 2)


@pytest.mark.parametrize("value", [2.0, "2", None, True])
def test_a_width_is_an_integer(value):
    with pytest.raises(InvalidTypeError, match="pml_width"):
        per_face("pml_width", value, 2)
