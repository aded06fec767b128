"""What a step launches on a CUDA device: as few kernels as there are stages where one kernel sweeps the whole grid."""

import re

import pytest

from numbawave.codegen.step_cuda import Manner, source
from tests.contract.experiment import UPDATES, setup

KEPT = frozenset({"kept"})


def launches(text: str) -> list[tuple[str, str]]:
    """What each covers, and its kernel."""
    return re.findall(r'^    \("(\w+)", (\w+), ', text, re.MULTILINE)


@pytest.mark.parametrize("direction", ["forward", "adjoint"])
@pytest.mark.parametrize("equation", UPDATES)
@pytest.mark.parametrize("ndim", [1, 2, 3])
def test_a_whole_sweep_does_what_is_done_at_points(equation: str, ndim: int, direction: str) -> None:
    """But for the residual of a field that the last stage reads at neighbours: its cells have other readers."""
    known = setup(equation, ndim, frozenset("zyx"[-ndim:]), 4, False)
    program = known.program(direction)
    found = launches(source(known, direction, KEPT, "float32", Manner(False, True, False, "all")))
    sweeps = [kind for kind, _ in found if kind == "all"]
    written = {assignment.field.name for assignment in program.stages[-1].assignments}
    recorded = {f"adjoint_{record.name}" for record in known.forward.records} if direction == "adjoint" else set()
    assert len(sweeps) == len(program.stages)
    assert len(found) - len(sweeps) == len(recorded - written)


def test_points_have_kernels_of_their_own_beside_split_sweeps() -> None:
    known = setup("scalar", 2, frozenset("zx"), 4, False)
    for direction, count in (("forward", 2), ("adjoint", 3)):
        found = launches(source(known, direction, KEPT, "float32", Manner(True, True, False, "x")))
        assert [kind for kind, _ in found].count("points") == count


@pytest.mark.parametrize("ticker", ["interior", "x", "xz"])
def test_one_kernel_sets_the_clock_and_no_thread_loops_over_shots_that_need_not(ticker: str) -> None:
    known = setup("scalar", 2, frozenset("zx"), 4, False)
    for direction in ("forward", "adjoint"):
        text = source(known, direction, KEPT, "float32", Manner(True, True, False, ticker))
        kernels = re.findall(r"^def (\w+)\(.*\):$((?:\n(?: .*)?$)*)", text, re.MULTILINE)
        assert [name for name, body in kernels if "clock_next[0]" in body] == [f"{direction}_0_{ticker}"]
        assert "while shot < shots" not in text
        assert "while shot < shots" in source(known, direction, KEPT, "float32", Manner(True, True, True, ticker))
