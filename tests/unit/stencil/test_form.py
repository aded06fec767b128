import pytest

from numbawave.errors import EquationError
from numbawave.stencil.form import (
    ZERO,
    Derivative,
    Field,
    Parameter,
    Read,
    Scaled,
    Source,
    Sum,
    add,
    derivative,
    is_zero,
    named,
    scale,
    show,
)

U, V = Read(Field("u", levels=2)), Read(Field("v", frozenset({"x"})))
C, B = Parameter("c"), Parameter("b", frozenset({"x"}))


def test_a_product_of_two_forms_is_refused() -> None:
    with pytest.raises(EquationError, match="linear in its fields"):
        U * U  # type: ignore[operator]


def test_a_sum_of_two_places_is_refused_and_names_them() -> None:
    with pytest.raises(EquationError, match="the node and half a cell along x"):
        U + V


def test_a_parameter_at_another_place_is_refused() -> None:
    with pytest.raises(EquationError, match="average the parameter"):
        B * U
    assert (B * V).at == V.at


@pytest.mark.parametrize(("form", "kind"), [(U, "backward"), (V, "forward")])
def test_a_half_point_derivative_starts_at_its_own_end(form: Read, kind: str) -> None:
    with pytest.raises(EquationError, match="use the other direction"):
        derivative("x", 1, kind, form)  # type: ignore[arg-type]


def test_half_point_derivatives_move_between_places_and_back() -> None:
    slope = derivative("x", 1, "forward", U)
    assert slope.at == {"x"}
    assert derivative("x", 1, "backward", slope).at == frozenset()
    assert derivative("z", 1, "forward", slope).at == {"x", "z"}
    assert derivative("x", 2, "centred", V).at == {"x"}


def test_zero_vanishes_everywhere() -> None:
    assert add() == ZERO
    assert is_zero(scale(U, 0.0))
    assert is_zero(derivative("x", 2, "centred", ZERO))
    assert add(ZERO, U, ZERO) == U
    assert named("w", ZERO) == ZERO


def test_sums_and_products_are_flat() -> None:
    assert add(add(U, 2 * U), 3 * U) == Sum((U, 2 * U, 3 * U))
    assert Scaled(6.0, (C,), U) == 2 * (C * (3 * U))
    assert 1.0 * U == U
    assert scale(-U, -1.0) == U


def test_a_form_is_shown_as_mathematics() -> None:
    w = named("w", derivative("x", 2, "centred", U) - Source("f"))
    assert show(C * w + 2 * U - U.previous) == "c w + 2 u - u.previous"
    assert show(w.form) == "dxx(u) - f"  # type: ignore[attr-defined]
    assert show(derivative("x", 1, "forward", U)) == "dx+(u)"


def test_equal_forms_are_one_key() -> None:
    assert hash(derivative("x", 2, "centred", U)) == hash(Derivative("x", 2, "centred", U))


def test_only_two_levels_have_a_previous_value() -> None:
    assert U.previous.level == -1
    for form in (V, U.previous):
        with pytest.raises(EquationError, match="levels=2"):
            _ = form.previous
