"""Which launches wait for which, found without a GPU."""

from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest

from numbawave.backends import simulated

pytest.importorskip("cuda.bindings.driver", reason="needs the extra numbawave[cuda13]", exc_type=ImportError)
pytest.importorskip("numba_cuda", reason="needs the extra numbawave[cuda13]", exc_type=ImportError)
pytestmark = pytest.mark.skipif(simulated(), reason="needs no simulator")


def launch(reads: set[int], writes: set[int], group: tuple[int, int]) -> object:
    from numbawave.backends.cuda_launch import Launch
    from numbawave.backends.cuda_tiles import Shape

    parts = [frozenset((address, None) for address in some) for some in (reads, writes)]
    return Launch(None, Shape((1, 1, 1), (1, 1), {}), (), {}, *parts, group)


@pytest.mark.parametrize(
    ("one", "other", "waits"),
    [
        (({1}, {2}), ({2}, {3}), True),  # the second reads what the first wrote
        (({1}, {2}), ({3}, {1}), True),  # the second overwrites what the first read
        (({1}, {2}), ({3}, {2}), True),  # both write
        (({1}, {2}), ({1}, {3}), False),  # both read
        (({1}, {2}), ({3}, {4}), False),
        ((set(), {2}), (set(), {2}), True),
    ],
)
def test_a_launch_waits_for_what_it_reads_and_overwrites(one: tuple, other: tuple, waits: bool) -> None:
    assert launch(*other, (0, 1)).after(launch(*one, (0, 0))) is waits


def test_launches_of_one_group_do_not_wait() -> None:
    first, second = launch({1}, {2}, (0, 3)), launch({1}, {2}, (0, 3))
    assert not second.after(first)
    assert launch({1}, {2}, (1, 3)).after(first)


def test_what_comes_before_anyway_is_not_waited_for() -> None:
    from numbawave.backends.cuda_graph import waits

    chain = [launch({k}, {k + 1}, (0, k)) for k in range(4)]
    assert waits(chain) == [[], [0], [1], [2]]

    diamond = [launch({0}, {1}, (0, 0)), launch({1}, {2}, (0, 1)), launch({1}, {3}, (0, 2)), launch({1, 2, 3}, {4}, (0, 3))]
    assert waits(diamond) == [[], [0], [0], [2, 1]]


def test_a_mark_tells_steps_apart() -> None:
    from numbawave.backends.cuda import address
    from numbawave.backends.cuda_steps import Steps
    from numbawave.backends.cuda_tiles import Shape

    def mark(array: np.ndarray, number: int = 3, blocks: int = 1, low: int = 4, module: str = "one", at: str = "") -> tuple:
        steps = SimpleNamespace(
            module=SimpleNamespace(__name__=module),
            shapes={"all": Shape((blocks, 1, 1), (32, 1), {"x_low": np.uint32(low)})},
            names={"wavefield": array},
            home={"wavefield": address(array)},
            values={"nx": np.uint64(number)},
            wanted=["nx", "wavefield", "x_low"],
            covers={"points": frozenset([frozenset(at)])},
        )
        return Steps.mark.func(steps)

    array = np.zeros(8)
    different = [array, array[1:], array[:7], np.zeros(8)]
    marks = [
        *map(mark, different),
        mark(array, number=4),
        mark(array, blocks=2),
        mark(array, low=5),
        mark(array, module="another"),
        mark(array, at="x"),  # sources that lie elsewhere have other launches wait for them
    ]
    assert mark(array) == marks[0]
    assert len(set(marks)) == len(marks)


def closure(edges: list[set[int]]) -> list[set[int]]:
    """Everything that comes before each."""
    before: list[set[int]] = []
    for direct in edges:
        before.append(direct.union(*(before[k] for k in direct)))
    return before


def test_regions_wait_for_those_beside_them_alone() -> None:
    from numbawave.backends.cuda_graph import waits
    from numbawave.backends.cuda_launch import Launch, neighbours, touched
    from numbawave.backends.cuda_tiles import Shape

    cases = [frozenset(name) for name in ("", "z", "x", "zx")]

    def step(number: int, now: str, later: str) -> list[Launch]:
        found = []
        for case in cases:
            reads, writes = touched({"u": 1, "w": 2}, [later], [case], neighbours(cases, [case], corner=1))
            found.append(Launch(None, Shape((1, 1, 1), (1, 1), {}), (), {}, reads, writes, (number, 0)))
        return found

    found = waits([*step(0, "u", "w"), *step(1, "w", "u")])

    inside, z, x, zx = range(4)
    assert [set(edges) for edges in found[4:]] == [{inside, z, x}, {inside, z, zx}, {inside, x, zx}, {z, x, zx}]


def test_points_are_in_the_cases_of_their_cells() -> None:
    from numbawave.backends.cuda_launch import cases_at
    from tests.contract.experiment import Case, Experiment

    run = Experiment(Case("scalar", 2, shape=(2, 21, 35), shots=2)).run
    z, x = run.grid.axes
    inside = (z.slab(4)[0] + 1) * x.size + x.slab(4)[0] + 1
    program = run.setup.forward

    def found(*cells: int) -> set[frozenset[str]]:
        return set(cases_at(run, program, np.array(cells, np.int64)))

    assert found() == set()
    assert found(inside) == found(inside + run.grid.cells) == {frozenset()}
    assert found(inside, z.first * x.size + inside % x.size) == {frozenset(), frozenset("z")}
    assert found(z.first * x.size + x.first, run.grid.cells + inside // x.size * x.size + x.stop - 1) == {
        frozenset("zx"),
        frozenset("x"),
    }


def test_where_corners_are_read_all_wait_for_all() -> None:
    from numbawave.backends.cuda_launch import neighbours

    cases = [frozenset(name) for name in ("", "z", "x", "zx")]
    assert neighbours(cases, cases[:1], corner=1) == cases[:3]
    assert neighbours(cases, cases[:1], corner=2) == cases
    assert neighbours(cases, cases, corner=1) == cases


@pytest.mark.parametrize("seed", range(20))
def test_the_nearest_stand_for_all_and_none_is_idle(seed: int) -> None:
    from numbawave.backends.cuda_graph import waits

    rng = np.random.default_rng(seed)
    launches = [
        launch(set(rng.integers(0, 8, 2)), set(rng.integers(0, 8, 1)), (k // 6, int(rng.integers(0, 5)))) for k in range(14)
    ]
    every = [{k for k in range(n) if launches[n].after(launches[k])} for n in range(14)]

    found = waits(launches)

    assert closure([set(edges) for edges in found]) == closure(every)
    for edges in found:
        assert all(a > b for a, b in pairwise(edges))
        before = closure([set(e) for e in found])
        assert not any(a in before[b] for a in edges for b in edges)
