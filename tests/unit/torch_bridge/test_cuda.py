"""The public call on a GPU: what it gives is what the CPU gives, and it keeps to the caller's device and stream."""

from typing import Any

import numpy as np
import pytest
import torch

import numbawave
from numbawave.backends import simulated
from tests import tolerance
from tests.unit.torch_bridge.small import NO_SIMULATOR, loss, run, small

NT = 8
OTHER = "reference" if simulated() else "cpu"
"""What the GPU is compared with; in the simulator the oracle, which needs no compiling."""


def outcome(call: dict[str, Any]) -> dict[str, torch.Tensor]:
    """Every output, and the gradients of model and amplitudes."""
    leaves = {name: call[name].detach().clone().requires_grad_() for name in ("v", "source_amplitudes")}
    out = run(call, **leaves)
    found = {name: getattr(out, name) for name in ("receiver_amplitudes", "wavefield_0", "wavefield_m1")}
    found |= out.auxiliary_state.tensors if out.auxiliary_state else {}
    found |= dict(zip(leaves, torch.autograd.grad(loss(out), leaves.values()), strict=True))
    return {name: value.detach() for name, value in found.items()}


def assert_same(found: dict[str, torch.Tensor], expected: dict[str, torch.Tensor], limit: float = 0.0) -> None:
    """To the last bit, or as far apart as that; of memory variables, laid out as a backend likes, the names."""
    assert found.keys() == expected.keys()
    for name in ("receiver_amplitudes", "wavefield_0", "wavefield_m1", "v", "source_amplitudes"):
        one, other = found[name].cpu().numpy(), expected[name].cpu().numpy()
        assert tolerance.apart(one, other) <= limit, name


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("ndim", "changes"),
    [
        (1, {}),
        (2, {}),
        (3, {"nt": 4}),
        (2, {"accuracy": 8}),
        (2, {"pml_width": 0}),
        (2, {"shots": 3, "pml_width": [0, 0, 2, 0]}),
        (2, {"dt": 0.9, "nt": 3}),
        (2, {"dt": 0.9, "nt": 3, "model_gradient_sampling_interval": "internal"}),
        (2, {"model_gradient_sampling_interval": 3}),
    ],
    ids=lambda value: "-".join(f"{n}={v}" for n, v in value.items()).replace(" ", "") if isinstance(value, dict) else None,
)
def test_the_gpu_gives_what_the_cpu_gives(ndim: int, changes: dict[str, Any], dtype: str) -> None:
    given = {"nt": NT, "dtype": getattr(torch, dtype)} | changes
    calls = [small(ndim, backend=backend, **given) for backend in ("cuda", OTHER)]
    steps = calls[0]["source_amplitudes"].shape[-1] * run(calls[1]).info.step_ratio

    found, expected = map(outcome, calls)

    assert_same(found, expected, tolerance.steps(dtype, steps))


@pytest.mark.gpu
def test_a_model_for_each_shot_is_that_of_the_cpu() -> None:
    calls = [small(2, nt=NT, backend=backend) for backend in ("cuda", OTHER)]
    for call in calls:
        call["v"] = torch.stack([call["v"], call["v"].flip(0)])

    found, expected = map(outcome, calls)

    assert_same(found, expected, tolerance.steps("f8", NT))


@pytest.mark.gpu
def test_results_lie_where_the_model_does() -> None:
    call = small(2, backend="cuda")
    out = run(call)
    tensors = (out.receiver_amplitudes, out.wavefield_0, out.wavefield_m1, *out.auxiliary_state.tensors.values())
    assert {value.device for value in tensors} == {call["v"].device}
    assert (out.info.backend, out.info.device) == ("cuda", str(call["v"].device))


@pytest.mark.skipif(simulated(), reason="the simulator takes tensors of the host")
def test_a_tensor_of_the_host_is_refused_by_the_gpus_backend() -> None:
    call = small(2) | {"backend": "cuda"}
    with pytest.raises(numbawave.BackendError, match=r'^backend = cuda: v lies on cpu. Remedy: move it: v.to\("cuda"\)'):
        run(call)


@pytest.mark.gpu
@NO_SIMULATOR
@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_a_tensor_of_the_gpu_is_refused_by_the_other_backends(backend: str) -> None:
    call = small(2, backend="cuda")
    message = rf'^backend = {backend}: v lies on cuda:0. Remedy: move it: v.to\("cpu"\)'
    with pytest.raises(numbawave.BackendError, match=message):
        run(call, backend=backend)


