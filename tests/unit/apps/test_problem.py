"""What a job names is loaded, fitted together, and refused before work when it does not fit."""

import numpy as np
import pytest
import torch

from numbawave.apps.acquisition import spread
from numbawave.apps.job_file import read_job
from numbawave.apps.problem import load_problem
from numbawave.apps.report import illuminated
from numbawave.apps.time_axis import COURANT
from numbawave.errors import InvalidValueError


def test_automatic_step_is_just_below_the_limit(quick_options):
    problem = load_problem(read_job(None, quick_options))
    courant = problem.dt * problem.job.vmax * (2 / 25.0**2) ** 0.5
    assert 0.99 * COURANT < courant <= COURANT


def test_start_is_the_blurred_model_with_the_same_water(quick_options):
    problem = load_problem(read_job(None, quick_options))
    assert torch.equal(problem.start[problem.water], problem.true[problem.water])
    assert problem.start[~problem.water].std() < problem.true[~problem.water].std()


def test_water_can_be_given_in_cells(quick_options):
    problem = load_problem(read_job(None, {**quick_options, "water": 5}))
    assert problem.water[:5].all()
    assert not problem.water[5:].any()


def test_three_dimensions_spread_over_both_horizontal_axes(quick_options):
    job = read_job(None, {**quick_options, "shape": "16,12,14", "shots": "2,3", "receivers": "4,5"})
    problem = load_problem(job)
    assert problem.shots.shape == (6, 3)
    assert problem.receivers.shape == (20, 3)
    assert len(problem.spacing) == 3


def test_points_stand_inside_and_apart():
    points = spread("shots", (6, 7), (20, 30, 40), 2)
    assert len({tuple(point) for point in points.tolist()}) == 42
    assert points[:, 1].min() == 1
    assert points[:, 1].max() == 28
    assert points[:, 2].max() == 38


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"shots": "31"}, "room for 30"),
        ({"shots": "2,2"}, "1 horizontal axes"),
        ({"shot_depth": 24}, "cells, not metres"),
        ({"receiver_depth": 500}, "cells, not metres"),
        ({"grid_spacing": "25,25,25"}, "2 axes"),
        ({"vmax": "3000"}, "widen vmin and vmax"),
        ({"water": 24}, "every cell"),
    ],
)
def test_what_does_not_fit_is_refused(quick_options, changes, named):
    with pytest.raises(InvalidValueError, match=named):
        load_problem(read_job(None, {**quick_options, **changes}))


def test_files_that_do_not_fit_are_refused(quick_options, tmp_path):
    path = str(tmp_path / "array.npy")
    np.save(path, np.full((20, 20), 2000.0))
    for key, named in (
        ("start", "the model has"),
        ("observed", "shots, receivers and nt"),
        ("wavelet", r"is \[time\]"),
    ):
        with pytest.raises(InvalidValueError, match=named):
            load_problem(read_job(None, {**quick_options, "shape": "", key: path}))


def test_error_is_measured_below_the_water_and_away_from_the_edges():
    water = torch.zeros(20, 30, dtype=torch.bool)
    water[:4] = True
    expected = torch.zeros_like(water)
    expected[4:18, 3:27] = True
    assert torch.equal(illuminated(water), expected)
