"""Each lever alone and all together: what is kept elsewhere, made again or left out changes no bit of what remains."""

from dataclasses import replace

import numpy as np
import pytest

from tests.contract.experiment import EQUATIONS_ON, Case, Experiment, marked

WAYS = [(8, 3, 1, "full"), (9, 4, 2, "interior"), (7, 7, 1, "interior"), (7, 3, 3, "full")]
SEGMENTS = marked(
    replace(case, steps=steps, segments=segments, stride=stride, region=region)
    for case in EQUATIONS_ON
    for steps, segments, stride, region in (WAYS if case.backend != "cpu" or case.equation == "scalar" else WAYS[:1])
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
