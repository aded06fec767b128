"""Expected times: what is counted, how factors are found, and that nothing is measured before it is asked for."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import numbawave
from numbawave.checkpoint import Forward
from numbawave.engine.buffers import declare
from numbawave.engine.reversal import store_of
from numbawave.history import parts
from numbawave.planning.seconds import Counts, Leg, Link, Rates, Seconds, fit, seconds
from numbawave.torch_bridge import calibration
from numbawave.torch_bridge.binding import bound
from numbawave.torch_bridge.calibration import Calibration, spent
from numbawave.torch_bridge.frontend import Prepared, prepare
from tests.unit.torch_bridge.small import small


def prepared(**changes: Any) -> Prepared:
    call = small(backend="cpu") | changes
    call["v"] = call["v"].clone().requires_grad_()
    return prepare(*bound(calibration.EQUATIONS["scalar"], **call))


def test_factors_are_found_again() -> None:
    rng = np.random.default_rng(3)
    counts = [tuple(row) for row in rng.integers(1, 50, (20, 8)) * np.array([1, 1e6, 1, 1e7, 1e6, 1e7, 1e3, 1])]
    wanted = np.array([1e-3, 0.0, 2e-5, 3e-10, 0.0, 1e-9, 4e-8, 5e-4])
    found = fit(counts, [float(np.dot(row, wanted)) for row in counts])
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=0)


def test_no_factor_is_negative() -> None:
    # the plain solution is (2, -1): longer with the first, shorter with the second
    assert min(fit([(1, 0), (1, 1), (2, 1)], [2.0, 1.0, 3.0])) == 0.0


def test_a_device_waits_for_the_slower_and_a_host_does_both() -> None:
    leg = Leg("forward", Counts(steps=10, parts=3), written=100, states=7)
    rates = Rates(tuple(Counts()._replace(steps=0.5)), ())  # type: ignore[arg-type]
    assert seconds([leg], rates, Link(0.02, 0, 0.1)) == pytest.approx(5 + 2 + 0.7)
    assert seconds([leg], rates, Link(0.02, 0, 0.1, together=True)) == pytest.approx(5 + 0.7)
    assert seconds([leg], rates, Link(0.2, 0, 0.1, together=True)) == pytest.approx(20 + 0.7)
    assert seconds([leg], rates, Link(0.2, 0, 0.1, together=True, parts=4)) == pytest.approx(20 + 3 * 4 + 0.7)
    assert seconds([leg], rates, Link(0.02, 0, 0.1, together=True, parts=4)) == pytest.approx(5 + 3 * 4 + 0.7)
    assert seconds([replace(leg, written=0)], rates, Link(0.2, 0, 0.1, parts=4)) == pytest.approx(5 + 0.7)


@pytest.mark.parametrize("levers", [{}, {"checkpoint_segments": 3}, {"checkpoint_segments": 6, "checkpoint_states": 1}])
@pytest.mark.parametrize("region", ["full", "reconstruct"])
def test_steps_that_are_made_again_are_counted(levers: dict[str, Any], region: str) -> None:
    call = prepared(**levers, history=region)
    run, (ahead, back) = call.run, spent(call)
    forward = sum(leg.counts.steps for leg in (*ahead, *back) if leg.direction == "forward")
    assert forward == run.steps * (1 + (region == "reconstruct")) + run.schedule.repeated
    assert sum(leg.counts.steps for leg in back if leg.direction == "adjoint") == run.steps
    kept = [a for a in (*run.schedule.forward, *run.schedule.backward) if isinstance(a, Forward) and a.keep]
    size = run.slots_of.bytes if region == "full" else run.ring_of.bytes
    assert sum(leg.written for leg in (*ahead, *back)) == sum(a.last - a.first for a in kept) * size
    assert sum(leg.read for leg in back) == run.steps * size
    assert sum(leg.counts.parts for leg in back if leg.direction == "adjoint") == len(kept)
    forward_parts = sum(leg.counts.parts for leg in (*ahead, *back) if leg.direction == "forward")
    actions = [a for a in (*run.schedule.forward, *run.schedule.backward) if isinstance(a, Forward)]
    assert forward_parts == len(actions) + (region == "reconstruct") * len(kept)


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize(("mode", "coding"), [("device", "int8"), ("disk", False), ("disk", "bf16")])
def test_parts_are_those_that_a_store_makes(first: int, mode: str, coding: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "PART_BYTES", 1)
    run = prepared(checkpoint_segments=3, storage_mode=mode, storage_compression=coding).run
    run.ledger, seen = declare(run, keep=True), list[tuple[int, int]]()
    store = store_of(run)
    store.write(first, first + run.slots, lambda *ends: seen.append(ends))
    store.close()
    assert run.storage.parts(run.slots_of, first, first + run.slots, on_device=False) == len(seen) > 1


def test_without_a_gradient_nothing_goes_back() -> None:
    call = small()
    assert not spent(prepare(*bound(calibration.EQUATIONS["scalar"], **call)))[1]
    call["source_amplitudes"].requires_grad_()
    (_, back) = spent(prepare(*bound(calibration.EQUATIONS["scalar"], **call)))
    assert not any(leg.read or leg.counts.values for leg in back)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A calibration of a moment, with a cache of its own for what it finds."""
    monkeypatch.setattr(calibration, "cache_folder", lambda: tmp_path / "cache")
    for name, value in (("CELLS", (500, 2000)), ("WORK", 40_000), ("MOVED", 2**20)):
        monkeypatch.setitem(getattr(calibration, name), "cpu", value)
    for name, value in (("LAYERS", 4), ("REPEATS", 2), ("STATE", 1000)):
        monkeypatch.setattr(calibration, name, value)
    monkeypatch.setattr(calibration, "_FOUND", {})
    return tmp_path / "cache"


