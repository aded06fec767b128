"""The inversion: right gradients, models that stay within their limits, and files that say what was done."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch

from numbawave.apps.batch_plan import plan_batch
from numbawave.apps.descent import Objective, make_band
from numbawave.apps.fwi import run
from numbawave.apps.job_file import read_job
from numbawave.apps.observed_data import observed_records
from numbawave.apps.problem import load_problem
from numbawave.planning.seconds import Seconds
from numbawave.torch_bridge.calibration import Calibration


def _objective(options, tmp_path):
    problem = load_problem(read_job(None, {**options, "dtype": "float64", "vmax": 5000}))
    # every time step counts towards the gradient, so it is the exact one of the discrete waves
    band = dataclasses.replace(make_band(problem, observed_records(problem, tmp_path), 10.0), stride=1)
    return problem, Objective(problem, band, problem.start, torch.arange(len(problem.shots)))


def test_gradient_agrees_with_finite_differences_through_blur_and_mask(quick_options, tmp_path, random):
    problem, objective = _objective({**quick_options, "depth_power": 1}, tmp_path)
    variable = torch.zeros_like(problem.start)
    direction = torch.randn(variable.shape, generator=random, dtype=torch.float64)
    _, gradient = objective(variable)
    step = 1e-3
    difference = objective(variable + step * direction)[0] - objective(variable - step * direction)[0]
    assert difference / (2 * step) == pytest.approx(float((gradient * direction).sum()), rel=1e-5)


def test_batches_of_shots_add_up(quick_options, tmp_path):
    problem, objective = _objective(quick_options, tmp_path)
    loss, gradient = objective(torch.zeros_like(problem.start))
    _, alone = _objective({**quick_options, "batch_shots": 1}, tmp_path)
    other_loss, other_gradient = alone(torch.zeros_like(problem.start))
    assert other_loss == pytest.approx(loss, rel=1e-12)
    assert torch.allclose(other_gradient, gradient, rtol=0, atol=1e-11 * float(gradient.abs().max()))


@pytest.mark.parametrize(
    ("levers", "limit"),
    [
        ({"checkpoint_segments": 4, "checkpoint_states": 2, "storage_mode": "cpu"}, 0.0),
        ({"checkpoint_segments": "auto", "storage_mode": "disk", "storage_compression": "lossless"}, 0.0),
        ({"storage_compression": "bf16"}, 2.0**-8),  # each kept value is off by half its last of 8 bits, at most
    ],
    ids=str,
)
def test_levers_of_memory_leave_the_gradient_as_it_is(quick_options, tmp_path, levers, limit):
    problem, objective = _objective(quick_options, tmp_path)
    _, pulled = _objective({**quick_options, **levers}, tmp_path)
    loss, gradient = objective(torch.zeros_like(problem.start))
    other_loss, other_gradient = pulled(torch.zeros_like(problem.start))
    assert other_loss == loss
    assert (other_gradient - gradient).norm() <= limit * gradient.norm()
    assert torch.equal(other_gradient, gradient) == (limit == 0.0)


def test_levers_chosen_for_a_budget_change_no_bit(quick_options, tmp_path, monkeypatch):
    """Not even shot batches are chosen, by which sums would be rounded otherwise."""
    monkeypatch.setattr(Calibration, "__init__", lambda self, prepared: None)
    monkeypatch.setattr(Calibration, "seconds", lambda self, run, spent: Seconds(1.0, float(run.schedule.repeated)))
    given = {**quick_options, "nt": 1200}
    problem, objective = _objective(given, tmp_path)
    taken = plan_batch(problem.job).plan.memory.host_bytes
    options = {**given, "memory": f"{0.6 * taken / 1e6} MB"}
    chosen = plan_batch(read_job(None, {**options, "dtype": "float64", "vmax": 5000})).plan
    assert chosen.memory.host_bytes <= 0.6 * taken
    assert chosen.levers
    assert set(chosen.levers) <= {"checkpoint_segments", "checkpoint_states", "storage_mode", "storage_path"}
    _, pulled = _objective(options, tmp_path)
    (loss, gradient), (other_loss, other) = (find(torch.zeros_like(problem.start)) for find in (objective, pulled))
    assert other_loss == loss
    assert torch.equal(other, gradient)


def test_filtered_source_and_filtered_data_agree(quick_options, tmp_path):
    problem = load_problem(read_job(None, {**quick_options, "nt": 400, "dtype": "float64"}))
    band = make_band(problem, observed_records(problem, tmp_path), 10.0)
    predicted = problem.record_all(problem.true, band.wavelet) * band.fade
    assert (predicted - band.observed).norm() < 0.01 * band.observed.norm()


@pytest.mark.usefixtures("no_picture")
@pytest.mark.parametrize("optimiser", ["adam", "lbfgs", "sgd"])
def test_misfit_falls_and_the_model_keeps_its_limits(quick_options, optimiser):
    options = {**quick_options, "optimiser": optimiser, "stages": "10:5", "vmin": 1500, "vmax": 4500}
    summary = run(read_job(None, options), progress=False)
    arrays = np.load(Path(summary.folder) / "result.npz")
    water = arrays["water"]
    assert summary.losses[0][-1] < summary.losses[0][0]
    assert summary.data_error[1] < summary.data_error[0]
    assert (arrays["result"][water] == arrays["start"][water]).all()
    assert arrays["result"].min() >= 1500
    assert arrays["result"].max() <= 4500
    assert not np.array_equal(arrays["result"], arrays["start"])


def test_files_and_table_hold_what_was_done(quick_job):
    lines: list[str] = []
    summary = run(quick_job, progress=False, say=lines.append)
    arrays = np.load(Path(summary.folder) / "result.npz")
    assert list(arrays["iterations"]) == [2, 2]
    assert len(arrays["losses"]) == 4
    assert tuple(arrays["model_error"]) == summary.model_error
    assert (Path(summary.folder) / "result.png").read_bytes().startswith(b"\x89PNG")
    assert "model error" in summary.table()
    assert "stage 2, 10 Hz" in summary.table()
    assert any(line.startswith("stage 1 below 6 Hz") for line in lines)


def test_three_dimensions_run_to_the_picture(quick_options):
    changes = {
        "shape": "16,12,14",
        "shots": "1,2",
        "receivers": "4,4",
        "stages": "8:1",
        "pml_width": 4,
        "nt": 120,
    }
    summary = run(read_job(None, {**quick_options, **changes}), progress=False)
    assert np.load(Path(summary.folder) / "result.npz")["result"].shape == (16, 12, 14)


@pytest.mark.usefixtures("no_picture")
def test_field_data_need_no_true_model(quick_options, tmp_path):
    first = load_problem(read_job(None, quick_options))
    np.save(tmp_path / "observed.npy", observed_records(first, tmp_path).numpy())
    np.save(tmp_path / "start.npy", first.start.numpy())
    files = {
        "model": "none",
        "start": str(tmp_path / "start.npy"),
        "observed": str(tmp_path / "observed.npy"),
    }
    summary = run(read_job(None, {**quick_options, **files, "shape": "", "stages": "8:1"}), progress=False)
    assert summary.model_error is None
    assert "model error" not in summary.table()
    assert "true" not in np.load(Path(summary.folder) / "result.npz")


def test_kept_records_are_used_only_when_whole_and_of_this_job(quick_options, tmp_path):
    problem = load_problem(read_job(None, quick_options))
    records = observed_records(problem, tmp_path)
    path = tmp_path / "observed.npz"
    kept = path.read_bytes()
    assert torch.equal(observed_records(problem, tmp_path), records)
    path.write_bytes(kept[: len(kept) // 2])
    assert torch.equal(observed_records(problem, tmp_path), records)
    assert path.read_bytes() == kept
    other = load_problem(read_job(None, {**quick_options, "seed": 5}))
    assert not torch.equal(observed_records(other, tmp_path), records)
