"""Gradients against derivatives that come by another way: the linearised program, and small changes."""

import numpy as np
import pytest

from tests import tolerance
from tests.contract.experiment import BROAD, CPU, EDGES, PLAIN_CUDA, Case, Experiment, inner, marked


def expand(experiment: Experiment, state: dict) -> dict:
    fields = {name: field for name, field, _ in experiment.run.setup.state_names}
    return {name: experiment.expand(fields[name], value) for name, value in state.items()}


@pytest.mark.parametrize("case", marked([*BROAD, *EDGES, *(c for c in PLAIN_CUDA if c.ndim < 3)]))
def test_gradient_is_the_transposed_jacobian(case: Case) -> None:
    """<J(dc, ds, du), y> = <dc, dL/dc> + <ds, dL/ds> + <du, dL/du> with J from the linearised program."""
    plain, tangent = Experiment(case), Experiment(case, tangent=True)
    assert tangent.run.grid.shape == plain.run.grid.shape
    plain.parameters = {n: tangent.parameters[n] for n in plain.parameters}
    plain.amplitudes = {n: tangent.amplitudes[n] for n in plain.amplitudes}
    start = expand(tangent, tangent.initial)
    fields = {name: field for name, field, _ in plain.run.setup.state_names}
    plain.initial = {name: plain.compact(fields[name], start[name]) for name in fields}

    records, final = tangent.forward()
    plain.forward(keep=True)
    gradients = plain.adjoint()

    residuals, final_cotangent = plain.cotangents
    changed = {name: records[f"d_{name}"] for name in residuals}
    arrived = expand(tangent, final)
    arrived = {name: arrived[f"d_{name}"] for name in final_cotangent}
    change, scale = inner((changed, residuals), (arrived, expand(plain, final_cotangent)))
    given = ({n[2:]: v for n, v in named.items() if n.startswith("d_")}
             for named in (tangent.parameters, tangent.amplitudes, start))  # fmt: skip
    found = (gradients[0], gradients[1], expand(plain, gradients[2]))
    back, scale_back = inner(*zip(found, given, strict=True))
    assert abs(change - back) <= tolerance.steps(case.dtype, case.steps) * max(scale, scale_back)


def assert_second_order(experiment: Experiment) -> None:
    residuals, final = experiment.cotangents
    direction = {n: c * experiment.random(*c.shape, seed=9) for n, c in experiment.parameters.items()}

    def objective(size: float) -> float:
        parameters = {n: c + size * direction[n] for n, c in experiment.parameters.items()}
        return inner(*zip(experiment.forward(False, parameters), (residuals, final), strict=True))[0]

    experiment.forward(keep=True)
    slope, _ = inner((experiment.adjoint()[0], direction))
    sizes = np.array([1e-2, 1e-3])
    remainders = [abs(objective(e) - objective(0.0) - e * slope) for e in sizes]
    order = np.log10(remainders[0] / remainders[1])
    # The third-order term shifts the slope by about the size of the change, relative to the second.
    assert order == pytest.approx(2.0, abs=0.1)


@pytest.mark.parametrize("case", marked([*(c for c in BROAD if c.accuracy == 4), *CPU[:3], *PLAIN_CUDA]))
def test_remainder_of_the_gradient_falls_with_the_square_of_the_change(case: Case) -> None:
    assert_second_order(Experiment(case))


@pytest.mark.parametrize(
    "case", marked([c for c in BROAD if c.accuracy == 4 and c.ndim < 3] + [c for c in PLAIN_CUDA if c.ndim == 2])
)
def test_remainder_of_the_tangents_gradient_falls_with_the_square_of_the_change(case: Case) -> None:
    """Second-order products: the gradient of a linearised run, with respect to the model and to its change."""
    assert_second_order(Experiment(case, tangent=True))
