import gc
import os
import subprocess
import sys
from pathlib import Path

import pytest

from numbawave.codegen.module_cache import cache_folder, load, one_process

ROOT = Path(__file__).parents[3]
RUN = """
import numpy as np, numbawave
out = numbawave.scalar(np.ones(9), 1.0, 0.1, source_amplitudes=np.ones((1, 1, 4)), source_locations=np.full((1, 1, 1), 4),
                       receiver_locations=np.full((1, 1, 1), 4), pml_width=0, accuracy=2)
print(repr(out.receiver_amplitudes.sum()))
"""


def start(folder: Path) -> subprocess.Popen[str]:
    environment = os.environ | {"NUMBAWAVE_CACHE_DIR": str(folder), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-W", "error", "-c", RUN]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(process: subprocess.Popen[str]) -> str:
    out, error = process.communicate(timeout=120)
    assert process.returncode == 0, error
    return out.strip()


def test_two_processes_that_start_together_agree_and_leave_one_module(tmp_path: Path) -> None:
    folder = tmp_path / "cache"

    together = [start(folder), start(folder)]
    results = {finish(process) for process in together}

    assert len(results) == 1
    assert len(list(folder.glob("nw_scalar_1d_*.py"))) == 1
    assert not list(folder.glob("*.tmp"))


def test_a_cache_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    """A file in the folder's place: permissions do not stop an administrator."""
    blocked = tmp_path / "cache"
    blocked.write_text("in the way")

    result = finish(start(blocked))

    assert float(result.removeprefix("np.float64(").removesuffix(")")) != 0.0
    assert blocked.read_text() == "in the way"


def test_the_environment_chooses_the_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NUMBAWAVE_CACHE_DIR", str(tmp_path / "here"))
    assert cache_folder() == tmp_path / "here"
    assert not cache_folder().exists()
    monkeypatch.delenv("NUMBAWAVE_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path))
    assert cache_folder() == tmp_path / "numbawave"


def test_a_module_is_named_by_its_content(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NUMBAWAVE_CACHE_DIR", str(tmp_path))

    one, same, other = load("test", "a = 1\n"), load("test", "a = 1\n"), load("test", "a = 2\n")

    assert one is same
    assert (one.a, other.a) == (1, 2)
    assert one.__name__ != other.__name__
    assert sys.modules[one.__name__] is one
    assert sorted(path.read_text() for path in tmp_path.glob("*.py")) == ["a = 1\n", "a = 2\n"]


def test_a_module_compiled_in_another_way_is_another_module(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NUMBAWAVE_CACHE_DIR", str(tmp_path))

    assert load("options", "a = 1\n", ["nsz"]) is not load("options", "a = 1\n", ["fast"])


def test_a_damaged_file_is_written_anew(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NUMBAWAVE_CACHE_DIR", str(tmp_path))
    module = load("damaged", "a = 3\n")
    Path(module.__file__).write_text("a = 4")  # type: ignore[arg-type]
    del sys.modules[module.__name__]

    assert load("damaged", "a = 3\n").a == 3
    assert Path(module.__file__).read_text() == "a = 3\n"  # type: ignore[arg-type]


def test_text_that_does_not_run_is_not_registered(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NUMBAWAVE_CACHE_DIR", str(tmp_path))
    before = set(sys.modules)
    with pytest.raises(ZeroDivisionError):
        load("broken", "a = 1 // 0\n")
    assert set(sys.modules) == before


def test_a_module_in_memory_is_compiled_without_a_lock(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "blocked").write_text("")
    monkeypatch.setenv("NUMBAWAVE_CACHE_DIR", str(tmp_path / "blocked"))
    monkeypatch.chdir(tmp_path)
    with one_process(load("memory", "a = 5\n")):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["blocked"]


def test_one_process_at_a_time_holds_the_lock(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fcntl = pytest.importorskip("fcntl")
    monkeypatch.setenv("NUMBAWAVE_CACHE_DIR", str(tmp_path))
    module = load("locked", "a = 6\n")

    def compile_while_another_wants_to() -> None:
        with one_process(module):
            with lock.open("w") as file, pytest.raises(BlockingIOError):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            assert not gc.isenabled()
            raise OSError("of the compiler")

    lock = Path(str(module.__file__)).with_suffix(".lock")
    with pytest.raises(OSError, match="of the compiler"):
        compile_while_another_wants_to()
    assert gc.isenabled()
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
