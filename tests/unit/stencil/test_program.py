from collections.abc import Callable

import pytest

from numbawave.boundary.cpml import Cpml
from numbawave.equations import EQUATIONS
from numbawave.errors import EquationError
from numbawave.stencil.form import Field, Profile, Read, derivative, show, walk
from numbawave.stencil.linearise import linearise
from numbawave.stencil.parts import part, slabs
from numbawave.stencil.program import Assignment, Stage, coefficients
from numbawave.stencil.reach import EVERYWHERE, reach, support
from numbawave.stencil.trace import Trace, trace
from numbawave.stencil.transpose import transpose
from tests.contract.experiment import UPDATES

U = Read(Field("u", levels=2))
V = Read(Field("v"))
PSI = Read(Field("psi", slab="x"))
A = Profile("a_x", "x")


def stage(*updates: tuple[Read, object]) -> Stage:
    return Stage(tuple(Assignment(read.field, form) for read, form in updates))  # type: ignore[arg-type]


def twice(t: Trace) -> None:
    u = t.field("u")
    t._stages.append(Stage((Assignment(u.field, u), Assignment(u.field, 2 * u))))


def elsewhere(t: Trace) -> None:
    t.advance({t.field("u"): 1.0 * t.field("v", frozenset({"x"}))})


def shifted_source(t: Trace) -> None:
    u = t.field("u")
    t.advance({u: u + derivative("x", 2, "centred", t.source("f"))})


def shifted_previous(t: Trace) -> None:
    u = t.field("u", levels=2)
    t.advance({u: derivative("x", 2, "centred", u.previous)})


def scaled_previous(t: Trace) -> None:
    u = t.field("u", levels=2)
    t.advance({u: t.parameter("c") * u.previous})


def anothers_previous(t: Trace) -> None:
    u, v = t.field("u", levels=2), t.field("v", levels=2)
    t.advance({u: v.previous, v: u})


def escaped_memory(t: Trace) -> None:
    u, psi = t.field("u"), t.memory("psi", "x")
    t.remember(psi, 1.0 * u)
    t.advance({u: u + psi})


def spread_memory(t: Trace) -> None:
    u, psi, a = t.field("u"), t.memory("psi", "x"), t.profile("a_x", "x")
    t.remember(psi, a * psi + derivative("x", 1, "centred", a * u))
    t.advance({u: u + psi})


def crossed_memory(t: Trace) -> None:
    u, psi = t.field("u"), t.memory("psi", "x")
    t.advance({u: u + derivative("y", 1, "centred", psi)})


def one_name_twice(t: Trace) -> None:
    t.field("u")
    t.parameter("u")


def no_identifier(t: Trace) -> None:
    t.field("u v")


