"""The command line: the demo runs, resumes and restarts; mistakes are one line and status 2."""

import subprocess
import sys

import pytest

from numbawave.apps import cli, fwi


def test_quick_demo_runs_and_then_finds_its_work_done(tmp_path, capsys):
    words = ["demo", "--quick", "--no-progress", "--output", str(tmp_path)]
    assert cli.main(words) == 0
    first = capsys.readouterr().out
    assert cli.main(words) == 0
    second = capsys.readouterr().out
    assert "model error" in first
    assert "4 of 4 iterations done" in second
    assert first.splitlines()[-8:] == second.splitlines()[-8:]
    assert cli.main([*words, "--restart"]) == 0
    assert "going on" not in capsys.readouterr().out


def test_fwi_reads_a_file_and_options(tmp_path, capsys):
    (tmp_path / "job.toml").write_text("shape = [24, 32]\nshots = 2\nnt = 120\npml_width = 6\nstages = [[8.0, 5]]\n")
    words = [
        "fwi",
        str(tmp_path / "job.toml"),
        "--stages",
        "10:1",
        "--output",
        str(tmp_path / "out"),
        "--no-progress",
    ]
    assert cli.main(words) == 0
    assert "stage 1, 10 Hz" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["fwi", "--shots", "0"], "shots = (0,)"),
        (["fwi", "--model", "nowhere.npy", "--shape", "24,32"], "nowhere.npy"),
        (["fwi", "nowhere.toml"], "nowhere.toml"),
        (["fwi", "--misfit", "l3"], "misfit = l3"),
    ],
)
def test_mistakes_are_one_line_and_status_2(words, named, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert cli.main(words) == 2
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1
    assert captured.err.startswith("numbawave: ")
    assert named in captured.err
    assert "Remedy:" in captured.err
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_says_where_the_checkpoint_is_and_how_to_go_on(tmp_path, capsys, monkeypatch):
    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(fwi, "run", interrupted)
    assert cli.main(["demo", "--quick", "--output", str(tmp_path)]) == 130
    assert "nothing is kept" in capsys.readouterr().err
    (tmp_path / fwi.CHECKPOINT).write_bytes(b"")
    assert cli.main(["demo", "--quick", "--output", str(tmp_path)]) == 130
    message = capsys.readouterr().err
    assert str(tmp_path / fwi.CHECKPOINT) in message
    assert "same command again" in message


def test_version_and_help_exit_with_0(capsys):
    for words in (["--version"], ["--help"], ["fwi", "--help"]):
        with pytest.raises(SystemExit) as ended:
            cli.main(words)
        assert ended.value.code == 0
    assert "--learning-rate" in capsys.readouterr().out


def test_help_loads_neither_torch_nor_matplotlib():
    code = (
        "import sys, contextlib, io\nfrom numbawave.apps.cli import main\n"
        "with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):\n"
        "    main(['fwi', '--help'])\n"
        "print([name for name in ('torch', 'matplotlib', 'numba') if name in sys.modules])"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == "[]"
