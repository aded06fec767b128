"""Shots in batches: the same records bit for bit, the same gradients to rounding, and the memory of one batch."""

from typing import Any

import numpy as np
import pytest
import torch

import numbawave
from numbawave.planning.ledger import Moment
from tests.tolerance import apart, steps
from tests.unit.torch_bridge.small import CUDA, loss, run, small

SHOTS = 5
LEVERS: dict[str, dict[str, Any]] = {
    "plain": {},
    "interior": {"history": "interior"},
    "reconstruct": {"history": "reconstruct"},
    "segments": {"checkpoint_segments": 3},
    "states on disk": {"storage_mode": "disk", "checkpoint_segments": 6, "checkpoint_states": 2},
    "cpu": {"storage_mode": "cpu"},
    "lossless on disk": {"storage_mode": "disk", "storage_compression": "lossless"},
    "bf16": {
        "storage_compression": "bf16",
        "history": "reconstruct",
        "checkpoint_segments": 2,
    },  # value by value, unlike int8
    "interval": {"model_gradient_sampling_interval": 3},
    "sub-steps": {"dt": 0.4},
    "3-D": {"ndim": 3},
}


def gradients(given: dict[str, Any], **levers: Any) -> tuple[list[torch.Tensor], list[torch.Tensor], Any]:
    """Outputs, gradients of the model, amplitudes and initial wavefields, and the output's info."""
    given = dict(given)
    grid = given["v"].shape[-len(given["grid_spacing"]) :]
    rng = np.random.default_rng(7)
    for name in ("wavefield_0", "wavefield_m1"):
        given[name] = torch.from_numpy(rng.standard_normal((SHOTS, *grid))).to(given["v"])
    names = ("v", "source_amplitudes", "wavefield_0", "wavefield_m1")
    for name in names:
        given[name] = given[name].clone().requires_grad_()
    out = run(given, **levers)
    memory = list(out.auxiliary_state.tensors.values())
    found = torch.autograd.grad(loss(out), [given[name] for name in names])
    return [*(out[k] for k, name in enumerate(out.names) if name != "auxiliary_state"), *memory], list(found), out.info


KINDS = ("wavefield", "wavefield_next", *(f"{kind}_{axis}" for kind in ("psi", "zeta") for axis in "zx"))


@pytest.mark.parametrize("shared", [True, False], ids=["one model", "a model a shot"])
@pytest.mark.parametrize("name", LEVERS)
def test_results_are_those_of_all_at_once(name: str, shared: bool) -> None:
    given = small(shots=SHOTS, backend="cpu", ndim=LEVERS[name].get("ndim", 2))
    given |= {key: value for key, value in LEVERS[name].items() if key != "ndim"}
    if not shared:
        scale = torch.linspace(0.9, 1.0, SHOTS, dtype=torch.float64)
        given["v"] = given["v"] * scale.reshape(-1, *[1] * given["v"].ndim)
    outputs, found, info = gradients(given)
    for batch in (1, 2, 4):
        batched, others, there = gradients(given, shot_batch=batch)
        assert all(torch.equal(one, other) for one, other in zip(outputs, batched, strict=True))
        assert max(apart(one.numpy(), other.numpy()) for one, other in zip(others, found, strict=True)) < 1e-13
        assert (info.shot_batch, there.shot_batch) == (SHOTS, batch)


@pytest.mark.parametrize("backend", [CUDA])
def test_results_are_those_of_all_at_once_on_a_gpu(backend: str) -> None:
    given = small(shots=SHOTS, backend=backend, checkpoint_segments=2)
    outputs, found, _ = gradients(given)
    batched, others, _ = gradients(given, shot_batch=2)
    assert all(torch.equal(one, other) for one, other in zip(outputs, batched, strict=True))
    for one, other in zip(others, found, strict=True):
        assert apart(one.cpu().numpy(), other.cpu().numpy()) < steps("float64", 8)


