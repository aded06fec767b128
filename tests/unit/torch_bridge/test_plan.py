"""A plan is what the call then takes: the same ledger, the same errors, and no work."""

import tracemalloc
from dataclasses import FrozenInstanceError, fields
from pathlib import Path
from typing import Any

import pytest
import torch

import numbawave
from numbawave.codegen import module_cache
from numbawave.engine.space import HostMemory
from numbawave.history.media import File, Rooms
from numbawave.planning.ledger import Buffer, Ledger, Moment
from numbawave.torch_bridge import plan as planning
from numbawave.torch_bridge import propagators
from numbawave.torch_bridge.function import Propagation
from tests.unit.torch_bridge.small import CUDA, device_of, run, small
from tests.unit.torch_bridge.test_guards import BAD

LEVERS: dict[str, dict[str, Any]] = {
    "plain": {},
    "interior": {"history": "interior"},
    "reconstruct": {"history": "reconstruct"},
    "segments": {"checkpoint_segments": 3},
    "as many as pay": {"checkpoint_segments": "auto"},
    "states": {"checkpoint_segments": 6, "checkpoint_states": 1},
    "cpu": {"storage_mode": "cpu"},
    "disk": {"storage_mode": "disk"},
    "states on disk": {"storage_mode": "disk", "checkpoint_segments": 6, "checkpoint_states": 2},
    "int8": {"storage_compression": True},
    "bf16": {"storage_compression": "bf16"},
    "lossless on disk": {"storage_mode": "disk", "storage_compression": "lossless"},
    "reconstruct in coded segments": {"history": "reconstruct", "checkpoint_segments": 3, "storage_compression": True},
    "interval": {"model_gradient_sampling_interval": 3},
    "mask": {"gradient_mask": torch.arange(20).reshape(4, 5) == 7},
    "sub-steps": {"dt": 0.4},
    "every sub-step": {"dt": 0.4, "model_gradient_sampling_interval": "internal"},
    "a model a shot": {"v": torch.full((2, 4, 5), 1.5, dtype=torch.float64)},
    "batches of shots": {"shot_batch": 1, "storage_mode": "disk", "checkpoint_segments": 2},
    "initial wavefields": {"wavefield_0": torch.ones(2, 4, 5, dtype=torch.float64)},
}

SHAPES: dict[str, dict[str, Any]] = {
    "1-D": {"ndim": 1},
    "3-D in segments": {"ndim": 3, "checkpoint_segments": 2},
    "float32": {"dtype": torch.float32},
    "one shot": {"shots": 1},
    "three shots": {"shots": 3, "accuracy": 8},
}


def wanting(call: dict[str, Any], gradient: bool) -> dict[str, Any]:
    """The call, with a model of its own that requires a gradient or does not."""
    return call | {"v": call["v"].clone().requires_grad_(gradient)}


def agree(plan: planning.Plan, out: numbawave.PropagatorOutput) -> None:
    """All that the plan says of the call is so."""
    assert list(plan.memory.buffers) == list(out.info.ledger)
    assert plan.info.ledger is plan.memory.buffers
    assert {f.name for f in fields(out.info)} - {f.name for f in fields(plan.info)} == {
        "kept_bytes",
        "coding_seconds",
        "seconds",
        "measured_bytes",
    }
    for field in fields(plan.info):
        if field.name != "ledger":
            assert getattr(plan.info, field.name) == getattr(out.info, field.name), field.name


@pytest.mark.parametrize("gradient", [True, False])
@pytest.mark.parametrize("name", LEVERS)
def test_the_plan_is_what_the_call_takes(name: str, gradient: bool) -> None:
    call = wanting(small(backend="cpu") | LEVERS[name], gradient)
    plan = numbawave.plan(numbawave.scalar, **call)
    agree(plan, run(call))
    assert ("history" in [buffer.name for buffer in plan.memory.buffers]) == gradient


@pytest.mark.parametrize("name", SHAPES)
def test_the_plan_is_what_a_call_of_any_shape_takes(name: str) -> None:
    call = wanting(small(**SHAPES[name], backend="cpu"), True)
    agree(numbawave.plan(numbawave.scalar, **call), run(call))


