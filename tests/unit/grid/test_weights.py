from math import factorial

import pytest

from numbawave.errors import InvalidValueError
from numbawave.grid.weights import ACCURACIES, centred_first, centred_second, check_accuracy, half_point

EPS = 2.0**-52

# B. Fornberg (1988), tables 1 and 2, written as the fractions printed there.
FIRST = {
    2: (1 / 2,),
    4: (2 / 3, -1 / 12),
    6: (3 / 4, -3 / 20, 1 / 60),
    8: (4 / 5, -1 / 5, 4 / 105, -1 / 280),
}
SECOND = {
    2: (-2, 1),
    4: (-5 / 2, 4 / 3, -1 / 12),
    6: (-49 / 18, 3 / 2, -3 / 20, 1 / 90),
    8: (-205 / 72, 8 / 5, -1 / 5, 8 / 315, -1 / 560),
}
HALF = {
    2: (1,),
    4: (9 / 8, -1 / 24),
    6: (75 / 64, -25 / 384, 3 / 640),
    8: (1225 / 1024, -245 / 3072, 49 / 5120, -5 / 7168),
}


@pytest.mark.parametrize("accuracy", ACCURACIES)
def test_weights_are_the_published_ones(accuracy):
    assert centred_first(accuracy) == FIRST[accuracy]
    assert centred_second(accuracy) == SECOND[accuracy]
    assert half_point(accuracy) == HALF[accuracy]


@pytest.mark.parametrize("accuracy", ACCURACIES)
def test_derivatives_of_polynomials_are_exact_up_to_the_order(accuracy):
    n = accuracy // 2
    scale = n**accuracy * n * EPS
    for power in range(1, accuracy + 1):
        first = sum(w * (k**power - (-k) ** power) for k, w in enumerate(centred_first(accuracy), 1))
        half = sum(w * ((k - 0.5) ** power - (0.5 - k) ** power) for k, w in enumerate(half_point(accuracy), 1))
        sides = centred_second(accuracy)[1:]
        second = sum(w * (k**power + (-k) ** power) for k, w in enumerate(sides, 1))
        assert abs(first - (power == 1)) <= 4 * scale
        assert abs(half - (power == 1)) <= 4 * scale
        assert abs(second - factorial(2) * (power == 2)) <= 4 * scale


@pytest.mark.parametrize("accuracy", ACCURACIES)
def test_a_constant_has_no_derivative(accuracy):
    centre, *sides = centred_second(accuracy)
    assert abs(centre + 2 * sum(sides)) <= 8 * EPS


@pytest.mark.parametrize("accuracy", [0, 1, 3, 10, -2, 4.5, True, "4", None])
def test_other_accuracies_are_refused_by_name(accuracy):
    with pytest.raises(InvalidValueError, match=r"^accuracy = .*must be 2, 4, 6 or 8"):
        check_accuracy(accuracy)
