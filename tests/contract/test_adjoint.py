"""The adjoint is the transpose: <forward(x), y> = <x, adjoint(y)>, sources, initial state and memory included."""

from dataclasses import replace

import pytest

from tests import tolerance
from tests.contract.experiment import BROAD, COMPILED, EDGES, PLAIN_CUDA, Case, Experiment, inner, marked


def assert_transposed(experiment: Experiment, image: bool) -> None:
    records, final = experiment.forward(keep=image)
    _, traces, initial = experiment.adjoint(image=image)

    out, scale = inner(*zip((records, final), experiment.cotangents, strict=True))
    into, _ = inner((traces, experiment.amplitudes), (initial, experiment.initial))
    assert abs(out - into) <= tolerance.steps(experiment.case.dtype, experiment.case.steps) * scale


ALIGNED = [replace(case, align=32) for case in EDGES]
"""Rows as a GPU has them: lead cells before the halo, and dead cells behind it."""


@pytest.mark.parametrize("case", [*BROAD, *EDGES, *ALIGNED], ids=str)
def test_adjoint_is_the_transpose(case: Case) -> None:
    assert_transposed(Experiment(case), image=False)


@pytest.mark.parametrize("case", marked(COMPILED))
def test_compiled_adjoint_is_the_transpose(case: Case) -> None:
    assert_transposed(Experiment(case), image=True)


@pytest.mark.parametrize(
    "case", marked([c for c in BROAD if c.accuracy in (2, 8)] + EDGES + [c for c in PLAIN_CUDA if c.ndim < 3])
)
def test_adjoint_of_the_tangent_is_its_transpose(case: Case) -> None:
    assert_transposed(Experiment(case, tangent=True), image=False)
