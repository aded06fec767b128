"""What runs side by side on a GPU may run in any order: threads, blocks, and the launches of a step."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from numbawave.backends import simulated
from tests import simulator
from tests.contract.experiment import CUDA, Arrays, Case, Experiment, marked

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not simulated(), reason="only the simulator can be told in which order to run"),
]
CASES = [
    *(replace(case, steps=4) for case in CUDA if case.accuracy == 4 and case.shape != (21, 35)),
    *(case for case in CUDA if case.accuracy == 8 and case.ndim == 1),
]


def results(case: Case) -> list[Arrays]:
    experiment = Experiment(case)
    return [*experiment.forward(keep=True), *experiment.adjoint()]


def assert_bit_equal(one: list[Arrays], other: list[Arrays]) -> None:
    for a, b in zip(one, other, strict=True):
        assert a.keys() == b.keys()
        for name in a:
            assert np.array_equal(a[name], b[name]), name


@pytest.mark.parametrize("case", marked(CASES))
def test_threads_and_blocks_in_reverse_change_no_bit(case: Case) -> None:
    expected = results(case)
    with simulator.serial(backwards=True):
        found = results(case)

    assert_bit_equal(found, expected)


def last_first(launches: Sequence[Any]) -> list[Any]:
    """The launches in another order that keeps their dependencies: whenever several are ready, the last of them."""
    cuda_graph = pytest.importorskip("numbawave.backends.cuda_graph", exc_type=ImportError)
    waits = list(map(set, cuda_graph.waits(launches)))
    order: list[int] = []
    while len(order) < len(launches):
        order.append(max(k for k in range(len(launches)) if k not in order and waits[k] <= set(order)))
    return [launches[k] for k in order]


@pytest.mark.parametrize("case", marked(CASES))
def test_launches_in_another_order_change_no_bit(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    from numbawave.backends import cuda_steps

    monkeypatch.setattr(cuda_steps, "SPLIT_CELLS", 0)  # one kernel a stage leaves nothing to be moved
    expected, moved = results(case), []

    def launch(pair: list[Any], steps: int, stream: Any) -> int:
        # Half a pair is a step only in the order in which it was made.
        parts = [last_first(pair)] * (steps // 2) + [last_first(pair[: len(pair) // 2])] * (steps % 2)
        moved.append(any(one is not other for one, other in zip(last_first(pair), pair, strict=True)))
        for one in (one for part in parts for one in part):
            one(stream)
        return steps

    monkeypatch.setattr(cuda_steps.Steps, "_launch", staticmethod(launch))
    found = results(case)

    assert_bit_equal(found, expected)
    assert any(moved)
