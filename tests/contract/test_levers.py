"""Each lever alone and all together: what is kept elsewhere, made again or left out changes no bit of what remains."""

from dataclasses import replace

import numpy as np
import pytest

from numbawave.engine.reversal import core
from numbawave.history import media, parts, shelf
from numbawave.history.codecs.compression import Compression
from numbawave.history.storage import Storage
from tests.contract.experiment import EQUATIONS_ON, UPDATES, Case, Experiment, marked

WAYS = [(8, 3, 1, "full"), (9, 4, 2, "interior"), (7, 7, 1, "interior"), (7, 3, 3, "full")]
SEGMENTS = marked(
    replace(case, steps=steps, segments=segments, stride=stride, region=region)
    for case in EQUATIONS_ON
    for steps, segments, stride, region in (WAYS if case.backend == "reference" else WAYS[case.ndim == 3 : 2])
)


@pytest.mark.parametrize("case", SEGMENTS)
def test_segments_change_no_bit(case: Case) -> None:
    plain, other = Experiment(replace(case, segments=1)), Experiment(case)
    expected = [*plain.forward(keep=True), *plain.adjoint()]
    found = [*other.forward(keep=True), *other.adjoint()]
    assert other.run.slots < plain.run.slots
    again = other.adjoint()
    for one, wanted in zip([*found, *again], [*expected, *expected[2:]], strict=True):
        assert one.keys() == wanted.keys()
        for name in wanted:
            assert np.array_equal(one[name], wanted[name]), name


@pytest.mark.parametrize("case", marked(replace(case, steps=5) for case in EQUATIONS_ON))
def test_the_interior_has_the_same_gradient(case: Case) -> None:
    full, inner = Experiment(case), Experiment(replace(case, region="interior"))
    for experiment in (full, inner):
        experiment.forward(keep=True)
    assert inner.history.size if isinstance(inner.history, np.ndarray) else inner.history.numel()
    expected, found = full.adjoint(), inner.adjoint()
    inside = (..., *inner.run.window.slices)
    for name, value in found[0].items():
        assert np.array_equal(value[inside], expected[0][name][inside]), name
        rest = value.copy()
        rest[inside] = 0
        assert not rest.any(), name
    for one, other in zip(found[1:], expected[1:], strict=True):
        for name in other:
            assert np.array_equal(one[name], other[name]), name


PLACES = [
    Storage(mode, compression=compression)
    for mode in ("cpu", "disk")
    for compression in (None, Compression("none"), Compression("none", "zstd"))
]
CODED = [Storage("device", compression=Compression(coding)) for coding in ("bf16", "int8")]
CODED += [Storage(mode, compression=Compression(coding, codec)) for mode, coding, codec in
          (("cpu", "int8", "lz4"), ("disk", "int8", None), ("cpu", "bf16", None), ("disk", "bf16", "lz4"))]  # fmt: skip


def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of a slot and pieces of few values, so that small runs have many."""
    monkeypatch.setattr(parts, "PART_BYTES", 1)
    monkeypatch.setattr(parts, "RING_BYTES", 1)
    monkeypatch.setattr(media, "COPIED_BYTES", 1000)
    monkeypatch.setattr(shelf, "COMPRESSED_BYTES", 1000)


@pytest.mark.parametrize("storage", PLACES, ids=str)
@pytest.mark.parametrize(
    "case",
    marked(
        Case("scalar", 2, backend=backend, shape=shape, steps=steps, segments=segments, stride=stride, dtype="float32")
        for backend, shape, ways in (
            ("cpu", (9, 41), ((9, 1, 1), (11, 3, 1), (13, 2, 3))),
            ("cuda", (5, 7), ((9, 2, 2),)),
        )
        for steps, segments, stride in ways
    ),
)
def test_where_history_is_kept_changes_no_bit(case: Case, storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    small(monkeypatch)
    plain, other = Experiment(replace(case, segments=1)), Experiment(replace(case, storage=storage))
    expected = [*plain.forward(keep=True), *plain.adjoint()]
    found = [*other.forward(keep=True), *other.adjoint(), *other.adjoint()]
    for one, wanted in zip(found, [*expected, *expected[2:]], strict=True):
        for name in wanted:
            assert np.array_equal(one[name], wanted[name]), name


CODINGS = [(Case("scalar", 2, backend="cpu", shape=(9, 41), steps=9), storage) for storage in CODED]
CODINGS += [(Case("scalar", 1, backend="cuda", shape=(9,), steps=5, shots=1), storage) for storage in CODED[1:3]]


@pytest.mark.parametrize(
    ("case", "storage"),
    [pytest.param(c, s, marks=[pytest.mark.gpu] * (c.backend == "cuda"), id=f"{c}-{s}") for c, s in CODINGS],
)
@pytest.mark.parametrize("part", [1, 2**20], ids=["slot", "slots"])
def test_a_coding_has_the_same_error_everywhere(
    case: Case, storage: Storage, part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is lost is lost by the quantiser: neither the place nor blosc2 nor segments change a bit after it."""
    small(monkeypatch)
    monkeypatch.setattr(parts, "PART_BYTES", part)
    assert storage.compression is not None
    exact = Experiment(case)
    bare = Experiment(replace(case, storage=Storage("device", compression=Compression(storage.compression.coding))))
    other = Experiment(replace(case, storage=storage, segments=2))
    gradients = []
    for experiment in (exact, bare, other):
        experiment.forward(keep=True)
        gradients.append(experiment.adjoint()[0])
    for name, value in gradients[0].items():
        assert np.array_equal(gradients[1][name], gradients[2][name])
        error = np.linalg.norm(gradients[1][name] - value) / np.linalg.norm(value)
        assert 0 < error < storage.compression.relative_error(case.dtype) * 10


