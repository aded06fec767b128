"""The levers of memory through the public call: the same numbers, less memory, nothing left behind."""

import errno
import json
import os
import subprocess
import sys
import threading
import weakref
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import numbawave
from numbawave.backends.reference import Reference
from numbawave.engine.march import March
from numbawave.history import media, parts, shelf, storage
from numbawave.history.codecs.compression import Compression
from numbawave.torch_bridge import propagators
from numbawave.torch_bridge.function import Propagation
from tests import tolerance
from tests.unit.torch_bridge.small import CUDA, loss, run, small
from tests.unit.torch_bridge.test_gradcheck import check

ROOT = Path(__file__).parents[3]
VALUE, TYPE, STORAGE = numbawave.InvalidValueError, numbawave.InvalidTypeError, numbawave.StorageError
NT = 8

EXACT: dict[str, dict[str, Any]] = {
    "segments": {"checkpoint_segments": 3},
    "as many as pay": {"checkpoint_segments": "auto"},
    "states": {"checkpoint_states": 1},
    "segments with one state": {"checkpoint_segments": 6, "checkpoint_states": 1},
    "segments without states": {"checkpoint_segments": 4, "checkpoint_states": 0},
    "cpu": {"storage_mode": "cpu"},
    "disk": {"storage_mode": "disk"},
    "lossless": {"storage_mode": "cpu", "storage_compression": "lossless"},
    "disk in segments": {"storage_mode": "disk", "checkpoint_segments": 6, "checkpoint_states": 1},
    "lossless disk in segments": {"storage_mode": "disk", "storage_compression": "lossless", "checkpoint_segments": 3},
}
"""Levers that change no bit of any result."""

LOSSY: dict[str, dict[str, Any]] = {
    "int8": {"storage_compression": True},
    "int8 on disk in segments": {"storage_mode": "disk", "storage_compression": True, "checkpoint_segments": 3},
}

SETTINGS: dict[str, dict[str, Any]] = {
    "plain": {},
    "interval": {"model_gradient_sampling_interval": 3},
    "sub-steps": {"dt": 0.4},
    "sub-steps at an interval": {"dt": 0.4, "model_gradient_sampling_interval": 3},
    "every sub-step": {"dt": 0.4, "model_gradient_sampling_interval": "internal"},
    "a model a shot": {},
    "initial wavefields": {},
    "initial state": {},
}
"""What levers may meet."""


@pytest.fixture(autouse=True)
def many_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of a slot and pieces of few values, so that small runs have many."""
    monkeypatch.setattr(parts, "PART_BYTES", 1)
    monkeypatch.setattr(parts, "RING_BYTES", 1)
    monkeypatch.setattr(media, "COPIED_BYTES", 1000)
    monkeypatch.setattr(shelf, "COMPRESSED_BYTES", 1000)


@pytest.fixture
def shelves(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Weak references to the shelves that runs make."""
    made: list[Any] = []
    before = shelf.Shelf.__init__

    def init(self: Any, *given: Any) -> None:
        made.append(weakref.ref(self))
        before(self, *given)

    monkeypatch.setattr(shelf.Shelf, "__init__", init)
    return made


def setting(name: str, backend: str = "reference") -> tuple[dict[str, Any], list[torch.Tensor]]:
    """A call, and those of its arguments that require a gradient."""
    call = small(nt=NT, backend=backend, **SETTINGS[name])
    if name == "a model a shot":
        call["v"] = torch.stack([call["v"], call["v"].flip(0)])
    wanted = ["v", "source_amplitudes"]
    call |= {n: call[n].requires_grad_() for n in wanted}
    if name.startswith("initial"):
        before = run(call | {"v": call["v"].detach(), "source_amplitudes": 2 * call["source_amplitudes"].detach()})
        state = before.final_state
        leaves = {n: state[n].requires_grad_() for n in ("wavefield_0", "wavefield_m1")}
        call |= {"initial_state": state} if name == "initial state" else leaves
        return call, [*(call[n] for n in wanted), *leaves.values()]
    return call, [call[n] for n in wanted]


