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
    waits = [set(cuda_graph.nearest(launches, position)) for position in range(len(launches))]
    order: list[int] = []
    while len(order) < len(launches):
        order.append(max(k for k in range(len(launches)) if k not in order and waits[k] <= set(order)))
    return [launches[k] for k in order]


@pytest.mark.parametrize("case", marked(CASES))
def test_launches_in_another_order_change_no_bit(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    from numbawave.backends import cuda

    expected, moved = results(case), []
    plain = cuda.Steps._launch

    def launch(steps: Any, count: int, stream: Any) -> int:
        given = steps.pair
        steps.pair = last_first(given)
        moved.append(any(one is not other for one, other in zip(steps.pair, given, strict=True)))
        try:
            # Half a pair is a step only in the order in which it was made.
            return plain(steps, count // 2 * 2, stream) + (launch_one(steps, given, stream) if count % 2 else 0)
        finally:
            steps.pair = given

    def launch_one(steps: Any, given: list[Any], stream: Any) -> int:
        for one in last_first(given[: len(given) // 2]):
            one(stream)
        return 1

    monkeypatch.setattr(cuda.Steps, "_launch", launch)
    found = results(case)

    assert_bit_equal(found, expected)
    assert any(moved)
