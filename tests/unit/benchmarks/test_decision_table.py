"""The table that says on which card a gradient fits: its rows on the CPU, and too small cards, which are played."""

import csv
import json
from pathlib import Path
from types import ModuleType

import pytest
import torch

from numbawave.errors import DeviceMemoryError

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
FAILED = (
    "CUDA out of memory. Tried to allocate 1.50 GiB. GPU 0 has a total capacity of 14.90 GiB of which 1.00 GiB is free. "
    "Of the allocated memory 512.00 MiB is allocated by PyTorch, and 3.00 MiB is reserved by PyTorch but unallocated."
)
NEEDED = 1.5 * 2**30 + 512 * 2**20


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    pytest.importorskip("resource", reason="the benchmarks ask a Unix for the memory of a process")
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import decision_table
    import gpu_against_peer

    monkeypatch.setattr(gpu_against_peer, "LAYER", 3)
    monkeypatch.setattr(decision_table, "PROXY", decision_table.Case(12, 110, 1))
    return decision_table


def rows_of(table: ModuleType, folder: Path, *cases: object) -> list[dict]:
    return [table.row(case, table.figures(case, "cpu", folder)) for case in cases]


def test_a_row_on_the_cpu_has_its_seconds_its_bytes_and_its_error(table: ModuleType, tmp_path: Path) -> None:
    plain = table.Case(14, 110, 1)
    found = rows_of(
        table, tmp_path, plain, table.Case(14, 110, 1, table.FIVE), table.Case(14, 110, 1, table.FIVE | table.LOSSY)
    )
    assert [each["gradient_error"] == 0 for each in found] == [True, True, False]
    assert found[2]["gradient_error"] < 0.1
    assert [each["against"] for each in found] == ["itself", "plain", "plain"]
    assert all(each["seconds"] > 0 and each["planned_host_gb"] > 0 and each["fits"] == "host" for each in found)
    assert found[1]["planned_host_gb"] < found[0]["planned_host_gb"]
    assert found[1]["segments"] == 5
    grown = [each | {"host_gb": each["planned_host_gb"]} for each in found]  # this process may have had it all before
    table.write(grown, "a machine", tmp_path)
    with open(tmp_path / "decision_table.csv") as file:
        assert [line["region"] for line in csv.DictReader(file)] == ["full"] * 3
    lines = (tmp_path / "decision_table.md").read_text().splitlines()
    assert lines[0] == "a machine"
    assert len({line.count("|") for line in lines[2:]}) == 1
    assert (tmp_path / "decision_table.png").stat().st_size > 1000


def test_without_a_plain_gradient_a_proxy_has_both(table: ModuleType, tmp_path: Path) -> None:
    (found,) = rows_of(table, tmp_path, table.Case(14, 110, 1, {"storage_compression": "bf16"}))
    assert found["against"] == "plain, of 12^3 and 110 steps"
    assert 0 < found["gradient_error"] < 0.1


def failing(table: ModuleType, monkeypatch: pytest.MonkeyPatch, needed: float) -> list[int]:
    """Play a GPU of 140 GB on which a row, but not a tiny call, takes so many bytes."""
    true, limits = table.measured, []

    def played(propagate, arguments, levers):
        if limits and limits[-1] < needed:
            raise DeviceMemoryError("device memory", "too little", "rule", "remedy") from torch.cuda.OutOfMemoryError(
                FAILED
            )
        return true(propagate, arguments, levers)

    arguments = table.Case.arguments
    monkeypatch.setattr(table.Case, "arguments", lambda self, device: arguments(self, "cpu"))
    monkeypatch.setattr(table, "sizes", lambda: [("16 GB", 16), ("20 GB", 20), ("140 GB", 140)])
    monkeypatch.setattr(table, "limit", limits.append)
    monkeypatch.setattr(table, "measured", played)
    return limits


def test_a_row_is_tried_on_larger_cards_until_it_fits(
    table: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = failing(table, monkeypatch, 18)
    found = table.row(table.Case(12, 110, 1), table.figures(table.Case(12, 110, 1), "cuda", tmp_path))
    assert limits == [16, 20]
    assert (found["fits"], found["tried_gb"]) == ("20 GB", f"16 GB: {NEEDED / 1e9:.2f}")
    assert found["seconds"] > 0


def test_a_row_that_fits_nowhere_says_what_it_wanted(
    table: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = failing(table, monkeypatch, 999)
    found = table.row(table.Case(12, 110, 1), table.figures(table.Case(12, 110, 1), "cuda", tmp_path))
    assert limits == [16, 20, 140]
    assert found["fits"] == "none of these"
    assert found["tried_gb"].count(f"{NEEDED / 1e9:.2f}") == 3
    assert found["seconds"] == ""
    assert " none of these | " in table.markdown([found], "a machine")


@pytest.mark.skipif(torch.cuda.is_available(), reason="the small scale is the CPU's")
def test_the_script_runs_a_row_in_a_process_of_its_own(table: ModuleType, tmp_path: Path, capsys) -> None:
    table.main(["--scale", "small", "--only", "0", "--output", str(tmp_path)])
    number, _, found = capsys.readouterr().out.strip().partition(", no lever: ")
    assert number == "0: 24^3, 120 steps, 2 shots"
    assert "failure" not in json.loads(found)
    assert (tmp_path / "decision_table.csv").read_text().count("\n") == 2


def test_a_row_whose_process_fails_says_why(table: ModuleType, tmp_path: Path) -> None:
    script = tmp_path / "failing.py"
    script.write_text("import sys\nprint('{}')\nraise KeyError(sys.argv[1])")
    assert table.child_figures(str(script), "--row") == {"failure": "KeyError: '--row'"}
    script.write_text("import os\nos._exit(3)")
    assert table.child_figures(str(script)) == {"failure": "exit status 3"}
