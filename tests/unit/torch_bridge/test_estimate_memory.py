"""An estimate from sizes is the plan of the call with arrays: the same ledger, the same errors, and next to no memory."""

import time
import tracemalloc
from dataclasses import FrozenInstanceError
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import numbawave
from numbawave.backends import simulated
from numbawave.backends.base import Backend
from numbawave.backends.cuda_layout import CudaLayout
from numbawave.engine.reversal import around, ring_sizes
from numbawave.grid.domain import LANES
from numbawave.torch_bridge import frontend
from numbawave.torch_bridge.binding import bound
from numbawave.torch_bridge.result import CallInfo
from numbawave.torch_bridge.space import DeviceTensors
from tests.unit.torch_bridge.small import CUDA

SIZES: dict[str, Any] = {"model_shape": (9, 11), "nt": 12, "n_shots": 2, "n_sources_per_shot": 3, "pml_width": 2}
CASES: dict[str, dict[str, Any]] = {
    "plain": {},
    "1-D": {"model_shape": (30,)},
    "3-D": {"model_shape": (8, 9, 10), "n_segments": 2, "accuracy": 2},
    "float64": {"dtype": "float64"},
    "a dtype of torch": {"dtype": torch.float64},
    "one shot": {"n_shots": 1, "n_receivers_per_shot": 5},
    "no sources, no receivers": {"n_sources_per_shot": 0, "n_receivers_per_shot": 0},
    "faces": {"pml_width": [0, 3, 2, 1], "accuracy": 8},
    "interior": {"history": "interior"},
    "reconstruct": {"history": "reconstruct"},
    "reconstruct to disk": {"history": "reconstruct", "storage_mode": "disk", "storage_compression": True},
    "segments": {"n_segments": 3},
    "as many as pay": {"n_segments": "auto"},
    "states": {"n_segments": 6, "checkpoint_states": 2},
    "states alone": {"checkpoint_states": 2},
    "cpu": {"storage_mode": "cpu"},
    "disk": {"storage_mode": "disk", "n_segments": 3},
    "int8": {"storage_compression": True},
    "bf16 on the host": {"storage_mode": "cpu", "storage_compression": "bf16"},
    "lossless on disk": {"storage_mode": "disk", "storage_compression": "lossless"},
    "a coding alone": {"storage_mode": "cpu", "storage_compression": numbawave.Compression(codec=None)},
    "interval": {"model_gradient_sampling_interval": 3},
    "sub-steps": {"step_ratio": 3},
    "every sub-step": {"step_ratio": 2, "model_gradient_sampling_interval": "internal"},
    "a model a shot": {"model_per_shot": True},
    "a model for one shot": {"model_per_shot": True, "n_shots": 1},
}


def call_of(given: dict[str, Any], device: str = "cpu") -> dict[str, Any]:
    """A call of ``scalar`` with arrays of these sizes."""
    sizes = {"n_shots": 1, "n_sources_per_shot": 1, "n_receivers_per_shot": 1, "dtype": "float32"} | given
    sizes |= {"model_gradient": sizes.get("model_gradient", True)}
    rng, shape, shots = np.random.default_rng(1), tuple(sizes.pop("model_shape")), sizes.pop("n_shots")
    real = getattr(torch, str(sizes.pop("dtype")).removeprefix("torch."))
    sources, receivers, nt = (sizes.pop(name) for name in ("n_sources_per_shot", "n_receivers_per_shot", "nt"))
    lead = (shots,) if sizes.pop("model_per_shot", False) else ()
    # The Courant rule lets 0.6 / sqrt(ndim) cells through a step.
    dt = 0.9 * sizes.pop("step_ratio", 1) * 0.6 / len(shape) ** 0.5 * 4.0 / 1600.0
    v = torch.from_numpy(1500.0 + 100.0 * rng.random(lead + shape)).to(device, real)
    call = {"v": v.requires_grad_(sizes.pop("model_gradient")), "grid_spacing": 4.0, "dt": dt, "max_vel": 1600.0}
    cells = rng.integers(0, min(shape), (shots, sources + receivers, len(shape)))
    call |= {
        "receiver_locations": torch.from_numpy(cells[:, sources:]),
        "checkpoint_segments": sizes.pop("n_segments", None),
    }
    if sources:
        amplitudes = torch.from_numpy(rng.standard_normal((shots, sources, nt))).to(device, real)
        return call | sizes | {"source_amplitudes": amplitudes, "source_locations": torch.from_numpy(cells[:, :sources])}
    return call | sizes | {"nt": nt, "pml_freq": 25.0}


