"""The door to CUDA opens with a package that numbawave runs with, and else says which to install."""

import importlib
import sys

import pytest

from numbawave.backends import simulated
from numbawave.errors import BackendError

DOOR = "numbawave.backends.cuda"


@pytest.fixture(autouse=True)
def closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a new process, where the door was not opened yet."""
    monkeypatch.delenv("NUMBAWAVE_CUDA", raising=False)
    monkeypatch.delitem(sys.modules, DOOR, raising=False)


@pytest.mark.skipif(simulated(), reason="the simulator is Numba's own")
def test_numbas_own_cuda_does_not_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numba_cuda", None)
    with pytest.raises(BackendError, match=r"needs numba_cuda, .* Remedy: pip install \"numbawave\[cuda13\]\""):
        importlib.import_module(DOOR)


def test_a_package_that_is_not_known_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBAWAVE_CUDA", "cupy")
    with pytest.raises(BackendError, match="NUMBAWAVE_CUDA = cupy: is one of numba_cuda, numba_cuda_mlir"):
        importlib.import_module(DOOR)
