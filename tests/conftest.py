import importlib
from collections.abc import Iterator
from contextlib import nullcontext

import numpy as np
import pytest

from numbawave.backends import simulated
from tests import simulator

SPLIT_CELLS = 1500
"""Of the tests' grids some are smaller and some are larger: one kernel for all of a grid, and one for each region."""


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """Random numbers that depend on the test's name only, so that a test gives the same result alone."""
    return np.random.default_rng(list(request.node.name.encode()))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests with the marker ``gpu`` run on a GPU, or all of them in Numba's simulator, or not at all."""
    marked = [item for item in items if item.get_closest_marker("gpu")]
    if marked and not (simulated() or gpu_is_there()):
        config.hook.pytest_deselected(items=marked)
        items[:] = [item for item in items if not item.get_closest_marker("gpu")]


def gpu_is_there() -> bool:
    """Whether torch sees a GPU."""
    import torch

    return torch.cuda.is_available()


@pytest.fixture(autouse=True)
def small_kernels(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """On so small grids a test with the marker ``gpu`` meets all that large ones do, and the simulator makes haste."""
    if request.node.get_closest_marker("gpu") is None:
        yield
        return
    cuda, tiles = (importlib.import_module(f"numbawave.backends.{name}") for name in ("cuda_steps", "cuda_tiles"))
    monkeypatch.setattr(cuda, "SPLIT_CELLS", SPLIT_CELLS)
    if simulated():
        for ndim, region in list(tiles.SHAPES):
            monkeypatch.setitem(tiles.SHAPES, (ndim, region), simulator.TILES[ndim])
    else:
        monkeypatch.setattr(cuda, "FEW_STEPS", 2)  # else so short runs would never be replayed from a graph
        monkeypatch.setattr(importlib.import_module("numbawave.backends.cuda_graph"), "LONG", 40)
    with simulator.serial() if simulated() else nullcontext():
        yield
