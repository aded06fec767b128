"""The same run twice is the same to the last bit, whatever the number of threads."""

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numba
import numpy as np
import pytest

from numbawave.backends import cpu
from tests.contract.experiment import PLAIN_CUDA, UPDATES, Case, Experiment, marked

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


@pytest.mark.parametrize("case", marked([*CASES, *PLAIN_CUDA, *(replace(case, backend="cuda", steps=3) for case in CASES)]))
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


FRESH_PROCESS = """
import hashlib, sys
import numpy as np
from tests.contract.experiment import Case, Experiment
experiment = Experiment(Case("scalar", 2, backend="cpu", dtype="float32", shape=(33, 45), steps=60, shots=2))
results = [*experiment.forward(keep=True), *experiment.adjoint()]
digest = hashlib.sha256()
for group in results:
    for name in sorted(group):
        digest.update(np.ascontiguousarray(group[name]).tobytes())
print(digest.hexdigest())
"""


def test_code_compiled_here_and_code_found_on_disk_give_the_same_bits(tmp_path: Path) -> None:
    def digest() -> str:
        environment = os.environ | {"NUMBAWAVE_CACHE_DIR": str(tmp_path), "PYTHONPATH": os.getcwd()}
        done = subprocess.run([sys.executable, "-c", FRESH_PROCESS], env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout.split()[-1]

    compiled = digest()
    assert list(tmp_path.rglob("*.nbc")), "nothing was kept on disk"

    assert digest() == compiled
