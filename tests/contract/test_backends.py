"""Every backend computes what the oracle does."""

import numpy as np
import pytest

from numbawave.backends import BACKENDS
from tests import tolerance
from tests.contract.experiment import COMPILED, Case, Experiment

OTHERS = sorted(set(BACKENDS) - {"reference"})


def test_cases_cover_every_backend() -> None:
    assert {case.backend for case in COMPILED} == set(OTHERS)


def assert_close(found: dict, expected: dict, case: Case) -> None:
    assert found.keys() == expected.keys()
    for name in found:
        assert tolerance.apart(found[name], expected[name]) <= tolerance.steps(case.dtype, case.steps), name


def oracle(experiment: Experiment) -> Experiment:
    """The same experiment on the oracle, in float64."""
    case = Case(**{**vars(experiment.case), "backend": "reference", "dtype": "float64", "align": experiment.run.backend.align})
    other = Experiment(case)
    for name in ("parameters", "amplitudes", "initial"):
        setattr(other, name, {n: value.astype("f8") for n, value in getattr(experiment, name).items()})
    residuals, final = experiment.cotangents
    other.cotangents = (
        {n: v.astype("f8") for n, v in residuals.items()},
        {n: v.astype("f8") for n, v in final.items()},
    )
    return other


@pytest.mark.parametrize("case", COMPILED, ids=str)
def test_records_state_and_gradients_equal_the_oracle(case: Case) -> None:
    experiment = Experiment(case)
    expected = oracle(experiment)

    results = [*experiment.forward(keep=True), *experiment.adjoint()]

    expected_results = [*expected.forward(keep=True), *expected.adjoint()]
    for found, wanted in zip(results, expected_results, strict=True):
        assert_close(found, wanted, case)


@pytest.mark.parametrize("case", [c for c in COMPILED if c.ndim == 2 and c.accuracy == 4], ids=str)
def test_keeping_history_changes_no_result(case: Case) -> None:
    experiment = Experiment(case)

    plain, kept = experiment.forward(keep=False), experiment.forward(keep=True)

    for one, other in zip(plain, kept, strict=True):
        assert all(np.array_equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("stride", [2, 3])
def test_history_of_some_steps_gives_the_oracles_gradient(stride: int) -> None:
    case = Case("scalar", 2, backend="cpu", stride=stride)
    experiment = Experiment(case)
    expected = oracle(experiment)
    for one in (experiment, expected):
        one.forward(keep=True)

    found, wanted = experiment.adjoint(), expected.adjoint()

    for one, other in zip(found, wanted, strict=True):
        assert_close(one, other, case)


@pytest.mark.parametrize("case", [Case(name, 2, backend="cpu") for name in sorted({c.equation for c in COMPILED})], ids=str)
def test_tangent_equals_the_oracle(case: Case) -> None:
    experiment = Experiment(case, tangent=True)
    records, final = experiment.forward()
    expected = Experiment(Case(**{**vars(case), "backend": "reference"}), tangent=True).forward()

    for found, wanted in zip((records, final), expected, strict=True):
        assert_close(found, wanted, case)
        assert all(np.isfinite(value).all() for value in found.values())