def agree(found: numbawave.MemoryEstimate, plan: Any) -> None:
    """All that the estimate says is the plan's."""
    assert list(found.buffers) == list(plan.memory.buffers)
    for name in ("device_bytes", "host_bytes", "disk_bytes"):
        assert getattr(found, name) == getattr(plan.memory, name)


@pytest.mark.parametrize("gradient", [True, False])
@pytest.mark.parametrize("name", CASES)
def test_the_estimate_is_the_plan_of_the_call(name: str, gradient: bool) -> None:
    given = SIZES | CASES[name] | {"model_gradient": gradient}
    plan = numbawave.plan("scalar", **call_of(given))
    assert plan.info.step_ratio == given.get("step_ratio", 1)
    agree(numbawave.estimate_memory(numbawave.scalar, **given), plan)


@pytest.mark.parametrize("context", [torch.no_grad, torch.inference_mode, torch.enable_grad])
def test_whether_there_is_history_is_an_argument(context: Any) -> None:
    plain = numbawave.estimate_memory("scalar", **SIZES)
    with context():
        assert list(numbawave.estimate_memory("scalar", **SIZES).buffers) == list(plain.buffers)
        assert numbawave.estimate_memory("scalar", **SIZES, model_gradient=False).backward_storage_bytes == 0


def test_the_parts_are_sums_of_buffers() -> None:
    levers = {"storage_mode": "disk", "storage_compression": "bf16", "n_segments": 4}
    found = numbawave.estimate_memory("scalar", **SIZES, **levers)
    sizes = {buffer.name: buffer.bytes for buffer in found.buffers}
    assert found.backward_storage_bytes == sum(size for name, size in sizes.items() if name.startswith("history"))
    assert found.stored_bytes_bound == sizes["history.shelf"]
    assert found.stored_depends_on_data
    assert found.checkpoint_bytes == sizes["states"]
    assert found.checkpoint_states == 2
    assert found.disk_bytes == sizes["history.shelf"] + sizes["states"]
    ends = ("record", "residual", "gradient", "profiles")
    fields = {n: s for n, s in sizes.items() if n.partition(".")[0] in ("forward", "again", "back")}
    fields = {n: s for n, s in fields.items() if not n.partition(".")[2].startswith(ends)}
    last = [n for n in fields if found.buffers[n].last == 2]
    assert found.auxiliary_state_bytes == sum(fields[n] for n in last)


def test_what_no_codec_touches_is_exact() -> None:
    for levers in ({}, {"storage_compression": True}, {"storage_mode": "disk"}):
        found = numbawave.estimate_memory("scalar", **SIZES, **levers)
        assert not found.stored_depends_on_data
        assert (found.stored_bytes_bound > 0) == ("storage_mode" in levers)


class Allocations(TorchDispatchMode):
    """Counts the bytes of the storages that torch's operations return."""

    total = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        for value in result if isinstance(result, tuple | list) else (result,):
            if isinstance(value, torch.Tensor):
                self.total += value.untyped_storage().nbytes()
        return result


