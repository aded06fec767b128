"""The printed kernels' machine code, compiled without a GPU: no double precision in single, and everything in registers."""

import re
from types import FunctionType

import pytest

from numbawave.backends import simulated
from numbawave.codegen.module_cache import load
from numbawave.codegen.region import COORDINATE
from numbawave.codegen.step_cuda import Manner, source
from tests.contract.experiment import UPDATES, setup

pytest.importorskip("numba_cuda", reason="needs the extra numbawave[cuda13]")
cuda = pytest.importorskip("numba.cuda")
pytestmark = pytest.mark.skipif(simulated(), reason="the simulator compiles nothing")
CASES = [(equation, ndim, direction) for equation in UPDATES for ndim in (2, 3) for direction in ("forward", "adjoint")]
INTEGERS = {"stride": "int64", "slots": "int64", "rings": "int64"}
SCALARS = r"cells|past|(model|gradient)_step|(slot|channel|ring)_size|ring_start_\d"
USE = {"forward": frozenset({"kept", "some", "boxed"})}
USE |= {"adjoint": USE["forward"], "reverse": USE["forward"] | {"solved"}, "ring": frozenset({"ring", "solved"})}
"""How kernels of a direction touch history; "ring" is forward, too, where a ring is kept in its stead."""


def kernels(equation: str, ndim: int, direction: str, real: str, accuracy: int = 4) -> dict[str, FunctionType]:
    found, absorbing = {}, "" if direction == "reverse" else "zyx"[-ndim:]
    known, way = setup(equation, ndim, frozenset(absorbing), accuracy, False), direction.replace("ring", "forward")
    for title, manner in (("regions", Manner(True, True, False, "x")), ("whole", Manner(False, False, True, "all"))):
        module = load(f"ptx_{equation}", source(known, way, USE[direction], real, manner))
        printed = {name: value.py_func for name, value in vars(module).items() if hasattr(value, "py_func")}
        found |= {f"{title}: {name}": function for name, function in printed.items()}
    return found


def signature(function: FunctionType, real: str) -> tuple[object, ...]:
    """Types of a kernel's arguments, which follow from their names."""
    from numba.cuda import types

    found: list[object] = []
    for name in function.__code__.co_varnames[: function.__code__.co_argcount]:
        points = re.match(r"(clock|first_|order_|(model_|past_)?(cells|receivers|around)_)", name)
        wide, narrow = re.fullmatch(SCALARS, name), COORDINATE.fullmatch(name)
        kind = INTEGERS.get(name, "int64" if points else "uint64" if wide else "uint32" if narrow else real)
        kind = getattr(types, kind)
        found.append(kind if wide or narrow or name in INTEGERS or name.startswith("per_") else kind[::1])
    return tuple(found)


@pytest.mark.parametrize(
    ("equation", "ndim", "direction", "cc", "accuracy"),
    [
        *((equation, ndim, direction, (9, 0), 4) for equation, ndim, direction in CASES),
        ("scalar", 3, "adjoint", (7, 5), 4),
        *(("scalar", 2, direction, cc, 4) for direction in ("forward", "adjoint") for cc in ((7, 5), (8, 0))),
        *(("scalar", 2, "adjoint", (9, 0), accuracy) for accuracy in (2, 6, 8)),
        *((equation, 2, direction, (9, 0), 4) for equation in UPDATES for direction in ("reverse", "ring")),
    ],
)
def test_single_precision_stays_single_and_in_registers(
    equation: str, ndim: int, direction: str, cc: tuple[int, int], accuracy: int
) -> None:
    for name, function in kernels(equation, ndim, direction, "float32", accuracy).items():
        text, _ = cuda.compile_ptx(function, signature(function, "float32"), cc=cc)
        assert ".f64" not in text, name
        assert ".local" not in text, name
        assert ".entry" in text


@pytest.mark.parametrize("direction", ["forward", "adjoint"])
def test_kernels_that_start_early_wait_before_all_else(direction: str) -> None:
    known = setup("scalar", 2, frozenset("zx"), 4, False)
    module = load(
        "ptx_early", source(known, direction, USE[direction], "float32", Manner(False, False, False, "all", True))
    )
    printed = [value.py_func for value in vars(module).values() if hasattr(value, "py_func")]
    for function in printed:
        text, _ = cuda.compile_ptx(function, signature(function, "float32"), cc=(9, 0))
        assert text.count("griddepcontrol.wait;") == text.count("griddepcontrol.launch_dependents;") == 1
        touched = min(text.index(access) for access in ("ld.global", "st.global"))
        assert touched > text.index("griddepcontrol.launch_dependents;")


def test_double_precision_compiles() -> None:
    for function in kernels("scalar", 2, "forward", "float64").values():
        text, _ = cuda.compile_ptx(function, signature(function, "float64"), cc=(9, 0))
        assert ".f64" in text or "points" in function.__name__
