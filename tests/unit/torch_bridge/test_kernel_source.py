"""The text that runs: readable, and of one precision."""

import ast
import re

import pytest

import numbawave
from numbawave.backends.cpu import source
from numbawave.codegen.module_cache import load
from numbawave.engine.setup import setup
from numbawave.equations import EQUATIONS, SCALAR
from numbawave.grid.axes import axis_names


@pytest.mark.parametrize("direction", ["forward", "adjoint"])
@pytest.mark.parametrize("equation", EQUATIONS)
def test_names_come_from_the_physics(equation: str, direction: str) -> None:
    text = numbawave.kernel_source(equation, 2, direction=direction)
    assert f"def {direction}(" in text
    assert {"psi_z", "zeta_x", "wavefield", "step", "shot"} <= set(re.findall(r"[a-z]\w*", text.replace("adjoint_", "")))
    assert re.search(r"# \w+ <- .*w", text)


def test_the_text_is_the_one_that_runs() -> None:
    axes = frozenset(axis_names(2))
    text = numbawave.kernel_source("scalar", 2, dtype="float64", direction="forward")
    assert text == source(setup(SCALAR, 2, 4, axes), "forward", frozenset({"kept"}), "float64")


@pytest.mark.parametrize("direction", ["forward", "adjoint"])
@pytest.mark.parametrize("ndim", [1, 2, 3])
def test_floating_literals_stand_in_the_head_alone(ndim: int, direction: str) -> None:
    """A literal in a kernel would be a float64; constants of the head carry the run's dtype."""
    tree = ast.parse(numbawave.kernel_source("scalar", ndim, direction=direction))
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    assert functions
    for node in (inner for function in functions for inner in ast.walk(function)):
        assert not (isinstance(node, ast.Constant) and isinstance(node.value, float))
        assert not isinstance(node, ast.Div)


@pytest.mark.parametrize("direction", ["forward", "adjoint"])
def test_float32_kernels_compute_in_float32(direction: str) -> None:
    """Every floating operation of the compiled rows functions is a single one."""
    numba = pytest.importorskip("numba")
    text = numbawave.kernel_source("scalar", 2, direction=direction, dtype="float32")
    module = load(f"scalar_{'adjoint_' if direction == 'adjoint' else ''}2d", text)
    rows = [value for name, value in vars(module).items() if re.match(rf"{direction}_\d", name)]
    assert rows
    for function in rows:
        names = function.py_func.__code__.co_varnames[: function.py_func.__code__.co_argcount]
        integers = re.compile(
            r"(first|last)_row|kept|shots|cells|model_step|n[zyx]|past|[zyx]_(first|last|rows|low|high|slab|moved|from|to|past)"
        )
        array = numba.types.Array(numba.float32, 1, "C")
        kinds = [numba.uint64 if integers.fullmatch(n) else numba.float32 if n.startswith("per_") else array for n in names]
        library = numba.njit(fastmath=True, error_model="numpy")(function.py_func)
        library.compile(tuple(kinds))
        code = library.inspect_llvm(library.signatures[0])
        assert re.search(r"f(mul|add)[^\n]* float ", code)
        assert not re.search(r"f(mul|add|sub|div|pext)[^\n]* double ", code)


@pytest.mark.parametrize(
    ("change", "name"),
    [({"equation": "elastik"}, "equation"), ({"dtype": "float16"}, "dtype"), ({"direction": "sideways"}, "direction")],
)
def test_unknown_names_are_refused(change: dict, name: str) -> None:
    with pytest.raises(numbawave.InvalidValueError, match=f"^{name} = "):
        numbawave.kernel_source(**change)


def test_without_layers_the_text_knows_nothing_of_them() -> None:
    assert "psi" not in numbawave.kernel_source("scalar", 2, absorbing="")
    assert "psi_x" not in numbawave.kernel_source("scalar", 2, absorbing="z")
