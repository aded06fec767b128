"""The loop around the backends: chunks, reports, and cells of no speed."""

from dataclasses import replace

import numpy as np
import pytest

from tests.contract.experiment import UPDATES, Case, Experiment, marked
from tests.unit.torch_bridge.small import BACKENDS

ON_EITHER = marked(Case(equation, 2, backend=backend) for equation in UPDATES for backend in ("cuda", "reference"))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("stride", [1, 2])
def test_chunks_change_no_bit(backend: str, stride: int, monkeypatch: pytest.MonkeyPatch) -> None:
    case = Case("scalar", 2, backend=backend, stride=stride)
    whole, pieces = Experiment(case), Experiment(case)
    expected = [*whole.forward(keep=True), *whole.adjoint()]

    monkeypatch.setattr(pieces.run.backend, "chunk", 4 * pieces.run.grid.cells * pieces.run.shots)
    found = [*pieces.forward(keep=True), *pieces.adjoint()]

    for one, other in zip(found, expected, strict=True):
        for name in other:
            assert np.array_equal(one[name], other[name]), name


def test_every_step_is_reported_once(monkeypatch: pytest.MonkeyPatch) -> None:
    experiment = Experiment(Case("scalar", 1))
    reported: list[int] = []
    experiment.run.report = reported.append
    monkeypatch.setattr(experiment.run.backend, "chunk", 2 * experiment.run.grid.cells * experiment.run.shots)

    experiment.forward()

    assert reported == [2, 2, 2, 1]


@pytest.mark.parametrize("case", ON_EITHER)
def test_cells_without_speed_have_a_finite_gradient(case: Case) -> None:
    """Where a scaled adjoint is divided by the parameter, zero over zero is zero."""
    experiment = Experiment(case)
    for grid in experiment.parameters.values():
        inner = grid[experiment.run.grid.interior]
        inner[1, 1] = 0.0
    experiment.forward(keep=True)
    for arrays in experiment.adjoint():
        for name, value in arrays.items():
            assert np.isfinite(value).all(), name


@pytest.mark.parametrize("case", ON_EITHER)
def test_nothing_enters_halo_and_dead_cells(case: Case) -> None:
    experiment = Experiment(case)
    _, final = experiment.forward()
    for name, field, _ in experiment.run.setup.state_names:
        if field.slab is None:
            assert np.array_equal(experiment.inside(final[name]), final[name]), name


@pytest.mark.parametrize("case", ON_EITHER)
def test_the_initial_state_is_not_changed(case: Case) -> None:
    experiment = Experiment(case)
    before = {name: value.copy() for name, value in experiment.initial.items()}
    experiment.forward()
    for name, value in before.items():
        assert np.array_equal(experiment.initial[name], value)


@pytest.mark.parametrize("case", ON_EITHER)
def test_history_is_one_slot_a_kept_step(case: Case) -> None:
    experiment = Experiment(replace(case, stride=3))
    experiment.forward(keep=True)
    run = experiment.run
    assert tuple(experiment.history.shape) == (3, run.setup.channels, 2, *run.box.shape)