FRAMES = marked(
    Case(equation, len(shape), backend=backend, shape=shape, undo=True, region="interior", steps=9, **changes)  # type: ignore[arg-type]
    for equation in UPDATES
    for backend, shape, changes in (
        ("reference", (9, 13), {"widths": ((0, 3), (2, 0)), "batched": True, "stride": 3, "segments": 2}),
        ("reference", (9, 13), {"widths": ((0, 0), (0, 0)), "accuracy": 2, "shots": 3}),
        ("reference", (4, 13), {"accuracy": 8, "storage": Storage("cpu")}),
        ("reference", (3, 3, 13), {"batched": True, "stride": 2}),
        ("cpu", (7, 21), {"batched": True, "stride": 2, "segments": 2}),
        ("cuda", (5, 8), {"batched": True, "stride": 2}),
    )
)
"""Models for each shot, faces without layers, none, and cores of no cells; sources lie in the frame around them, too."""


@pytest.mark.parametrize(
    "case",
    marked(
        replace(case, undo=True, region="interior", steps=steps, segments=segments, stride=stride, storage=storage)
        for case in EQUATIONS_ON
        for steps, segments, stride, storage in (
            (9, 1, 1, Storage("disk")),
            (9, 2, 2, Storage()),
            (10, 3, 1, Storage("cpu", compression=Compression("none"))),
        )[: 1 + (case.ndim == 2 or case.backend != "cuda") + (case.backend != "cuda")]
    )
    + FRAMES,
)
def test_steps_undone_give_the_same_gradient(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """In float64 a step and its undoing differ by a few roundings, and a few steps do not make many of these."""
    small(monkeypatch)
    plain, other = Experiment(replace(case, undo=False, segments=1, storage=Storage())), Experiment(case)
    expected = [*plain.forward(keep=True), *plain.adjoint()]
    found = [*other.forward(keep=True), *other.adjoint(), *other.adjoint()]
    for one, wanted in zip(found, [*expected, *expected[2:]], strict=True):
        for name in wanted:
            size = np.abs(wanted[name]).max(initial=0.0)
            assert (
                np.abs(one[name] - wanted[name]).max(initial=0.0) <= 1e3 * case.steps * np.finfo(case.dtype).eps * size
            ), name


@pytest.mark.parametrize("equation", UPDATES)
def test_cells_of_no_speed_may_lie_around_a_core(equation: str) -> None:
    """There the fields do not say what history was, and nothing asks for it."""
    case = Case(equation, 2, shape=(9, 13), undo=True, region="interior")
    plain, other = Experiment(replace(case, undo=False)), Experiment(case)
    for experiment in (plain, other):
        for grid in experiment.parameters.values():
            grid[experiment.run.window.slices][1, 1::2] = 0.0
        experiment.forward(keep=True)
    for one, wanted in zip(other.adjoint(), plain.adjoint(), strict=True):
        for name in wanted:
            size = np.abs(wanted[name]).max(initial=0.0)
            assert np.abs(one[name] - wanted[name]).max(initial=0.0) <= 1e3 * case.steps * np.finfo(case.dtype).eps * size


@pytest.mark.parametrize("coding", ["bf16", "int8", "none"])
def test_only_what_comes_back_bit_by_bit_is_solved_for(coding: str) -> None:
    """History is a small difference of large values: of rounded ones it would be noise, and so it is kept itself."""
    storage = Storage("cpu", compression=Compression(coding, "lz4", tolerance=None if coding != "none" else 1e-4))  # type: ignore[arg-type]
    case = Case("scalar", 2, backend="cpu", shape=(9, 41), steps=9, undo=True, region="interior", storage=storage)
    exact, coded = Experiment(replace(case, storage=Storage())), Experiment(case)
    inside, frame = core(exact.run), exact.run.window.cells - core(exact.run).cells
    assert exact.run.ring_of.size == frame * case.shots
    assert coded.run.ring_of.size == (frame + sum(2 * exact.run.undo.halo * n for n in inside.shape)) * case.shots

    gradients = []
    for experiment in (exact, coded):
        experiment.forward(keep=True)
        gradients.append(experiment.adjoint()[0]["c"])
    error = np.linalg.norm(gradients[1] - gradients[0]) / np.linalg.norm(gradients[0])
    assert storage.compression is not None
    assert 0 < error < storage.compression.relative_error(case.dtype) * 10


def test_what_is_kept_is_counted() -> None:
    """Nothing in the ring but a part, and on the shelf what the codes and their scales take."""
    case = Case("scalar", 2, backend="cpu", shape=(9, 41), steps=9, dtype="float32")
    experiment = Experiment(replace(case, storage=Storage("disk", compression=Compression("int8", None))))
    experiment.forward(keep=True)
    values = case.steps * experiment.run.box.cells * case.shots
    assert experiment.run.tape is not None
    assert experiment.run.tape.store.kept_bytes == values + -(-values // 64) * 4
