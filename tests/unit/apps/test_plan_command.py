"""``numbawave plan``: what an inversion's largest call would take, by that call's own ledger, and no work."""

import json

import pytest

from numbawave.apps import batch_plan, cli, fwi, problem
from numbawave.apps.job_file import read_job
from numbawave.torch_bridge.plan import Memory


def words_of(options, tmp_path):
    """The options as a file and the words that plan it."""
    path = tmp_path / "job.toml"
    path.write_text("".join(f"{name} = {json.dumps(value)}\n" for name, value in options.items()))
    return ["plan", str(path)]


@pytest.fixture
def inversion_infos(monkeypatch):
    """The infos of the calls that an inversion makes with a gradient, filled as it runs."""
    infos, propagate = [], problem.scalar

    def noted(**call):
        out = propagate(**call)
        if call["v"].requires_grad:
            infos.append(out.info)
        return out

    monkeypatch.setattr(problem, "scalar", noted)
    return infos


CHANGES = {
    "plain": {},
    "the last stage takes less": {"stages": [[10.0, 1], [3.0, 1]]},
    "drawn shots": {"optimiser": "sgd", "shots_per_iteration": 1},
    "a place": {"checkpoint_segments": 3, "storage_mode": "disk"},
    "coded": {"history": "interior", "storage_compression": "bf16"},
}


@pytest.mark.parametrize("changes", CHANGES.values(), ids=CHANGES)
def test_peak_is_that_of_the_inversions_largest_call(changes, quick_options, tmp_path, capsys, no_picture, inversion_infos):
    options = quick_options | changes
    assert cli.main(words_of(options, tmp_path)) == 0
    printed = capsys.readouterr().out

    fwi.run(read_job(None, options), progress=False)

    def most(info):
        memory = Memory.of(info.ledger, on_device=False)
        return memory.host_bytes + memory.disk_bytes

    largest = max(inversion_infos, key=most)
    memory = Memory.of(largest.ledger, on_device=False)
    assert f"host: {memory.host_bytes / 1e6:.3f} MB at most" in printed
    assert (f"disk: {memory.disk_bytes / 1e6:.3f} MB at most" in printed) == bool(memory.disk_bytes)
    assert str(largest.ledger) in printed
    assert list(batch_plan.plan_batch(read_job(None, options)).plan.memory.buffers) == list(largest.ledger)


def test_stage_is_the_one_whose_gradient_is_sampled_most_often(quick_options, tmp_path, capsys):
    words = words_of(quick_options, tmp_path)
    assert cli.main([*words, "--stages", "4:1,10:1,5:1"]) == 0
    assert capsys.readouterr().out.startswith("a batch of 2 shots with its gradient, stage 2 below 10 Hz\n")


def test_options_win_over_the_file(quick_options, tmp_path, capsys):
    words = words_of(quick_options, tmp_path)
    assert cli.main([*words, "--batch-shots", "1", "--storage-mode", "disk"]) == 0
    printed = capsys.readouterr().out
    assert "a batch of 1 shot with" in printed
    assert "storage_mode='disk'" in printed


def test_nothing_is_propagated_or_made(quick_options, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(problem, "scalar", None)
    words = words_of(quick_options | {"storage_mode": "disk"}, tmp_path)
    assert cli.main(words) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["job.toml"]


@pytest.mark.parametrize(
    ("changes", "named"),
    [({"batch_shot": 2}, "did you mean batch_shots?"), ({"history": "some"}, "history = some"), ({"vmin": 2e3}, "vmin")],
)
def test_mistakes_are_one_line_and_status_2(changes, named, quick_options, tmp_path, capsys):
    assert cli.main(words_of(quick_options | changes, tmp_path)) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("numbawave: ")
    assert captured.err.count("\n") == 1
    assert named in captured.err
