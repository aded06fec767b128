"""A budget: what it says, and that the levers chosen for it fit, are the fastest, and change only what they may."""

import re
from ast import literal_eval
from pathlib import Path
from typing import Any

import pytest
import torch

import numbawave
from numbawave.planning.budget import Budget, bytes_of
from numbawave.planning.seconds import Counts, Link, Rates, Seconds
from numbawave.torch_bridge import limits as free
from numbawave.torch_bridge.calibration import Calibration
from numbawave.torch_bridge.limits import limits
from tests.unit.torch_bridge.small import run, small

STEPS = Rates(*2 * (tuple(Counts(1e-3, 1e-10, 1e-6, 0, 1e-9, 2e-9, 3e-10, 0, 1e-8, 1e-4)),))


@pytest.fixture(autouse=True)
def speeds(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine of known speeds: nothing is measured, and what moves takes time."""
    monkeypatch.setattr(Calibration, "rates", STEPS)
    monkeypatch.setattr(Calibration, "link", lambda self, run: Link(*(0.0 if run.storage.mode == "device" else 1e-9,) * 3))


def call(**changes: Any) -> dict[str, Any]:
    """A call whose history is most of what it takes."""
    found = small(shots=4, nt=400, backend="cpu", receiver_locations=None) | changes
    return found | {"v": found["v"].clone().requires_grad_()}


def most(**changes: Any) -> int:
    return numbawave.plan("scalar", **call(**changes)).memory.host_bytes


@pytest.mark.parametrize(
    ("text", "size"),
    [("4 GB", 4e9), ("1.5GiB", 1.5 * 2**30), ("512mb", 512e6), ("10 kB", 1e4), ("7", 7), (123, 123), (2.5e9, 2.5e9)],
)
def test_bytes_are_numbers_or_text(text: Any, size: float) -> None:
    assert bytes_of("host", text) == size
    assert Budget(host=text).host == size


@pytest.mark.parametrize("text", ["", "GB", "4 XB", "-1 GB", "1.2.3 MB", "four"])
def test_text_that_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(numbawave.InvalidValueError, match=r'^device = .*is a number of bytes.*give device="4 GB"'):
        Budget(device=text)


def test_types_and_names_are_checked() -> None:
    with pytest.raises(numbawave.InvalidTypeError, match="^disk"):
        Budget(disk=[1])
    with pytest.raises(numbawave.InvalidValueError, match="^inexact = int4.*bf16, int8"):
        Budget(inexact=("int4",))
    with pytest.raises(numbawave.InvalidTypeError, match='^memory = 7: is "auto" or a Budget'):
        run(small(), memory=7)
    assert Budget(inexact="int8").inexact == ("int8",)


def test_a_call_that_fits_is_left_as_it_is() -> None:
    plan = numbawave.plan("scalar", **call(), budget=Budget(host=most()))
    assert plan.levers == {}
    assert len(plan.candidates) == 1
    assert "fits as it is" in plan.summary()
    out = run(call(), memory="auto")
    assert out.info.chosen == {}


@pytest.mark.parametrize("part", [0.5, 0.3, 0.2])
def test_levers_are_chosen_within_the_budget(part: float, tmp_path: Path) -> None:
    budget = Budget(host=int(part * most()), disk="1 GB")
    plan = numbawave.plan("scalar", **call(), budget=budget)
    assert plan.levers
    assert plan.memory.host_bytes <= budget.host
    fitting = [each for each in plan.candidates if each.fits]
    assert plan.candidates[0].seconds == plan.seconds == min((each.seconds for each in fitting), key=lambda s: s.total)
    # exact levers alone, and passed on they make the same call
    assert not any(each.inexact for each in plan.candidates)
    out = run(call(), memory=budget)
    other = run(call() | plan.levers)
    assert list(out.info.ledger) == list(plan.memory.buffers) == list(other.info.ledger)
    assert (out.info.chosen, out.info.expected) == (plan.levers, plan.seconds)
    plain = run(call())
    assert torch.equal(out.wavefield_0, plain.wavefield_0)


def test_gradients_are_those_of_the_plain_call() -> None:
    given, found = call(), []
    for memory in (None, Budget(host=int(0.2 * most()), disk=0)):
        out = run(given, memory=memory)
        found.append(torch.autograd.grad(out.wavefield_0.square().sum(), given["v"])[0])
    torch.testing.assert_close(found[1], found[0], rtol=1e-12, atol=1e-12 * float(found[0].abs().max()))


@pytest.mark.parametrize("given", [{"checkpoint_segments": 3}, {"storage_mode": "disk"}, {"shot_batch": 3}])
def test_levers_that_are_given_stay(given: dict[str, Any]) -> None:
    plan = numbawave.plan("scalar", **call(**given), budget=Budget(host=int(0.35 * most())))
    assert not plan.levers.keys() & given.keys()
    (name,) = given
    assert all(name not in each.levers for each in plan.candidates)
    assert plan.info.memory.host_bytes <= 0.35 * most()


def test_what_changes_the_gradient_needs_permission() -> None:
    least = min(
        each.memory["host"]
        for each in numbawave.plan("scalar", **call(), budget=Budget(host=most() // 2, disk=0)).candidates
        if each.fits
    )
    short = Budget(host=least - 1, disk=0)
    with pytest.raises(numbawave.InsufficientMemoryError, match="allow inexact=") as found:
        numbawave.plan("scalar", **call(), budget=short)
    inexact = literal_eval(str(found.value).split("allow inexact=")[1].split(")")[0] + ")")
    plan = numbawave.plan("scalar", **call(), budget=Budget(host=least - 1, disk=0, inexact=inexact))
    assert plan.candidates[0].inexact
    assert "changes the gradient" in plan.reason or "all that fits" in plan.reason


def test_nothing_fits_names_the_nearest_and_what_would_do() -> None:
    with pytest.raises(numbawave.InsufficientMemoryError) as found:
        run(call(), memory=Budget(host="1 kB", disk="1 kB"))
    text = str(found.value)
    assert text.startswith("memory = host 0.001 MB, disk 0.001 MB: no levers make the call fit: the nearest, shot_batch=1")
    assert "MB more of host" in text
    assert "give Budget(host='" in text
    assert "fewer shots a call" in text
    assert isinstance(found.value, MemoryError)
    remedy = dict(re.findall(r"(host|disk)='(.*?)'", text.split("give Budget(")[1].split(")")[0]))
    levers = text.split("the nearest, ")[1].split(", needs")[0]
    plan = numbawave.plan("scalar", **call(), budget=Budget(**({"disk": 0} | remedy)))
    assert levers in [each.words for each in plan.candidates if each.fits]


def test_candidates_are_a_table() -> None:
    plan = numbawave.plan("scalar", **call(), budget=Budget(host=most() // 2, disk=0))
    lines = str(plan.candidates).splitlines()
    assert lines[0].split() == ["levers", "host", "MB", "disk", "MB", "forward", "s", "backward", "s"]
    assert lines[1].endswith("chosen")
    assert f"{plan.memory.host_bytes / 1e6:.3f}" in lines[1]
    assert lines[-1].endswith("more")
    assert str(plan.candidates) in plan.summary()
    assert plan.reason in plan.summary()


def test_without_a_models_gradient_only_shots_are_fewer() -> None:
    given = small(shots=4, nt=5, backend="cpu", receiver_locations=None)
    given["source_amplitudes"].requires_grad_()
    alone = numbawave.plan("scalar", **given, shot_batch=1).memory.host_bytes
    plan = numbawave.plan("scalar", **given, budget=Budget(host=alone))
    assert set(plan.levers) == {"shot_batch"}


def test_a_call_that_nothing_goes_back_through_plans_no_way_back() -> None:
    def back(wanted: bool, enabled: bool) -> set[str]:
        given = small(shots=2, nt=5, backend="cpu")
        given["v"].requires_grad_(wanted)
        with torch.set_grad_enabled(enabled):
            return {
                buffer.name for buffer in numbawave.plan("scalar", **given).memory.buffers if buffer.name[:5] == "back."
            }

    assert not back(False, True)
    assert not back(True, False)
    assert back(True, True)


def test_a_path_is_for_the_disk_alone(tmp_path: Path) -> None:
    given = call(storage_path=str(tmp_path))
    assert run(given, memory=Budget(host=most())).info.storage_mode == "device"
    plan = numbawave.plan("scalar", **given, budget=Budget(host=int(0.5 * most()), disk=0))
    assert run(given | plan.levers).info.storage_mode == "device"


def test_what_is_free_is_shared_among_the_ranks_of_a_node(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(free, "free_memory", lambda: 10**9)
    monkeypatch.setattr(free, "GROUPS", ((str(tmp_path), "most", "taken"),))
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    assert limits(Budget(disk=5), None, None) == {"host": int(0.9 * 10**9), "disk": 5}
    for name, text in (("most", "700000000"), ("taken", "300000000"), ("memory.stat", "anon 7\ninactive_file 100000000")):
        (tmp_path / name).write_text(text)
    assert limits(Budget(disk=5), None, None)["host"] == int(0.9 * 5e8)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    assert limits(Budget(disk=5), None, None)["host"] == int(0.9 * 5e8 / 2)
    assert limits(Budget(host=7, device=6, disk=5), None, None) == {"host": 6, "disk": 5}
    assert limits(Budget(), None, str(tmp_path / "nowhere"))["disk"] == 0
    (tmp_path / "most").write_text("max")
    assert limits(Budget(disk=5), None, None)["host"] == int(0.9 * 10**9 / 2)


def test_nearly_as_fast_is_not_worth_a_changed_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    budget = Budget(host=int(0.6 * most()), disk=0, inexact=("interior",))
    for exact, chosen in ((1.05, False), (1.5, True)):
        seconds = lambda self, run, passes, exact=exact: Seconds(exact if run.window.cells > 20 else 1.0, 0.0)  # noqa: E731
        monkeypatch.setattr(Calibration, "seconds", seconds)
        plan = numbawave.plan("scalar", **call(), budget=budget)
        assert ("interior" in plan.levers.values()) == chosen
