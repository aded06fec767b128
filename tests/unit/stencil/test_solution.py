import pytest

from numbawave.stencil.solution import Solution, solutions
from numbawave.stencil.trace import Trace, trace
from numbawave.stencil.transpose import transpose
from tests.contract.experiment import UPDATES, program


def solved(update: object) -> tuple[Solution, ...]:
    found = trace("test", update, ("x",), {})  # type: ignore[arg-type]
    return solutions(found, transpose(found))


def damped(t: Trace) -> None:
    """The number 2 before the parameter, and its field as it was with a half."""
    u, c = t.field("u", recorded=True), t.parameter("c")
    t.advance({u: 0.5 * u - c * (2.0 * t.laplacian(u))})


def two_parameters(t: Trace) -> None:
    u, c, d = t.field("u", levels=2, recorded=True), t.parameter("c"), t.parameter("d")
    t.advance({u: c * t.laplacian(u) + d * u + 2 * u - u.previous})


def inside(t: Trace) -> None:
    """History keeps two forms of one update: a field says only what one of them was, given the other."""
    u, c, d = t.field("u", levels=2, recorded=True), t.parameter("c"), t.parameter("d", frozenset({"x"}))
    t.advance({u: c * t.first("x", d * t.first("x", u)) + 2 * u - u.previous})


def no_parameter(t: Trace) -> None:
    u, v, c = t.field("u", recorded=True), t.field("v"), t.parameter("c")
    t.advance({v: v + t.second("x", u)})
    t.advance({u: u + c * v})


@pytest.mark.parametrize("equation", UPDATES)
@pytest.mark.parametrize("ndim", [1, 2, 3])
def test_every_page_is_solved_alike_with_layers_and_without(equation: str, ndim: int) -> None:
    with_layers, without = (program(equation, ndim, frozenset(axes)) for axes in ("zyx"[-ndim:], ""))
    found = solutions(with_layers, transpose(with_layers))
    assert found == solutions(without, transpose(without))
    kept = [transpose(without).kept(k) for k in range(len(without.stages))]
    assert sorted(each.channel for each in found) == list(range(sum(map(len, kept))))


def test_numbers_are_those_of_the_update() -> None:
    (found,) = solved(damped)
    assert (found.field.name, found.parameter.name, found.number, found.undone) == ("u", "c", -2.0, 2.0)
    assert found.older == "u"


@pytest.mark.parametrize("update", [two_parameters, inside, no_parameter])
def test_what_a_field_alone_does_not_say_is_not_solved_for(update: object) -> None:
    assert solved(update) == ()
