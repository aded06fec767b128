"""A checkpoint is whole or the one before it, belongs to one job, and a killed run goes on bit for bit."""

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from numbawave.apps import atomic_file
from numbawave.apps.checkpoint_file import fresh_state, load_state, save_state
from numbawave.apps.fwi import CHECKPOINT, run
from numbawave.apps.job_file import read_job
from numbawave.apps.problem import load_problem
from numbawave.errors import InvalidValueError, StorageError

pytestmark = pytest.mark.usefixtures("no_picture")


class Killed(BaseException):
    """Stands for a kill: nothing catches it."""


def _results(folder: str) -> tuple[bytes, bytes]:
    return (Path(folder) / "result.npz").read_bytes(), (Path(folder) / "observed.npz").read_bytes()


@pytest.mark.parametrize(
    "method",
    [
        {"optimiser": "adam"},
        {"optimiser": "sgd", "learning_rate": 10},
        {"optimiser": "lbfgs"},
        {"optimiser": "adam", "shots_per_iteration": 2},
    ],
    ids=["adam", "sgd", "lbfgs", "drawn-shots"],
)
def test_a_run_stopped_after_every_iteration_equals_the_unstopped_one(quick_options, tmp_path, method):
    whole = read_job(None, {**quick_options, **method, "output": str(tmp_path / "whole")})
    pieces = read_job(None, {**quick_options, **method, "output": str(tmp_path / "pieces")})

    def stop(state):
        raise Killed

    run(whole, progress=False)
    for _ in range(4):
        with pytest.raises(Killed):
            run(pieces, progress=False, after_iteration=stop)
    run(pieces, progress=False)
    assert _results(pieces.output) == _results(whole.output)


KILLED_RUN = """
import os, signal, sys
from numbawave.apps import atomic_file, fwi, job_file
job = job_file.read_job(sys.argv[1])
writes = []
replace = os.replace
def replace_or_die(source, target):
    writes.append(target)
    if len(writes) == 4:  # the records, two checkpoints, and then a kill in the middle of the third
        os.kill(os.getpid(), signal.SIGKILL)
    replace(source, target)
os.replace = replace_or_die
fwi.run(job, progress=False)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL, which Windows lacks")
def test_a_process_killed_while_it_writes_goes_on_to_the_same_result(quick_options, tmp_path):
    whole = read_job(None, {**quick_options, "output": str(tmp_path / "whole")})
    path = tmp_path / "job.toml"
    killed = {**quick_options, "output": str(tmp_path / "killed")}
    path.write_text("\n".join(f"{key} = {_toml(value)}" for key, value in killed.items()))
    run(whole, progress=False)
    root = str(Path(atomic_file.__file__).parents[2])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])}
    environment |= {"OMP_NUM_THREADS": str(torch.get_num_threads())}
    ended = subprocess.run([sys.executable, "-c", KILLED_RUN, str(path)], env=environment, check=False)
    assert ended.returncode == -signal.SIGKILL
    assert load_state(Path(killed["output"]) / CHECKPOINT, load_problem(read_job(str(path)))).done == 2
    run(read_job(str(path)), progress=False)
    assert _results(killed["output"]) == _results(whole.output)


def _toml(value: object) -> str:
    return f"'{value}'" if isinstance(value, str) else str(value)


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_full_disk_leaves_the_last_checkpoint_whole(quick_job, tmp_path, monkeypatch, call):
    problem, path = load_problem(quick_job), tmp_path / CHECKPOINT
    state = fresh_state(problem)
    save_state(path, problem, state)
    before = path.read_bytes()

    def full(*args):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(atomic_file.os, call, full)
    state.iteration = 1
    with pytest.raises(StorageError, match=r"No space left.*Remedy: free some space"):
        save_state(path, problem, state)
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == [CHECKPOINT]
    assert load_state(path, problem).iteration == 0


def test_a_state_comes_back_as_it_was(quick_job, tmp_path):
    problem = load_problem(quick_job)
    state = fresh_state(problem)
    state.losses, state.scale, state.seconds = [[1.5, 0.25]], 0.1, 3.0
    save_state(tmp_path / "c", problem, state)
    found = load_state(tmp_path / "c", problem)
    assert torch.equal(found.model, state.model)
    assert torch.equal(found.random, state.random)
    assert (found.losses, found.scale, found.seconds, found.done) == ([[1.5, 0.25]], 0.1, 3.0, 2)


@pytest.mark.parametrize("change", [{"learning_rate": 3}, {"seed": 9}, {"stages": "6:2,10:3"}, {"history": "interior"}])
def test_another_jobs_checkpoint_is_refused_by_name(quick_options, tmp_path, change):
    problem = load_problem(read_job(None, quick_options))
    save_state(tmp_path / "c", problem, fresh_state(problem))
    other = load_problem(read_job(None, {**quick_options, **change}))
    with pytest.raises(InvalidValueError, match=rf"another job: {next(iter(change))} was .*--restart"):
        load_state(tmp_path / "c", other)


@pytest.mark.parametrize(
    "change", [{"output": "elsewhere"}, {"checkpoint_segments": 5}, {"storage_mode": "disk"}, {"memory": "4 GB"}]
)
def test_what_decides_no_result_may_change(quick_options, tmp_path, change):
    problem = load_problem(read_job(None, quick_options))
    save_state(tmp_path / "c", problem, fresh_state(problem))
    load_state(tmp_path / "c", load_problem(read_job(None, {**quick_options, **change})))


@pytest.mark.parametrize("damage", [lambda b: b[:-7], lambda b: b[:400] + b"?" + b[401:], lambda b: b"", lambda b: b"x"])
def test_a_damaged_checkpoint_is_refused(quick_job, tmp_path, damage):
    problem, path = load_problem(quick_job), tmp_path / "c"
    save_state(path, problem, fresh_state(problem))
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(StorageError, match="damaged"):
        load_state(path, problem)


def test_an_output_that_is_a_file_is_refused(quick_options, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="cannot be made"):
        run(read_job(None, {**quick_options, "output": str(tmp_path / "file")}))