@pytest.mark.gpu
@NO_SIMULATOR
def test_auto_follows_the_model() -> None:
    assert run(small(2, backend="cuda"), backend="auto").info.backend == "cuda"
    assert run(small(2, backend="cpu"), backend="auto").info.backend == "cpu"


@pytest.mark.gpu
@NO_SIMULATOR
@pytest.mark.parametrize("argument", ["source_amplitudes", "wavefield_0"])
def test_arguments_on_two_devices_are_refused_by_name(argument: str) -> None:
    call = small(2, backend="cuda", wavefield_0=torch.zeros(2, 4, 5, dtype=torch.float64))
    with pytest.raises(numbawave.InvalidTypeError, match=f"^{argument} = cpu: must lie where v does, on cuda:0"):
        run(call, **{argument: call[argument].cpu()})


@pytest.mark.gpu
@NO_SIMULATOR
def test_work_is_done_on_the_callers_stream() -> None:
    call = small(2, nt=40, backend="cuda")
    expected, stream = outcome(call), torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    for _ in range(3):
        with torch.cuda.stream(stream):
            busy = torch.zeros((), device="cuda")
            torch.cuda._sleep(20_000_000)
            found = outcome(call | {"v": call["v"] + busy})
        stream.synchronize()
        assert_same(found, expected)


@pytest.mark.gpu
@NO_SIMULATOR
def test_calls_in_turn_replay_the_graphs_that_they_have(monkeypatch: pytest.MonkeyPatch) -> None:
    from numbawave.backends import cuda_graph

    made = []
    known = cuda_graph.Graph
    monkeypatch.setattr(cuda_graph, "Graph", lambda *given: made.append(0) or known(*given))
    lengths = (40, 42)
    calls, others = ([small(2, nt=nt, backend=backend) for nt in lengths] for backend in ("cuda", "cpu"))
    for _ in range(3):  # by then the allocator hands out the same memory
        for call in calls:
            outcome(call)
    torch.cuda.synchronize()
    before = len(made)
    for call, other, nt in zip(calls, others, lengths, strict=True):
        # Nothing of a call is kept here: the next one would take other memory.
        assert_same(outcome(call), outcome(other), tolerance.steps("f8", nt))

    assert before > 0
    assert len(made) == before


@pytest.mark.gpu
@NO_SIMULATOR
def test_another_device_than_the_current_one() -> None:
    if torch.cuda.device_count() < 2:
        pytest.skip("this machine has one GPU")
    call = small(2, backend="cuda")
    expected = outcome(call)

    found = outcome({n: v.to("cuda:1") if isinstance(v, torch.Tensor) else v for n, v in call.items()})

    assert {value.device for value in found.values()} == {torch.device("cuda:1")}
    assert torch.cuda.current_device() == 0
    assert_same(found, expected)


@pytest.mark.gpu
@NO_SIMULATOR
def test_history_is_freed_by_the_backward_pass() -> None:
    call = small(2, nt=200, backend="cuda")
    outcome(call)
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    v = call["v"].clone().requires_grad_()
    value = loss(run(call, v=v))
    held = torch.cuda.memory_allocated() - before

    value.backward()

    assert held > run(call, v=v).info.history_bytes
    del value, v
    assert torch.cuda.memory_allocated() <= before


def survey(shape: tuple[int, ...], nt: int, dtype: torch.dtype) -> dict[str, Any]:
    """A call of some size."""
    rng = np.random.default_rng(7)
    places = torch.from_numpy(np.stack([rng.integers(0, n, (2, 6)) for n in shape], -1))
    return {
        "v": torch.from_numpy(2000 + 500 * rng.random(shape)).to(dtype),
        "grid_spacing": 10.0,
        "dt": 0.001,
        "source_amplitudes": torch.from_numpy(rng.standard_normal((2, 3, nt))).to(dtype),
        "source_locations": places[:, :3],
        "receiver_locations": places[:, 2:],
        "pml_width": [5, 10] * len(shape),
        "pml_freq": 20.0,
    }


@pytest.mark.gpu
@NO_SIMULATOR
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("shape", "nt"), [((900,), 150), ((150, 170), 150), ((40, 45, 50), 70)])
def test_a_larger_run_as_it_is_launched_for_users(
    shape: tuple[int, ...], nt: int, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the graphs, the tiles and the forms that a user's run has; the tests' fixture is undone."""
    monkeypatch.undo()
    call = survey(shape, nt, getattr(torch, dtype))
    there = {name: value.cuda() if isinstance(value, torch.Tensor) else value for name, value in call.items()}

    found, again, expected = outcome(there), outcome(there), outcome(call)

    assert_same(found, again)
    assert_same(found, expected, tolerance.steps(dtype, nt))