def results(name: str, backend: str = "reference", **levers: Any) -> list[torch.Tensor]:
    """All outputs that are tensors, and the gradients of all that requires one."""
    call, wanted = setting(name, backend)
    out = run(call, **levers)
    return [value for value in out if isinstance(value, torch.Tensor)] + list(torch.autograd.grad(loss(out), wanted))


@lru_cache
def plain(name: str, backend: str = "reference") -> list[torch.Tensor]:
    """The same without levers."""
    return results(name, backend)


def same(found: list[torch.Tensor], expected: list[torch.Tensor]) -> bool:
    return all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))


def in_folder(levers: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Levers whose file, if there is one, lies there."""
    return levers | ({"storage_path": str(folder)} if levers.get("storage_mode") == "disk" else {})


WHERE = [pytest.param(name, "cpu", id=name) for name in SETTINGS]
WHERE.append(pytest.param("sub-steps at an interval", *CUDA.values, marks=CUDA.marks, id="cuda"))


@pytest.mark.parametrize("lever", EXACT)
@pytest.mark.parametrize(("name", "backend"), WHERE)
def test_exact_levers_change_no_bit(name: str, backend: str, lever: str, tmp_path: Path) -> None:
    assert same(results(name, backend, **in_folder(EXACT[lever], tmp_path)), plain(name, backend))


@pytest.mark.parametrize("interval", range(1, NT + 2))
@pytest.mark.parametrize("place", [{}, {"storage_mode": "disk"}, {"storage_compression": "int8"}], ids=str)
def test_any_segments_go_with_any_interval(interval: int, place: dict[str, Any]) -> None:
    call = small(nt=NT, backend="cpu", model_gradient_sampling_interval=interval)
    call["v"].requires_grad_()
    whole, *others = (
        torch.autograd.grad(loss(run(call, checkpoint_segments=n, **place)), call["v"])[0] for n in range(1, NT + 1)
    )
    for other in others:
        assert torch.equal(whole, other) or "storage_compression" in place
        torch.testing.assert_close(whole, other, rtol=0, atol=0.1 * float(whole.abs().max()))


@pytest.mark.parametrize("lever", [{}, EXACT["disk in segments"], {"storage_mode": "disk", "storage_compression": "bf16"}])
@pytest.mark.parametrize("name", ["plain", "a model a shot"])
def test_the_interior_lacks_the_layers_share(name: str, lever: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[torch.Tensor] = []
    replicate = propagators.replicate

    def watched(model: torch.Tensor, grid: Any) -> torch.Tensor:
        layered = replicate(model, grid)
        if layered.requires_grad:
            layered.register_hook(lambda gradient: seen.append(gradient) and None)
        return layered

    monkeypatch.setattr(propagators, "replicate", watched)
    exact = results(name, **{key: value for key, value in lever.items() if key != "storage_compression"})
    found = results(name, history="interior", **lever)

    whole, inner = seen
    middle = (..., slice(2, 2 + 4), slice(1, 1 + 5))
    rest = inner.clone()
    rest[middle] = 0
    assert not rest.any()
    assert whole[..., :2, :].any()
    assert same(found[:-2] + found[-1:], exact[:-2] + exact[-1:])
    if "storage_compression" not in lever:
        assert torch.equal(inner[middle], whole[middle])
        assert torch.equal(found[-2][..., 1:, 1:-1], exact[-2][..., 1:, 1:-1])
        assert not torch.equal(found[-2], exact[-2])


MASKS = {
    "a cell": np.s_[1, 2],
    "a corner": np.s_[0, 0],
    "a face": np.s_[-1:, :],
    "a column": np.s_[:, 3],
    "two far cells": ([0, 3], [4, 1]),
    "all": np.s_[:, :],
}


@pytest.mark.parametrize("lever", [{}, EXACT["disk in segments"], {"history": "interior"}], ids=str)
@pytest.mark.parametrize(("name", "backend"), [("plain", "cpu"), ("plain", "reference"), ("a model a shot", "reference")])
@pytest.mark.parametrize("where", MASKS)
def test_a_mask_leaves_its_cells_alone(where: str, name: str, backend: str, lever: dict[str, Any]) -> None:
    mask = np.zeros((4, 5), bool)
    mask[MASKS[where]] = True
    expected = list(results(name, backend, **lever))
    expected[-2] = torch.where(torch.from_numpy(mask), expected[-2], 0)

    assert same(results(name, backend, gradient_mask=mask, **lever), expected)
    assert same(results(name, backend, gradient_mask=torch.from_numpy(mask), **lever), expected)


UNDONE = [(name, "reference", lever, "all") for name in SETTINGS for lever in (EXACT["lossless disk in segments"], {})]
UNDONE += [("a model a shot", "reference", EXACT["segments"], where) for where in MASKS]
UNDONE += [("interval", "cpu", EXACT["segments with one state"], where) for where in ("a face", "a corner")]


@pytest.mark.parametrize(("name", "backend", "lever", "where"), UNDONE)
def test_undone_steps_give_the_gradient_of_the_interior(name: str, backend: str, lever: dict[str, Any], where: str) -> None:
    """Sources lie next to the layers and in corners; what steps are solved for is divided by (v dt)**2, at least 0.01."""
    mask = np.zeros((4, 5), bool)
    mask[MASKS[where]] = True
    given = {"gradient_mask": mask} | lever
    found, expected = (results(name, backend, history=region, **given) for region in ("reconstruct", "interior"))
    for one, other in zip(found, expected, strict=True):
        assert tolerance.apart(one.detach().numpy(), other.detach().numpy()) <= 100 * tolerance.steps("float64", NT)


@pytest.mark.parametrize("source", [[15, 15], [1, 13], [0, 0]], ids=str)
def test_undone_steps_are_exact_enough_for_long_runs_in_single_precision(source: list[int]) -> None:
    """The promise is 1e-4 after 4,000 steps, in cells next to the layers as in all others."""
    v = 2000.0 + 300.0 * torch.rand(30, 30, generator=torch.Generator().manual_seed(1))
    call: dict[str, Any] = {
        "grid_spacing": 5.0,
        "dt": 0.001,
        "source_amplitudes": numbawave.wavelets.ricker(25.0, 4000, 0.001, 0.06).expand(1, 1, -1),
        "source_locations": torch.tensor([[source]]),
        "receiver_locations": torch.tensor([[[row, x] for row in (0, 15) for x in range(0, 30, 4)]]),
        "pml_freq": 25.0,
        "pml_width": 10,
        "max_vel": 2300.0,
    }
    gradients = []
    for region in ("interior", "reconstruct"):
        model = v.clone().requires_grad_()
        numbawave.scalar(v=model, history=region, **call).receiver_amplitudes.square().sum().backward()
        gradients.append(model.grad)
    edge = torch.ones(30, 30, dtype=torch.bool)
    edge[3:-3, 3:-3] = False
    for cells in (edge, ~edge):
        one, other = (gradient[cells] for gradient in gradients)
        assert torch.linalg.norm(other - one) < 1e-4 * torch.linalg.norm(one)


@pytest.mark.parametrize("lever", [EXACT["segments"], EXACT["disk in segments"], *LOSSY.values()], ids=str)
class TestAutograd:
    """What torch may do with a call, levers or not."""

    def test_backward_equals_grad_and_hooks_run_once(self, lever: dict[str, Any]) -> None:
        expected = results("plain", **lever)[-2:]
        call, leaves = setting("plain")
        calls: list[str] = []
        out = run(call, **lever)
        out.receiver_amplitudes.register_hook(lambda _: calls.append("record"))
        call["v"].register_hook(lambda _: calls.append("model"))
        loss(out).backward()
        assert calls == ["record", "model"]
        assert same([leaf.grad for leaf in leaves], expected)

    def test_a_graph_kept_gives_the_gradient_again(self, lever: dict[str, Any]) -> None:
        call, leaves = setting("initial state")
        value = loss(run(call, **lever))
        first = torch.autograd.grad(value, leaves, retain_graph=True)
        second = torch.autograd.grad(value, leaves, retain_graph=True)
        third = torch.autograd.grad(value, leaves)
        assert same(first, second)
        assert same(first, third)
        with pytest.raises(RuntimeError, match="second time"):
            torch.autograd.grad(value, leaves)

    def test_amplitudes_alone_and_then_the_model(self, lever: dict[str, Any]) -> None:
        call, (v, amplitudes) = setting("plain")
        value = loss(run(call, **lever))
        (alone,) = torch.autograd.grad(value, amplitudes, retain_graph=True)
        (model,) = torch.autograd.grad(value, v)
        assert same([model, alone], results("plain", **lever)[-2:])

    def test_amplitudes_alone_keep_nothing(self, lever: dict[str, Any]) -> None:
        call, (v, amplitudes) = setting("plain")
        out = run(call, v=v.detach(), **lever)
        assert (out.info.history_bytes, out.info.kept_bytes) == (0, 0)
        assert torch.equal(torch.autograd.grad(loss(out), amplitudes)[0], plain("plain")[-1])

    def test_no_grad_keeps_nothing(self, lever: dict[str, Any], shelves: list[Any]) -> None:
        with torch.no_grad():
            out = run(setting("plain")[0], **lever)
        assert (out.info.history_bytes, out.info.kept_bytes, shelves) == (0, 0, [])
        assert torch.equal(out.receiver_amplitudes, plain("plain")[-3])

    def test_func_grad_equals_autograd(self, lever: dict[str, Any]) -> None:
        call, _ = setting("plain")
        found = torch.func.grad(lambda v: loss(run(call, v=v, **lever)))(call["v"].detach())
        assert torch.equal(found, results("plain", **lever)[-2])

    def test_runs_that_are_alive_together_do_not_meet(self, lever: dict[str, Any]) -> None:
        expected = [results(name, **lever)[-2] for name in ("plain", "a model a shot")]
        (one, (v, _)), (other, (vs, _)) = setting("plain"), setting("a model a shot")
        found = torch.autograd.grad(loss(run(one, **lever)) + loss(run(other, **lever)), (v, vs))
        assert same(found, expected)

    def test_backward_from_another_thread(self, lever: dict[str, Any]) -> None:
        call, leaves = setting("plain")
        thread = threading.Thread(target=loss(run(call, **lever)).backward)
        thread.start()
        thread.join()
        assert same([leaf.grad for leaf in leaves], results("plain", **lever)[-2:])


@pytest.mark.parametrize(
    "lever",
    [{"checkpoint_segments": 2}, {"checkpoint_segments": 4, "checkpoint_states": 0, "storage_mode": "disk"}],
    ids=str,
)
@pytest.mark.parametrize("arguments", [("v", "source_amplitudes"), ("v", "wavefield_0", "wavefield_m1")])
def test_gradients_agree_with_differences(lever: dict[str, Any], arguments: tuple[str, ...], rng: Any) -> None:
    call = small(2, nt=4)
    if "wavefield_0" in arguments:
        call |= {name: torch.from_numpy(rng.standard_normal((2, 4, 5))) for name in arguments[1:]}
    assert check(call | lever, *arguments)


HISTORY = NT * 2 * 6 * 9 * 8
"""Bytes of steps x shots x cells with layers x float64."""


@pytest.mark.parametrize(
    ("lever", "expected"),
    [
        ({}, ("full", "device", "", HISTORY, HISTORY)),
        (EXACT["segments"], ("full", "device", "", HISTORY * 3 // 8, HISTORY * 3 // 8)),
        (EXACT["disk in segments"], ("full", "disk", "", HISTORY * 2 // 8, HISTORY * 2 // 8)),
        (EXACT["cpu"], ("full", "cpu", "", HISTORY, HISTORY)),
        ({"history": "interior"}, ("interior", "device", "", HISTORY * 20 // 54, HISTORY * 20 // 54)),
        ({"model_gradient_sampling_interval": 3}, ("full", "device", "", HISTORY * 3 // 8, HISTORY * 3 // 8)),
        (
            {"gradient_mask": np.eye(4, 5) * 4 > np.arange(5)},
            ("full", "device", "", NT * 2 * 6 * 5 * 8, NT * 2 * 6 * 5 * 8),
        ),
        (LOSSY["int8"], ("full", "device", Compression().error, HISTORY, HISTORY // 8 + 8 * 2 * 8)),
        (
            {"storage_compression": "bf16", "storage_mode": "disk"},
            ("full", "disk", Compression("bf16").error, HISTORY, None),
        ),
        (EXACT["lossless"], ("full", "cpu", Compression("none").error, HISTORY, None)),
        ({"storage_mode": "none"}, ("full", "none", "", 0, 0)),
    ],
    ids=str,
)
def test_info_says_what_was_kept(lever: dict[str, Any], expected: tuple[Any, ...]) -> None:
    call, (v, _) = setting("plain")
    info = run(call, v=v.detach() if lever.get("storage_mode") == "none" else v, **lever).info
    found = (info.history, info.storage_mode, info.storage_error, info.history_bytes, info.kept_bytes)
    assert found[:4] == expected[:4]
    assert found[4] == expected[4] or (expected[4] is None and 0 < found[4] < 1.2 * HISTORY)
    assert info.state_bytes > 0


@pytest.mark.parametrize(
    ("lever", "coded"),
    [({}, False), ({"storage_mode": "cpu", "storage_compression": True}, False), (EXACT["lossless"], True)],
    ids=str,
)
def test_info_says_how_long_compressing_took(lever: dict[str, Any], coded: bool) -> None:
    call, _ = setting("plain")
    silent = call | {"source_amplitudes": torch.zeros_like(call["source_amplitudes"])}  # zeros: worth compressing
    info = run(silent, **lever).info
    assert (info.coding_seconds > 0) == coded
    assert info.coding_seconds < 16 * info.seconds


cells = torch.zeros(4, 5)

BAD: list[tuple[dict[str, Any], type[Exception], str]] = [
    *(({"history": value}, VALUE, "history") for value in ("inside", None, 1, ["full"])),
    *(({"checkpoint_segments": value}, VALUE, "checkpoint_segments") for value in (0, -1, True, 2.0, "all", NT + 1, [2])),
    *(({"checkpoint_states": value}, VALUE, "checkpoint_states") for value in (-1, True, 1.5, "auto")),
    ({"checkpoint_segments": NT + 1, "checkpoint_states": 1}, VALUE, "checkpoint_segments"),
    *(({"storage_mode": value}, VALUE, "storage_mode") for value in ("gpu", None, 1, ["cpu"])),
    *(({"storage_path": "/tmp", "storage_mode": mode}, VALUE, "storage_path") for mode in ("device", "cpu", "none")),
    *(({"storage_path": value, "storage_mode": "disk"}, TYPE, "storage_path") for value in (3, ["/tmp"], True)),
    *(({"storage_compression": value}, VALUE, "storage_compression") for value in ("zip", 1, 0.5, [True], "lossless")),
    ({"storage_compression": Compression(tolerance=1e-3)}, VALUE, "storage_compression"),
    *(({"gradient_mask": value}, TYPE, "gradient_mask") for value in (cells, cells.long().numpy(), "all", [[1, 0]])),
    *(
        ({"gradient_mask": value}, VALUE, "gradient_mask")
        for value in (cells.bool(), cells[:3] == 0, cells[None] == 0, True)
    ),
    ({"storage_mode": "none"}, VALUE, "storage_mode"),
]


@pytest.mark.parametrize(("change", "kind", "name"), BAD, ids=str)
def test_bad_levers_are_refused_before_any_work(
    change: dict[str, Any], kind: type[Exception], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Propagation, "apply", lambda *_: pytest.fail("work was done before the error"))
    with pytest.raises(kind, match=rf"^{name} = .+: .+\. Remedy: .+\.$"):
        run(setting("plain")[0], **change)


def refuse(*_: Any, **__: Any) -> Any:
    raise PermissionError(errno.EACCES, "not yours")


@pytest.mark.parametrize("why", ["missing", "a file", "not writable", "no room", "no memory"])
def test_no_place_is_an_error_before_the_first_step(why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(March, "go", lambda *_, **__: pytest.fail("steps were done before the error"))
    levers = {"storage_mode": "disk", "storage_path": str(tmp_path), "checkpoint_segments": 2}
    match why:
        case "missing":
            levers["storage_path"] = str(tmp_path / "nowhere")
        case "a file":
            levers["storage_path"] = __file__
        case "not writable":
            monkeypatch.setattr(media.tempfile, "TemporaryFile", refuse)
        case "no room":
            full = type("Usage", (), {"free": HISTORY // 2 - 1})
            monkeypatch.setattr(storage.shutil, "disk_usage", lambda _: full)
        case "no memory":
            monkeypatch.setattr(storage, "free_memory", lambda: 100)
            levers = {"storage_mode": "cpu", "storage_compression": True}
    with pytest.raises(STORAGE, match=r"^storage_(path|mode) = .+: .+\. Remedy: .+\.$") as caught:
        run(setting("plain")[0], **levers)
    assert caught.value.argument == ("storage_mode" if why == "no memory" else "storage_path")
    assert not list(tmp_path.iterdir())


def break_once(monkeypatch: pytest.MonkeyPatch, method: str, at: int, error: BaseException) -> None:
    """Let the oracle fail once in a step."""
    before, broken = getattr(Reference, method), []

    def loop(self: Any, run: Any, arrays: Any, history: bool, first: int, last: int) -> None:
        if first <= at < last and not broken:
            broken.append(at)
            raise error
        before(self, run, arrays, history, first, last)

    monkeypatch.setattr(Reference, method, loop)


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def no_threads() -> bool:
    return not any(thread.name.startswith("numbawave-history") for thread in threading.enumerate())


ON_DISK = [lever for lever in (*EXACT.values(), *LOSSY.values()) if lever.get("storage_mode") == "disk"]


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="the system does not list a process's files")
@pytest.mark.parametrize("lever", ON_DISK, ids=str)
@pytest.mark.parametrize(
    "end", ["backward", "twice", "dropped", "fails in backward", "stopped in backward", "stopped in forward", "not finite"]
)
def test_nothing_is_left_behind(end: str, lever: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lever = in_folder(lever, tmp_path)
    results("plain", **lever)
    call, _ = setting("plain")
    before = open_files()
    if end == "stopped in forward":
        break_once(monkeypatch, "_forward", 7, KeyboardInterrupt())
        with pytest.raises(KeyboardInterrupt):
            run(call, **lever)
    elif end == "not finite":
        with pytest.raises(numbawave.NonFiniteError), np.errstate(all="ignore"):
            run(call, source_amplitudes=torch.full_like(call["source_amplitudes"], 1e308), **lever)
    else:
        out = run(call, **lever)
        assert open_files() > before
        assert no_threads()
        if end in ("fails in backward", "stopped in backward"):
            error = ZeroDivisionError("on purpose") if end.startswith("fails") else KeyboardInterrupt()
            break_once(monkeypatch, "_adjoint", 3, error)
            with pytest.raises(type(error)):
                loss(out).backward()
        elif end != "dropped":
            value = loss(out)
            value.backward(retain_graph=end == "twice")
            assert open_files() == before
            if end == "twice":
                value.backward()
        else:
            del out
    assert open_files() == before
    assert not list(tmp_path.iterdir())
    assert no_threads()


@pytest.mark.parametrize("lever", [*EXACT.values(), *LOSSY.values()], ids=str)
@pytest.mark.parametrize("at", [0, 3, 7])
def test_backward_may_be_tried_again(lever: dict[str, Any], at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a failed pass used up is made again: no gradient from half of a history."""
    expected = results("plain", **lever)[-2:]
    call, leaves = setting("plain")
    value = loss(run(call, **lever))
    break_once(monkeypatch, "_adjoint", at, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        torch.autograd.grad(value, leaves, retain_graph=True)
    assert same(torch.autograd.grad(value, leaves), expected)


@pytest.mark.parametrize("lever", ON_DISK, ids=str)
@pytest.mark.parametrize("damage", ["garbage", "truncated"])
def test_a_damaged_file_gives_no_gradient(lever: dict[str, Any], damage: str, shelves: list[Any]) -> None:
    call, _ = setting("plain")
    out = run(call, **lever)
    files = [made().medium._open.fileno() for made in shelves]
    for file in files:
        size = os.fstat(file).st_size
        if damage == "truncated":
            os.ftruncate(file, max(0, size - 1))
        elif size:
            os.pwrite(file, bytes([os.pread(file, 1, size - 1)[0] ^ 1]), size - 1)
    with pytest.raises(STORAGE, match="^storage_path = "):
        loss(out).backward()
    assert call["v"].grad is None


@pytest.mark.parametrize("lever", [EXACT["lossless"], {"storage_mode": "cpu", "storage_compression": "int8"}], ids=str)
def test_damaged_memory_gives_no_gradient(
    lever: dict[str, Any], shelves: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shelf, "PAYS", {"lz4": 0.0})
    call, _ = setting("plain")
    out = run(call, **lever)
    place, size, *_ = next(iter(shelves[0]()._kept.values()))
    shelves[0]().medium.read(place, size)[-1] ^= 1
    with pytest.raises(STORAGE, match="^storage_mode = cpu"):
        loss(out).backward()
    assert call["v"].grad is None


@pytest.mark.parametrize("lever", ON_DISK, ids=str)
@pytest.mark.parametrize("when", [0, 2])
def test_a_full_disk_is_an_error(lever: dict[str, Any], when: int, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[int] = []
    before = os.pwrite

    def pwrite(*given: Any) -> int:
        written.append(1)
        if len(written) > when:
            raise OSError(errno.ENOSPC, "No space left on device")
        return before(*given)

    monkeypatch.setattr(os, "pwrite", pwrite)
    with pytest.raises(STORAGE, match=r"^storage_path = .*No space left.*Remedy: make room"):
        run(setting("plain")[0], **lever)
    assert no_threads()


def measure(levers: dict[str, Any]) -> list[int]:
    """By how much the peak of this process's memory rises in a run and its gradient, and what the run says of itself."""

    def status(name: str) -> int:
        lines = Path("/proc/self/status").read_text().splitlines()
        return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(name))

    def gradient(cells: int, width: int, shots: int, nt: int) -> Any:
        v = torch.full((cells, cells), 1500.0).requires_grad_()
        at = torch.full((shots, 1, 2), cells // 2)
        out = numbawave.scalar(v, 10.0, 0.001, source_amplitudes=torch.ones(shots, 1, nt), source_locations=at,
                               receiver_locations=at, pml_width=width, pml_freq=20.0, **levers)  # fmt: skip
        out.receiver_amplitudes.square().sum().backward()
        return out.info

    gradient(20, 5, 2, 6)
    before = status("VmRSS")
    info = gradient(180, 60, 8, 120)
    return [status("VmHWM") - before, info.history_bytes, info.kept_bytes]


PEAKS: dict[str, dict[str, Any]] = {
    "segments": {"checkpoint_segments": 5},
    "interior": {"history": "interior"},
    "codes in memory": {"storage_mode": "cpu", "storage_compression": True},
    "disk": {"storage_mode": "disk"},
}


@lru_cache
def measured(levers: str) -> list[int]:
    """What a process of its own measures: a peak never falls again."""
    command = [sys.executable, __file__, levers]
    found = subprocess.run(command, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=120)
    assert not found.returncode, found.stderr
    numbers: list[int] = json.loads(found.stdout)
    return numbers


@pytest.mark.skipif(not os.path.isfile("/proc/self/status"), reason="the system does not tell a process's peak")
@pytest.mark.parametrize("lever", PEAKS)
def test_the_peak_falls(lever: str) -> None:
    """By half of what is promised, at least: the rest are the few parts of history that are on their way."""
    peak, history, _ = measured("{}")
    lower, _, kept = measured(json.dumps(PEAKS[lever]))
    promised = history - (0 if lever == "disk" else kept)
    assert peak > history
    assert peak - lower > promised / 2


if __name__ == "__main__":
    print(json.dumps(measure(json.loads(sys.argv[1]))))
