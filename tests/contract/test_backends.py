"""Every backend computes what the oracle does."""

from dataclasses import replace

import numpy as np
import pytest

from numbawave.backends import BACKENDS
from tests import tolerance
from tests.contract.experiment import COMPILED, CUDA, PLAIN_CUDA, UPDATES, Arrays, Case, Experiment, marked

OTHERS = sorted(set(BACKENDS) - {"reference"})


def test_cases_cover_every_backend() -> None:
    assert {case.backend for case in COMPILED} == set(OTHERS)


def test_cases_cover_the_gpu() -> None:
    """What changes a kernel's text or its table of tiles: each of these is met on the GPU."""
    assert {case.equation for case in CUDA} == set(UPDATES)
    assert {case.ndim for case in CUDA} == {1, 2, 3}
    for name, values in (
        ("accuracy", {2, 4, 6, 8}),
        ("dtype", {"float32", "float64"}),
        ("batched", {False, True}),
        ("together", {False, True}),
        ("stride", {1, 2, 3}),
    ):
        assert {getattr(case, name) for case in CUDA} == values, name
    assert len({case.shots for case in CUDA}) > 2


@pytest.mark.gpu
@pytest.mark.parametrize("equation", UPDATES)
def test_cases_meet_one_kernel_and_a_kernel_for_each_region(equation: str) -> None:
    from numbawave.backends import cuda_steps

    runs = [Experiment(case).run for case in CUDA if case.equation == equation]
    assert {run.grid.cells * run.shots >= cuda_steps.SPLIT_CELLS for run in runs} == {False, True}


def assert_close(found: Arrays, expected: Arrays, case: Case) -> None:
    assert found.keys() == expected.keys()
    for name in found:
        assert tolerance.apart(found[name], expected[name]) <= tolerance.steps(case.dtype, case.steps), name


def oracle(experiment: Experiment) -> Experiment:
    """The same experiment on the oracle, in float64."""
    case = replace(experiment.case, backend="reference", dtype="float64", align=experiment.run.backend.align)
    other = Experiment(case, experiment.tangent)
    for name in ("parameters", "amplitudes", "initial"):
        setattr(other, name, {n: value.astype("f8") for n, value in getattr(experiment, name).items()})
    residuals, final = experiment.cotangents
    other.cotangents = (
        {n: v.astype("f8") for n, v in residuals.items()},
        {n: v.astype("f8") for n, v in final.items()},
    )
    return other


def assert_oracles(experiment: Experiment) -> None:
    expected = oracle(experiment)

    results = [*experiment.forward(keep=True), *experiment.adjoint()]

    expected_results = [*expected.forward(keep=True), *expected.adjoint()]
    for found, wanted in zip(results, expected_results, strict=True):
        assert_close(found, wanted, experiment.case)


@pytest.mark.parametrize("case", marked(COMPILED))
def test_records_state_and_gradients_equal_the_oracle(case: Case) -> None:
    assert_oracles(Experiment(case))


@pytest.mark.gpu
@pytest.mark.parametrize("cells", [0, 10**9], ids=["regions", "whole"])
@pytest.mark.parametrize("case", marked(case for case in PLAIN_CUDA if case.ndim > 1))
def test_both_forms_of_a_grids_kernels_equal_the_oracle(case: Case, cells: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("numbawave.backends.cuda_steps.SPLIT_CELLS", cells)
    assert_oracles(Experiment(replace(case, shots=2 if case.ndim == 2 else 1, steps=4)))


@pytest.mark.gpu
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("case", marked(case for case in PLAIN_CUDA if case.ndim < 3))
def test_fewer_copies_of_a_gradient_than_shots_equal_the_oracle(
    case: Case, groups: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment = Experiment(replace(case, shots=5, steps=3))
    monkeypatch.setattr("numbawave.backends.cuda_layout.COPIED_CELLS", groups * experiment.run.grid.cells)
    assert_oracles(experiment)


@pytest.mark.gpu
@pytest.mark.parametrize("cells", [0, 10**9], ids=["regions", "whole"])
@pytest.mark.parametrize("case", marked(case for case in PLAIN_CUDA if case.ndim == 1))
def test_more_shots_than_a_launch_takes_equal_the_oracle(case: Case, cells: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("numbawave.backends.cuda_steps.SPLIT_CELLS", cells)
    monkeypatch.setattr("numbawave.backends.cuda_tiles.LARGEST", 2)
    assert_oracles(Experiment(replace(case, shots=5, steps=3)))


@pytest.mark.parametrize("case", marked(c for c in COMPILED if c.ndim == 2 and c.accuracy == 4))
def test_keeping_history_changes_no_result(case: Case) -> None:
    experiment = Experiment(case)

    plain, kept = experiment.forward(keep=False), experiment.forward(keep=True)

    for one, other in zip(plain, kept, strict=True):
        assert all(np.array_equal(one[name], other[name]) for name in one)


TANGENTS = [
    *(Case(equation, 2, backend="cpu") for equation in UPDATES),
    *(case for case in PLAIN_CUDA if case.ndim < 3),
]


@pytest.mark.parametrize("case", marked(TANGENTS))
def test_tangent_equals_the_oracle(case: Case) -> None:
    experiment = Experiment(case, tangent=True)
    results, expected = experiment.forward(), oracle(experiment).forward()

    for found, wanted in zip(results, expected, strict=True):
        assert_close(found, wanted, case)
        assert all(np.isfinite(value).all() for value in found.values())
