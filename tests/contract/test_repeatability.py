"""The same run twice is the same to the last bit, whatever the number of threads."""

from collections.abc import Iterator

import numba
import numpy as np
import pytest

from numbawave.backends import cpu
from tests.contract.experiment import UPDATES, Case, Experiment

CASES = [Case(equation, 2, backend="cpu", shape=(21, 35), steps=5, shots=3) for equation in UPDATES]


@pytest.fixture
def threads() -> Iterator[int]:
    """The largest number of threads; the number in use is put back."""
    before = numba.get_num_threads()
    yield int(numba.config.NUMBA_NUM_THREADS)
    numba.set_num_threads(before)


def results(case: Case) -> list[dict[str, np.ndarray]]:
    experiment = Experiment(case)
    return [*experiment.forward(keep=True), *experiment.adjoint()]


def assert_bit_equal(one: list[dict[str, np.ndarray]], other: list[dict[str, np.ndarray]]) -> None:
    for a, b in zip(one, other, strict=True):
        assert a.keys() == b.keys()
        for name in a:
            assert np.array_equal(a[name], b[name]), name


@pytest.mark.parametrize("case", CASES, ids=str)
def test_two_runs_are_bit_equal(case: Case) -> None:
    assert_bit_equal(results(case), results(case))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_threads_change_no_bit(case: Case, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if threads < 2:
        pytest.skip("one thread on this machine")
    monkeypatch.setattr(cpu, "CELLS_PER_THREAD", 1)  # else so small a grid is left to one thread
    numba.set_num_threads(1)
    one = results(case)
    numba.set_num_threads(threads)

    assert_bit_equal(one, results(case))
