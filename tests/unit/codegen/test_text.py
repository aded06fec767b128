"""Printed text is Python for every case that can be asked for; Numba compiles a few of them in the contracts."""

import ast
from itertools import product

import pytest

from numbawave.backends.cpu import source
from numbawave.codegen.expression import Body, Names, signed
from numbawave.grid.axes import axis_names
from numbawave.grid.weights import ACCURACIES
from numbawave.stencil.form import Field, Profile, Read, derivative
from tests.contract.experiment import UPDATES, setup

ABSORBING = ["", "x", "z", "zx", "y", "zyx"]
CASES = [
    (equation, ndim, accuracy, absorbing)
    for equation, ndim, accuracy, absorbing in product(UPDATES, (1, 2, 3), ACCURACIES, ABSORBING)
    if set(absorbing) <= set(axis_names(ndim))
]


def undefined(function: ast.FunctionDef, known: set[str]) -> set[str]:
    """Names that a function reads and nobody gives it."""
    names = [node for node in ast.walk(function) if isinstance(node, ast.Name)]
    given = {node.id for node in names if isinstance(node.ctx, ast.Store)} | {a.arg for a in function.args.args}
    return {node.id for node in names if isinstance(node.ctx, ast.Load)} - given - known


@pytest.mark.parametrize(("equation", "ndim", "accuracy", "absorbing"), CASES)
def test_text_is_python_in_which_every_name_is_known(equation: str, ndim: int, accuracy: int, absorbing: str) -> None:
    case = setup(equation, ndim, frozenset(absorbing), accuracy, False)
    uses = ({}, {"kept"}, {"kept", "some"}, {"kept", "boxed"}, {"kept", "some", "boxed"})
    for direction, history in product(("forward", "adjoint"), map(frozenset, uses)):
        tree = ast.parse(source(case, direction, history, "float32"))
        functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
        top = {
            n.id for node in tree.body for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
        }
        imported = {"kernel", "loop", "prange", "np", "range", "min", "max"} | {f.name for f in functions}
        for function in functions:
            assert not undefined(function, top | imported), function.name
            assert len({a.arg for a in function.args.args}) == len(function.args.args)


def test_a_value_used_twice_is_computed_once() -> None:
    names = Names(("z", "x"), 2)
    u = Read(Field("u"))
    body = Body(names, [derivative("x", 2, "centred", u) + derivative("z", 2, "centred", u)])
    body.value(derivative("x", 2, "centred", u) + derivative("z", 2, "centred", u))
    assert body.lines == ["u_here = u[i]"]


def test_shifts_become_strides() -> None:
    names = Names(("z", "x"), 2)
    a = Profile("a_x", "x")
    form = derivative("x", 1, "centred", a * Read(Field("psi", slab="x")))
    text = Body(names, [form]).value(form)
    assert text == "per_x * (first_1 * (a_x[x + n1] * psi[j_x + x1] - a_x[x - n1] * psi[j_x - x1]))"


def test_signs_are_joined() -> None:
    assert signed(["a", "-b", "c"]) == "a - b + c"