def test_whether_a_gradient_is_wanted_is_the_calls_rule() -> None:
    call = wanting(small(), True)
    with torch.no_grad():
        plan = numbawave.plan("scalar", **call)
        agree(plan, run(call))
    assert plan.info.history_bytes == 0
    call = small()
    call["source_amplitudes"].requires_grad_()
    agree(numbawave.plan("scalar", **call), run(call))


def test_a_name_and_arguments_in_front_mean_the_same() -> None:
    call = wanting(small(), True)
    leading = [call.pop(name) for name in ("v", "grid_spacing", "dt")]
    agree(numbawave.plan("scalar", *leading, **call), numbawave.scalar(*leading, **call))


@pytest.mark.parametrize("gradient", [True, False])
def test_a_module_brings_its_model_and_options(gradient: bool) -> None:
    call = small()
    v, spacing = call.pop("v"), call.pop("grid_spacing")
    wave = numbawave.Scalar(v, spacing, gradient, accuracy=2, checkpoint_segments=2)
    plan = numbawave.plan(wave, **call, checkpoint_segments=4)
    agree(plan, wave(**call, checkpoint_segments=4))
    assert plan.info.accuracy == 2


def test_a_state_to_go_on_from_is_planned_with() -> None:
    call = wanting(small(), True)
    state = run(call).final_state
    agree(numbawave.plan("scalar", **call, initial_state=state), run(call, initial_state=state))


def test_a_state_of_another_layout_is_refused_alike() -> None:
    call = small()
    state = run(call)
    with pytest.raises(numbawave.InvalidValueError) as called:
        run(call, initial_state=state, pml_width=3)
    with pytest.raises(numbawave.InvalidValueError) as planned:
        numbawave.plan("scalar", **call | {"initial_state": state, "pml_width": 3})
    assert str(planned.value) == str(called.value)


REFUSED = BAD | {"no history": ({"storage_mode": "none", "v": small()["v"].requires_grad_()}, ValueError, "")}


@pytest.mark.parametrize("name", REFUSED)
def test_errors_are_the_calls(name: str) -> None:
    call = small() | REFUSED[name][0]
    found = []
    for refuse in (numbawave.scalar, lambda **given: numbawave.plan("scalar", **given)):
        with pytest.raises(numbawave.NumbawaveError) as error:
            refuse(**call)
        found.append((type(error.value), str(error.value)))
    assert found[0] == found[1]


@pytest.mark.parametrize("change", [{}, {"dt": 0.1, "spacing": 1}])
def test_errors_are_a_modules(change: dict[str, Any]) -> None:
    wave = numbawave.Scalar(torch.ones(4, 5), 1.0)
    with pytest.raises(TypeError) as called:
        wave(**change)
    with pytest.raises(type(called.value)):
        numbawave.plan(wave, **change)


def test_what_is_no_propagator_is_refused() -> None:
    with pytest.raises(numbawave.InvalidValueError, match="^propagator = scalr.*give one of scalar"):
        numbawave.plan("scalr")
    with pytest.raises(numbawave.InvalidTypeError, match="^propagator"):
        numbawave.plan(torch.nn.Linear(1, 1))