def test_a_machine_is_measured_when_asked_and_once(quick: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    call = small(backend="cpu", checkpoint_segments=3, storage_mode="disk")
    call["v"] = call["v"].clone().requires_grad_()
    plan = numbawave.plan("scalar", **call)
    assert "expected" not in plan.summary()
    assert not quick.exists()
    assert plan.seconds.forward > 0
    assert plan.seconds.backward > 0
    assert f"expected: {plan.seconds}" in plan.summary()
    links, file = sorted(quick.iterdir())
    assert set(json.loads(file.read_text())) == {"rates"}
    assert [name.split()[0] for name in json.loads(links.read_text())] == ["disk"]
    assert all(part in file.name for part in ("scalar", "2d", "float64", "cpu", numbawave.__version__))

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("measured again")

    monkeypatch.setattr(Calibration, "_rates", refuse)
    monkeypatch.setattr(Calibration, "_link", refuse)
    monkeypatch.setattr(calibration, "_FOUND", {})  # as another process
    assert numbawave.plan("scalar", **call).seconds == plan.seconds
    known = json.loads(file.read_text())["rates"]
    older = {name: values[1:] for name, values in known.items()}, {"forward": known["forward"]}
    for damaged in ("{", *(json.dumps({"rates": each}) for each in older)):
        file.write_text(damaged)
        monkeypatch.setattr(calibration, "_FOUND", {})
        with pytest.raises(AssertionError, match="measured again"):
            _ = numbawave.plan("scalar", **call).seconds


def test_a_cache_that_cannot_be_written_is_no_error(quick: Path) -> None:
    quick.write_text("a file where the folder would be")
    plan = numbawave.plan("scalar", **small(backend="cpu"))
    assert plan.summary(seconds=True).count("expected") == 1
    assert plan.seconds.backward == 0.0


def test_seconds_add_up() -> None:
    assert Seconds(1.0, 2.5).total == 3.5
    assert str(Seconds(1.0, 2.5)) == "1 s forward, 2.5 s backward"


def test_a_gradient_that_is_not_enabled_takes_no_time_back(quick: Path) -> None:
    call = small(backend="cpu")
    call["v"] = call["v"].clone().requires_grad_()
    with torch.no_grad():
        plan = numbawave.plan("scalar", **call)
    assert plan.seconds.backward == 0.0
