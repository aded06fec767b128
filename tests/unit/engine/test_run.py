"""The loop around the backends: chunks, reports, and cells of no speed."""

import numpy as np
import pytest

from tests.contract.experiment import UPDATES, Case, Experiment


@pytest.mark.parametrize("backend", ["cpu", "reference"])
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


@pytest.mark.parametrize("equation", UPDATES)
def test_cells_without_speed_have_a_finite_gradient(equation: str) -> None:
    """Where a scaled adjoint is divided by the parameter, zero over zero is zero."""
    experiment = Experiment(Case(equation, 2))
    for grid in experiment.parameters.values():
        inner = grid[experiment.run.grid.interior]
        inner[1, 1] = 0.0
    experiment.forward(keep=True)
    for arrays in experiment.adjoint():
        for name, value in arrays.items():
            assert np.isfinite(value).all(), name


@pytest.mark.parametrize("equation", UPDATES)
def test_nothing_enters_halo_and_dead_cells(equation: str) -> None:
    experiment = Experiment(Case(equation, 2))
    _, final = experiment.forward()
    for name, field, _ in experiment.run.state_names():
        if field.slab is None:
            assert np.array_equal(experiment.inside(final[name]), final[name]), name


def test_the_initial_state_is_not_changed() -> None:
    experiment = Experiment(Case("scalar", 2))
    before = {name: value.copy() for name, value in experiment.initial.items()}
    experiment.forward()
    for name, value in before.items():
        assert np.array_equal(experiment.initial[name], value)


def test_history_is_one_slot_a_kept_step() -> None:
    experiment = Experiment(Case("scalar", 2, stride=3))
    experiment.forward(keep=True)
    run = experiment.run
    assert run.history.shape == (3, run.setup.channels, 2, run.grid.cells)