@pytest.mark.parametrize(
    ("update", "message"),
    [
        (twice, "assigned twice"),
        (elsewhere, "sits where its field does"),
        (shifted_source, "acts at its own cell"),
        (shifted_previous, "older level"),
        (scaled_previous, "older level"),
        (anothers_previous, "older level"),
        (escaped_memory, "lives in the slabs of x alone"),
        (spread_memory, "lives in the slabs of x alone"),
        (crossed_memory, "its own axis only"),
        (one_name_twice, "identifier of its own"),
        (no_identifier, "identifier of its own"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_an_update_that_breaks_a_rule_is_refused(update: Callable[[Trace], None], message: str) -> None:
    with pytest.raises(EquationError, match=message):
        trace("bad", update, ("y", "x"))


def test_a_field_read_at_a_neighbour_is_not_written_in_place() -> None:
    racy = stage((V, V + derivative("x", 2, "centred", V)))
    safe = stage((V, V + derivative("x", 2, "centred", U)))
    assert racy.buffered(V.field)
    assert not safe.buffered(V.field)
    assert not safe.buffered(U.field), "what is not written needs no buffer"


def test_a_field_that_another_update_reads_at_a_neighbour_is_not_written_in_place() -> None:
    assert stage((V, 2 * V), (PSI, A * derivative("x", 1, "centred", V))).buffered(V.field)


def test_a_field_that_a_later_pass_reads_is_not_written_in_place() -> None:
    assert stage((V, 2 * V), (PSI, A * V)).buffered(V.field)
    assert not stage((PSI, A * PSI), (V, V + A * PSI)).buffered(PSI.field)


def test_two_levels_are_written_over_the_oldest() -> None:
    assert stage((U, 2 * U - U.previous)).buffered(U.field)


def test_reach_counts_derivatives() -> None:
    assert reach(V) == 0
    assert reach(derivative("x", 1, "centred", derivative("y", 2, "centred", V))) == 2
    assert reach(derivative("x", 1, "centred", V) + U, U.field) == 0
    assert reach(V, U.field) == -1


def test_support_grows_with_derivatives_and_shrinks_to_profiles() -> None:
    assert support(V) == EVERYWHERE
    assert support(PSI) == support(A * V) == 0
    assert support(derivative("x", 1, "centred", A * V)) == 1
    assert support(A * derivative("x", 1, "centred", A * V)) == 0
    assert support(Profile("db_x", "x", reach=1) * V) == 1


def test_a_form_is_the_sum_of_its_parts() -> None:
    other = Profile("a_y", "y")
    form = V + A * V + derivative("x", 1, "centred", A * PSI) + other * V
    assert slabs(form) == {"x", "y"}
    terms = [part(form, axis) for axis in (None, "x", "y")]
    assert terms[0] == V
    assert terms[1] == A * V + derivative("x", 1, "centred", A * PSI)
    assert terms[2] == other * V


def test_profiles_of_two_axes_do_not_mix() -> None:
    with pytest.raises(EquationError, match="one axis only|scaled by another"):
        part(Profile("a_y", "y") * (A * V), "x")
    with pytest.raises(EquationError, match="scaled by another"):
        part(Profile("a_y", "y") * (V + PSI), "x")


@pytest.mark.parametrize("equation", UPDATES)
def test_the_plain_part_of_an_equation_is_the_equation_without_layers(equation: str) -> None:
    axes = ("z", "x")
    plain = trace(equation, UPDATES[equation], axes)
    layered = trace(equation, UPDATES[equation], axes, {axis: Cpml() for axis in axes})
    for bare, full in zip(plain.stages, layered.stages, strict=True):
        for assignment in bare.assignments:
            found = part(full.assigned(assignment.field), None)  # type: ignore[arg-type]
            reads = [[f for f in walk(form) if isinstance(f, Read)] for form in (found, assignment.form)]
            assert reads[0] == reads[1]
            assert reach(found) == reach(assignment.form)


def test_coefficients_multiply_down_to_a_leaf() -> None:
    assert list(coefficients(2 * (A * (V + U)) - V, V)) == [(2.0, (A,)), (-1.0, ())]


TRANSPOSED = [("centred", "centred", -1.0), ("forward", "backward", -1.0), ("backward", "forward", -1.0)]


@pytest.mark.parametrize(("kind", "other", "sign"), TRANSPOSED)
def test_a_first_derivative_is_transposed_to_minus_its_mirror(kind: str, other: str, sign: float) -> None:
    half = frozenset({"x"}) if kind == "backward" else frozenset()

    def update(t: Trace) -> None:
        u = t.field("u", half)
        v = t.field("v", half ^ (frozenset() if kind == "centred" else {"x"}))
        t.advance({v: v + derivative("x", 1, kind, u)})  # type: ignore[arg-type]

    adjoint = transpose(trace("pair", update, ("x",))).program
    (assignment,) = adjoint.stages[0].assignments
    u_, v_ = (Read(next(f for f in adjoint.fields if f.name == f"adjoint_{name}")) for name in "uv")
    assert assignment.field == u_.field
    assert assignment.form == u_ + sign * derivative("x", 1, other, v_)  # type: ignore[arg-type]


def test_a_second_derivative_is_its_own_transpose() -> None:
    def update(t: Trace) -> None:
        u, v = t.field("u"), t.field("v")
        t.advance({v: v + derivative("x", 2, "centred", u)})

    (assignment,) = transpose(trace("pair", update, ("x",))).program.stages[0].assignments
    assert show(assignment.form) == "adjoint_u + dxx(adjoint_v)"


@pytest.mark.parametrize("equation", EQUATIONS)
def test_the_interior_adjoint_of_a_scaled_equation_has_the_shape_of_the_forward_step(equation: str) -> None:
    forward = trace(equation, EQUATIONS[equation].update, ("z", "x"))
    adjoint = transpose(forward)
    if set(adjoint.scales) == {f.name for f in forward.fields}:
        assert adjoint.program.reach == forward.reach
        assert all(image.divisor is not None for stage in adjoint.program.stages for image in stage.images)


@pytest.mark.parametrize("equation", UPDATES)
def test_the_tangent_has_a_change_for_everything(equation: str) -> None:
    forward = trace(equation, UPDATES[equation], ("x",), {"x": Cpml()})
    tangent = linearise(forward)
    for kind in ("fields", "parameters", "sources", "records"):
        names = {thing.name for thing in getattr(forward, kind)}
        assert {thing.name for thing in getattr(tangent, kind)} == names | {f"d_{name}" for name in names}
    assert tangent.profiles == forward.profiles