@pytest.mark.parametrize("history", ["full", "interior", "reconstruct"])
@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("per_shot", [False, True])
def test_a_large_estimate_is_quick_and_small(device: str, history: str, per_shot: bool) -> None:
    levers = {"device": device, "history": history, "model_per_shot": per_shot, "n_segments": "auto"}
    with Allocations():  # what is derived and imported once is there
        numbawave.estimate_memory("scalar", (40, 40, 40), 10, **levers)
    tracemalloc.start()
    started = time.perf_counter()
    try:
        with Allocations() as torchs:
            found = numbawave.estimate_memory("scalar", (2000, 2000, 2000), 1000, 4, n_receivers_per_shot=1000, **levers)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert time.perf_counter() - started < 2
    assert most + torchs.total < 50e6
    assert found.buffers["forward.wavefield"].bytes > 4 * 4 * 2000**3


@pytest.mark.parametrize("levers", [{}, {"storage_compression": True}], ids=str)
def test_cells_around_a_core_are_counted_as_they_are_listed(levers: dict[str, Any]) -> None:
    frame = "around_edge" if levers else "around_frame"
    shapes = ({"model_shape": shape} for shape in ((3, 40), (40, 3), (3, 3)))
    for given in ({}, {"pml_width": [0, 3, 2, 1]}, {"pml_width": 0}, *shapes, {"model_shape": (7, 8, 9), "accuracy": 8}):
        call = call_of(SIZES | {"pml_width": 2, "history": "reconstruct"} | given) | levers
        run = frontend.prepare(*bound(numbawave.equations.EQUATIONS["scalar"], **call)).run
        here, there = around(run)
        assert here.keys() <= there.keys()
        for cells in (here, there):
            assert [cells[name].size for name in ("around_core", frame)] == ring_sizes(run)
        assert {there[name].size for name in there if name.endswith("frame")} <= {ring_sizes(run)[1]}


def test_a_ring_of_wavefields_takes_half_of_one_with_history() -> None:
    """What 100^3 cells, 600 steps and 4 shots take on a GPU: less than 2 GB."""
    sizes = {"nt": 600, "n_shots": 4, "device": "cuda", "history": "reconstruct"}
    found = numbawave.estimate_memory("scalar", (100, 100, 100), **sizes)
    coded = numbawave.estimate_memory("scalar", (100, 100, 100), **sizes, storage_compression="int8")
    frame, next_to_the_core = 100**3 - 96**3, 6 * 2 * 96**2
    assert found.buffers["ring"].shape == (600, 4 * frame)
    assert coded.buffers["ring.codes"].shape == (600 * 4 * (frame + next_to_the_core),)
    assert found.device_bytes < 2.0e9


