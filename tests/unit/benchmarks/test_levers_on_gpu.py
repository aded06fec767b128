"""The table of the levers: its rows' figures and errors, of small problems on the CPU."""

from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture
def levers(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    pytest.importorskip("resource", reason="the benchmarks ask a Unix for the memory of a process")
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    import gpu_against_peer
    import levers_on_gpu

    monkeypatch.setattr(gpu_against_peer, "LAYER", 3)
    whole = levers_on_gpu.problem
    small = {"cells": 12, "steps": 110, "shots": 1}
    monkeypatch.setattr(levers_on_gpu, "problem", lambda row, device: whole(row._replace(**small), "cpu"))
    return levers_on_gpu


def test_rows_have_figures_and_the_distance_from_the_plain_one(levers: ModuleType, tmp_path: Path) -> None:
    found = [levers.child(title, "numbawave", tmp_path) for title in ("t3", "t4", "bf16 on the GPU")]
    assert all(each["seconds"] > 0 and each["rss"] > 0.05 and each["gpu"] == 0 for each in found)
    assert levers.error("t4", tmp_path) == "0"
    assert 0 < float(levers.error("bf16 on the GPU", tmp_path)) < 0.1
    assert levers.error("t7", tmp_path) == "-"
