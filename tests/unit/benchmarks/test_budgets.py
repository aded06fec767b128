"""The table of ``memory="auto"``: of a small problem on the CPU, whose times are played where they would be measured."""

from pathlib import Path
from types import ModuleType

import pytest

from numbawave.planning.seconds import Seconds
from numbawave.torch_bridge.calibration import Calibration


@pytest.fixture
def budgets(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    pytest.importorskip("resource", reason="the benchmarks ask a Unix for the memory of a process")
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    import budgets
    import gpu_against_peer

    monkeypatch.setattr(gpu_against_peer, "LAYER", 3)
    monkeypatch.setattr(budgets, "SMALL", budgets.Case(14, 110, 2))
    monkeypatch.setattr(budgets, "PARTS", (0.5,))

    def seconds(self, run, spent):
        return Seconds(1.0 + len(run.schedule.forward), 0.0)

    monkeypatch.setattr(Calibration, "__init__", lambda self, prepared: None)
    monkeypatch.setattr(Calibration, "seconds", seconds)
    return budgets


def test_a_budget_has_its_chosen_call_and_the_fastest(budgets: ModuleType, tmp_path: Path) -> None:
    budgets.main(["--within", "1.3", "--output", str(tmp_path / "table.md")])
    head, _, line = (tmp_path / "table.md").read_text().strip().split("\n")
    cells = dict(zip(head.strip("| ").split(" | "), line.strip("| ").split(" | "), strict=True))
    assert 0 < float(cells["peak, GB"]) <= float(cells["budget, GB"])
    assert int(cells["tried"]) >= 2
    assert float(cells["chosen / fastest"]) >= 1


def test_the_fastest_is_one_that_stays_inside(budgets: ModuleType) -> None:
    chosen, outside, faster = (budgets.Tried("a", 5, 3.0), budgets.Tried("b", 9, 1.0), budgets.Tried("c", 6, 2.0))
    found = budgets.Found(7, chosen, 3.0, [outside, faster])
    assert found.best == faster
    assert "| 1.50 |" in budgets.table([found])