@pytest.fixture
def no_work(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What runs, prints, allocates or opens a file fails the test."""
    monkeypatch.setenv("NUMBAWAVE_CACHE_DIR", str(tmp_path / "cache"))

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("work was done")

    places = [(HostMemory, "zeros"), (HostMemory, "empty"), (HostMemory, "buffer"), (Propagation, "apply")]
    places += [(module_cache, "_written"), (propagators, "_inputs"), (File, "__init__"), (Rooms, "__init__")]
    for place, name in places:
        monkeypatch.setattr(place, name, refuse)


def large(tmp_path: Path) -> dict[str, Any]:
    """A call that no machine could run."""
    shots = 20_000
    points = torch.zeros(shots, 1, 2, dtype=torch.int64)
    v = torch.full((150, 200), 1500.0, requires_grad=True)
    return {"v": v, "grid_spacing": 5.0, "dt": 5e-4, "receiver_locations": points, "nt": 10**6, "pml_freq": 25.0,
            "storage_mode": "disk", "storage_path": str(tmp_path), "checkpoint_segments": 10}  # fmt: skip


@pytest.mark.usefixtures("no_work")
def test_nothing_is_done(tmp_path: Path) -> None:
    call = large(tmp_path)
    numbawave.plan("scalar", **call)  # what is derived once is derived
    tracemalloc.start()
    try:
        plan = numbawave.plan("scalar", **call)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < 1e-3 * plan.memory.buffers["forward.wavefield"].bytes
    assert plan.memory.disk_bytes > 1e14
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("no_work")
def test_the_rule_sees_work(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="work was done"):
        numbawave.scalar(**large(tmp_path))


def test_peaks_are_the_ledgers_by_what_a_place_is() -> None:
    ledger = Ledger(
        [
            Buffer("field", (10,), "float64", last=Moment.FORWARD),
            Buffer("gradient", (6,), "float64", first=Moment.BACKWARD),
            Buffer("staged", (3,), "float64", "pinned", first=Moment.BACKWARD),  # 24 bytes, of which PyTorch makes 32
            Buffer("states", (3,), "float64", "host"),
            Buffer("history", (5,), "float64", "disk", first=Moment.BETWEEN),
        ]
    )
    there = planning.Memory.of(ledger, on_device=True)
    # 80 bytes forward and 48 back, each in 512 of a GPU's: at the same size the first moment counts
    assert (there.device_bytes, there.device_moment) == (512, Moment.FORWARD)
    assert (there.host_bytes, there.host_moment) == (56, Moment.BACKWARD)
    assert (there.disk_bytes, there.disk_moment) == (40, Moment.BETWEEN)
    here = planning.Memory.of(ledger, on_device=False)
    assert (here.device_bytes, here.host_bytes, here.host_moment) == (0, 104, Moment.FORWARD)
    assert here.disk_bytes == 40


def test_on_a_cpu_all_is_the_hosts() -> None:
    plan = numbawave.plan("scalar", **wanting(small(storage_mode="cpu"), True))
    most, moment = plan.memory.buffers.peak("device")
    assert (plan.memory.host_bytes, plan.memory.host_moment) == (most, moment)
    assert plan.memory.device_bytes == plan.memory.disk_bytes == 0


@pytest.mark.parametrize("backend", [CUDA])
def test_on_a_gpu_the_plan_is_what_the_call_takes(backend: str) -> None:
    call = wanting(small(backend=backend, storage_mode="cpu", checkpoint_segments=2), True)
    plan = numbawave.plan("scalar", **call)
    agree(plan, run(call))
    assert (plan.memory.device_bytes > 0) == (device_of(backend) == "cuda")
    assert plan.memory.host_bytes > 0


@pytest.mark.parametrize("shot_batch", [None, 1])
def test_results_that_are_let_go_are_not_held_on_the_way_back(shot_batch: int | None) -> None:
    call = wanting(small(shot_batch=shot_batch), True)
    memory, out = numbawave.plan("scalar", **call).memory, numbawave.scalar(**call)
    held = [x for x in out if isinstance(x, torch.Tensor) and x is not out.receiver_amplitudes]
    held += out.auxiliary_state.tensors.values()
    storages = {x.untyped_storage().data_ptr(): x.untyped_storage().nbytes() for x in held}
    less = memory.without_results()
    back, there = (each.buffers.bytes("device", Moment.BACKWARD) for each in (less, memory))
    assert there - back == sum(b.bytes for b in memory.buffers if b.result)
    assert less.host_bytes == max(back, memory.buffers.bytes("device", Moment.FORWARD))
    assert sum(b.bytes for b in memory.buffers if b.result) == sum(storages.values())


def test_the_summary_shows_the_peaks_and_the_table() -> None:
    plan = numbawave.plan("scalar", **wanting(small(nt=4000, storage_mode="disk"), True))
    memory, lines = plan.memory, plan.summary().splitlines()
    alone = f"{memory.without_results().host_bytes / 1e6:.3f} if of the results only records are kept"
    assert f"host: {memory.host_bytes / 1e6:.3f} MB at most, {memory.host_moment.name.lower()}; {alone}" in lines
    assert f"disk: {memory.disk_bytes / 1e6:.3f} MB at most, {memory.disk_moment.name.lower()}" in lines
    assert memory.disk_bytes > 1e6
    assert not [line for line in lines if line.startswith("device:")]
    assert str(memory.buffers) in plan.summary()
    assert plan.summary().endswith("here the host")


def test_a_plan_does_not_change() -> None:
    plan = numbawave.plan("scalar", **small())
    for part, name in ((plan, "info"), (plan.info, "dt"), (plan.memory, "host_bytes")):
        with pytest.raises(FrozenInstanceError):
            setattr(part, name, None)
