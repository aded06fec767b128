"""A job is read alike from a file and from options, and every mistake is named with its remedy."""

import dataclasses

import pytest

from numbawave.apps.job import DEMO, QUICK, Job
from numbawave.apps.job_file import RULES, read_job
from numbawave.errors import InvalidTypeError, InvalidValueError, StorageError


def test_file_and_options_say_the_same(tmp_path):
    path = tmp_path / "job.toml"
    path.write_text('misfit = "l1"\nshots = 5\nshape = [30, 40]\nstages = [[3.0, 4], [6, 2]]\nvmax = 5000\n')
    options = {"misfit": "l1", "shots": "5", "shape": "30,40", "stages": "3:4,6:2", "vmax": "5000"}
    assert read_job(str(path)) == read_job(None, options)


def test_an_option_wins_over_the_file(tmp_path):
    path = tmp_path / "job.toml"
    path.write_text("shots = 5\nseed = 3\n")
    job = read_job(str(path), {"shots": "6"})
    assert (job.shots, job.seed) == ((6,), 3)


def test_defaults_demo_and_quick_are_sound_jobs():
    assert read_job() == Job()
    assert read_job(None, {**DEMO, **QUICK}).shape == (24, 32)


@pytest.mark.parametrize(
    ("key", "value", "named"),
    [
        ("misfti", "l2", "did you mean misfit?"),
        ("shots", "many", "whole number"),
        ("shots", True, "whole number"),
        ("dt", "nan", "finite"),
        ("dt", [1], "must be a number"),
        ("misfit", 3, "must be text"),
        ("stages", "3", "corner frequency in Hz"),
        ("stages", "3:0", "iterations"),
        ("grid_spacing", "-25", "positive"),
        ("shape", "4,4", "8 cells or more"),
        ("misfit", "l3", "one of envelope"),
        ("optimiser", "newton", "one of adam"),
        ("accuracy", "5", "2, 4, 6 or 8"),
        ("dtype", "float16", "float32 or float64"),
        ("vmin", "6000", "below vmax"),
        ("shots_per_iteration", "99", "there are 14 shots"),
        ("shots_per_iteration", "3", "all shots"),
        ("model", "none", "without a true model"),
        ("checkpoint_segments", "few", "whole number"),
        ("checkpoint_segments", -1, "0 for one"),
        ("checkpoint_states", -1, "0 for all"),
        ("history", "half", "one of full, interior"),
        ("storage_mode", "tape", "one of device, cpu, disk"),
        ("memory", "4 bottles", "auto, or bytes with a unit"),
        ("storage_compression", "gzip", "one of none, lossy"),
    ],
)
def test_a_wrong_value_names_key_value_rule_and_remedy(key, value, named):
    with pytest.raises((InvalidValueError, InvalidTypeError)) as caught:
        read_job(None, {key: value})
    message = str(caught.value)
    assert message.startswith(f"{key} = ")
    assert named in message
    assert "Remedy: " in message


def test_every_rule_is_about_a_key_and_accepts_its_default():
    fields = {field.name for field in dataclasses.fields(Job)}
    for name, holds, _, _ in RULES:
        assert name in fields
        assert holds(getattr(Job(), name))


def test_a_missing_or_broken_file_is_named(tmp_path):
    with pytest.raises(StorageError, match="cannot be read"):
        read_job(str(tmp_path / "none.toml"))
    (tmp_path / "bad.toml").write_text("shots = = 3")
    with pytest.raises(InvalidValueError, match="is not TOML"):
        read_job(str(tmp_path / "bad.toml"))