def test_as_many_as_there_are_changes_nothing() -> None:
    given = small(shots=SHOTS, backend="cpu")
    given["v"] = given["v"].clone().requires_grad_()
    for batch in (SHOTS, SHOTS + 3):
        assert list(run(given, shot_batch=batch).info.ledger) == list(run(given).info.ledger)


def test_a_run_goes_on_from_a_batched_one() -> None:
    given = small(shots=SHOTS, backend="cpu")
    whole = run(given)
    half = given["source_amplitudes"][..., :4], given["source_amplitudes"][..., 4:]
    first = run(given, source_amplitudes=half[0], shot_batch=2)
    second = run(given, source_amplitudes=half[1], shot_batch=3, initial_state=first)
    assert torch.equal(second.wavefield_0, whole.wavefield_0)
    record = torch.cat([first.receiver_amplitudes, second.receiver_amplitudes], -1)
    assert torch.equal(record, whole.receiver_amplitudes)


def test_a_second_pass_back_gives_the_same() -> None:
    given = small(shots=SHOTS, backend="cpu", storage_mode="disk", checkpoint_segments=2)
    given["v"] = given["v"].clone().requires_grad_()
    value = loss(run(given, shot_batch=2))
    (first,) = torch.autograd.grad(value, given["v"], retain_graph=True)
    (second,) = torch.autograd.grad(value, given["v"])
    assert torch.equal(first, second)


def test_a_source_alone_needs_no_history() -> None:
    given = small(shots=SHOTS, backend="cpu")
    given["source_amplitudes"].requires_grad_()
    (one,) = torch.autograd.grad(loss(run(given)), given["source_amplitudes"])
    (other,) = torch.autograd.grad(loss(run(given, shot_batch=2)), given["source_amplitudes"])
    assert torch.equal(one, other)


def test_memory_is_the_results_and_one_batch() -> None:
    given = small(shots=8, nt=400, backend="cpu", receiver_locations=None)
    given["v"] = given["v"].clone().requires_grad_()
    whole, part = numbawave.plan("scalar", **given), numbawave.plan("scalar", **given, shot_batch=2)
    assert list(part.memory.buffers) == list(run(given, shot_batch=2).info.ledger)
    buffers = part.memory.buffers
    assert buffers["history"].bytes * 4 == whole.memory.buffers["history"].bytes
    assert buffers["history"].first == Moment.BACKWARD
    results = sum(b.bytes for b in buffers if b.name.startswith("all.") and b.first == Moment.FORWARD)
    given_bytes = sum(b.bytes for b in buffers if b.given)
    assert buffers.bytes("device", Moment.BETWEEN) < results + given_bytes + buffers["batch.amplitude_source"].bytes + 1
    assert part.memory.host_bytes < whole.memory.host_bytes / 2


@pytest.mark.parametrize(
    ("graded", "expected"),
    [
        ((), set()),
        (("v",), {"gradient_c", "gradient_source"}),
        (("wavefield_0",), {"gradient_source", *(f"adjoint_{kind}" for kind in KINDS)}),
    ],
)
def test_only_the_gradients_that_are_wanted_are_planned_for(graded: tuple[str, ...], expected: set[str]) -> None:
    given = small(shots=4, backend="cpu")
    given["wavefield_0"] = torch.zeros((4, *given["v"].shape), dtype=given["v"].dtype)
    for name in graded:
        given[name].requires_grad_()
    ledger = numbawave.plan("scalar", **given, shot_batch=2).memory.buffers
    back = {b.name.removeprefix("all.") for b in ledger if b.name.startswith("all.") and b.first == Moment.BACKWARD}
    assert back == expected
    assert list(run(given, shot_batch=2).info.ledger) == list(ledger)


@pytest.mark.parametrize("batch", [0, -1, 1.5, True, "auto"])
def test_a_batch_is_a_number_of_shots(batch: Any) -> None:
    with pytest.raises(numbawave.InvalidValueError, match="^shot_batch = .*is a whole number, 1 or more"):
        run(small(), shot_batch=batch)