@pytest.mark.parametrize("name", CASES)
def test_an_estimate_for_a_gpu_needs_none(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    given = SIZES | CASES[name]
    found = numbawave.estimate_memory("scalar", **given, device="cuda")
    real = torch.float64 if "float64" in str(given.get("dtype")) else torch.float32
    monkeypatch.setattr(frontend, "space_of", lambda model: DeviceTensors(real, 0))
    monkeypatch.setattr(frontend, "_backend", lambda *_: CudaLayout())
    monkeypatch.setattr(CallInfo, "_on_device", True)
    agree(found, SimpleNamespace(memory=numbawave.plan("scalar", **call_of(given)).memory))
    assert found.device_bytes > 0
    assert found.buffers["forward.wavefield"].shape[-1] % 32 == 0


@pytest.mark.gpu
@pytest.mark.skipif(simulated(), reason="the simulator has no memory of its own")
@pytest.mark.parametrize("name", CASES)
def test_an_estimate_for_a_gpu_is_the_plan_there(name: str) -> None:
    given = SIZES | CASES[name]
    plan = numbawave.plan("scalar", **call_of(given, "cuda"))
    agree(numbawave.estimate_memory("scalar", **given, device="cuda"), plan)


@pytest.mark.parametrize("backend", [CUDA])
def test_the_backend_takes_its_layout_from_there(backend: str) -> None:
    from numbawave.backends import BACKENDS

    found: Backend = BACKENDS[backend]()
    assert isinstance(found, CudaLayout)
    assert "copies" not in vars(type(found))


@pytest.mark.parametrize(
    "change",
    [
        {"accuracy": 3},
        {"pml_width": -1},
        {"pml_width": [1, 2, 3]},
        {"nt": 0},
        {"nt": 1.5},
        {"n_segments": 0},
        {"n_segments": 100},
        {"checkpoint_states": -1},
        {"history": "some"},
        {"storage_mode": "tape"},
        {"storage_mode": "none"},
        {"storage_compression": "zip"},
        {"storage_compression": "lossless"},
        {"model_gradient_sampling_interval": 0},
    ],
    ids=str,
)
def test_errors_are_the_calls(change: dict[str, Any]) -> None:
    renamed = {{"n_segments": "checkpoint_segments"}.get(name, name): value for name, value in change.items()}
    found = []
    for refuse in (
        lambda: numbawave.estimate_memory("scalar", **SIZES | change),
        lambda: numbawave.plan("scalar", **call_of(SIZES) | renamed),
    ):
        with pytest.raises(numbawave.NumbawaveError) as error:
            refuse()
        found.append((type(error.value), str(error.value)))
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("change", "start"),
    [
        ({"model_shape": (9, 0)}, "model_shape = 0"),
        ({"model_shape": 9}, "model_shape = 9"),
        ({"model_shape": ()}, "ndim = 0"),
        ({"model_shape": (1, 2, 3, 4)}, "ndim = 4"),
        ({"n_shots": 0}, "n_shots = 0"),
        ({"n_shots": True}, "n_shots = True"),
        ({"n_sources_per_shot": -1}, "n_sources_per_shot = -1"),
        ({"n_receivers_per_shot": None}, "n_receivers_per_shot = None"),
        ({"nt": None}, "nt = None"),
        ({"step_ratio": 0}, "step_ratio = 0"),
        ({"dtype": "float16"}, "dtype = float16"),
        ({"device": "tpu"}, "device = tpu"),
        ({"propagator": "scalr"}, "propagator = scalr"),
    ],
    ids=str,
)
def test_a_size_that_is_none_is_refused(change: dict[str, Any], start: str) -> None:
    with pytest.raises(numbawave.NumbawaveError, match=f"^{start.replace('(', '.')}.*Remedy"):
        numbawave.estimate_memory(**{"propagator": "scalar"} | SIZES | change)


def test_an_expanded_model_is_checked_by_its_values() -> None:
    call = call_of(SIZES | {"model_gradient": False})
    for bad in (float("nan"), -1.0, 0.0):
        with pytest.raises(numbawave.InvalidValueError, match="^v = .*cell z 0, x 0.*99 such cells"):
            numbawave.plan("scalar", **call | {"v": torch.tensor(bad).expand(9, 11)})
    column = torch.tensor([[1500.0], [1500.0], [float("inf")]]).expand(3, LANES)
    with pytest.raises(numbawave.InvalidValueError, match="cell z 2, x 0"):
        numbawave.plan("scalar", **call | {"v": column, "receiver_locations": None, "source_locations": None,
                                           "source_amplitudes": None, "nt": 3, "pml_freq": 1.0})  # fmt: skip


def test_the_summary_says_what_is_a_bound() -> None:
    found = numbawave.estimate_memory("scalar", **SIZES, storage_mode="disk", storage_compression="int8", n_segments=4)
    assert str(found) == found.summary()
    for part in ("host, at most", "disk, at most", "2 states between segments", "codec may save", str(found.buffers)):
        assert part in str(found)
    assert "codec" not in str(numbawave.estimate_memory("scalar", **SIZES))
    with pytest.raises(FrozenInstanceError):
        found.host_bytes = 0  # type: ignore[misc]
