"""Arrays of every kind either work or are a clear error that names the argument."""

from typing import Any

import numpy as np
import pytest
import torch

import numbawave
from numbawave.torch_bridge.arrays import numpy_view, tensor
from tests.unit.torch_bridge.small import BACKENDS, COMPILED, device_of, loss, run, small


def numpy_call(**changes: Any) -> dict[str, Any]:
    return {n: v.numpy() if isinstance(v, torch.Tensor) else v for n, v in small(**changes).items()}


class Foreign:
    """An array of another package: DLPack and nothing else."""

    def __init__(self, array: np.ndarray) -> None:
        self.array, self.ndim, self.shape = array, array.ndim, array.shape

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()


class Standard(Foreign):
    """An array of another package that follows the array API standard."""

    def __array_namespace__(self) -> Any:
        class Space:
            @staticmethod
            def from_dlpack(value: Any) -> "Standard":
                return Standard(np.from_dlpack(value))

        return Space


def test_numpy_in_numpy_out() -> None:
    expected = run(small())

    out = run(numpy_call())

    for name in ("receiver_amplitudes", "wavefield_0", "wavefield_m1"):
        found = getattr(out, name)
        assert isinstance(found, np.ndarray)
        assert np.array_equal(found, getattr(expected, name).numpy())


def test_numpy_results_are_views_of_what_was_computed() -> None:
    out = run(numpy_call())
    assert not out.receiver_amplitudes.flags.owndata
    assert not out.wavefield_0.flags.owndata


def test_a_numpy_run_goes_on_from_a_numpy_run() -> None:
    call = numpy_call(nt=6)
    whole = run(call)
    amplitudes = call["source_amplitudes"]

    first = run(call, source_amplitudes=np.ascontiguousarray(amplitudes[..., :4]))
    second = run(call, source_amplitudes=amplitudes[..., 4:], initial_state=first)

    records = np.concatenate([first.receiver_amplitudes, second.receiver_amplitudes], -1)
    assert np.array_equal(records, whole.receiver_amplitudes)


@pytest.mark.parametrize("make", [lambda a: a, torch.from_numpy, Foreign], ids=["numpy", "torch", "dlpack"])
def test_arrays_come_in_without_a_copy(make: Any) -> None:
    array = np.arange(1.0, 7.0).reshape(2, 3)
    assert np.shares_memory(numpy_view(tensor("v", make(array))), array)


def test_read_only_arrays_are_read() -> None:
    call = numpy_call()
    expected = run(call).receiver_amplitudes
    for value in call.values():
        if isinstance(value, np.ndarray):
            value.flags.writeable = False

    assert np.array_equal(run(call).receiver_amplitudes, expected)


def test_dlpack_objects_are_taken() -> None:
    call, expected = numpy_call(), run(small())

    out = run(call, v=Foreign(call["v"]), source_amplitudes=Foreign(call["source_amplitudes"]))

    assert torch.equal(out.receiver_amplitudes, expected.receiver_amplitudes)


def test_array_api_objects_are_given_back() -> None:
    call, expected = numpy_call(), run(small())

    out = run(call, v=Standard(call["v"]))

    assert isinstance(out.receiver_amplitudes, Standard)
    assert np.array_equal(out.receiver_amplitudes.array, expected.receiver_amplitudes.numpy())


@pytest.mark.parametrize("backend", COMPILED)
def test_inputs_are_left_as_they_were(backend: str) -> None:
    call = small(backend=backend, wavefield_0=torch.ones(2, 4, 5, dtype=torch.float64))
    before = {n: v.clone() for n, v in call.items() if isinstance(v, torch.Tensor)}
    call["v"].requires_grad_()

    loss(run(call)).backward()

    for name, value in before.items():
        assert torch.equal(call[name].detach(), value), name


@pytest.mark.parametrize("backend", BACKENDS)
def test_strided_inputs_are_read_rightly(backend: str) -> None:
    plain = small(backend=backend)
    strided = dict(plain)
    strided["v"] = plain["v"].t().contiguous().t()
    strided["source_amplitudes"] = plain["source_amplitudes"].repeat_interleave(2, -1)[..., ::2]
    for name in ("source_locations", "receiver_locations"):
        strided[name] = plain[name].flip(1).flip(1).transpose(0, 1).contiguous().transpose(0, 1)
    gradients = []
    for call in (plain, strided):
        v = call["v"].detach().requires_grad_()
        out = run(call, v=v)
        gradients.append(torch.autograd.grad(loss(out), v)[0])
        assert torch.equal(out.receiver_amplitudes.detach(), run(plain).receiver_amplitudes)

    assert torch.equal(*gradients)


def test_a_sliced_model_is_read_rightly() -> None:
    call = small()
    large = torch.full((8, 10), 9.0, dtype=torch.float64)
    large[1:8:2, 2:7] = call["v"]

    assert torch.equal(run(call, v=large[1:8:2, 2:7]).receiver_amplitudes, run(call).receiver_amplitudes)


def test_expanded_inputs_gather_their_gradients() -> None:
    call = small()
    speed = torch.tensor(1.5, dtype=torch.float64, requires_grad=True)
    trace = call["source_amplitudes"][0, 0].clone().requires_grad_()
    full = torch.full((4, 5), 1.5, dtype=torch.float64, requires_grad=True)
    traces = trace.detach().expand(2, 3, -1).contiguous().requires_grad_()

    loss(run(call, v=speed.expand(4, 5), source_amplitudes=trace.expand(2, 3, -1))).backward()
    loss(run(call, v=full, source_amplitudes=traces)).backward()

    torch.testing.assert_close(speed.grad, full.grad.sum(), rtol=1e-12, atol=0)
    torch.testing.assert_close(trace.grad, traces.grad.sum((0, 1)), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("backend", BACKENDS)
def test_no_sources(backend: str) -> None:
    call = small(backend=backend, nt=6)
    v = call["v"].requires_grad_()
    empty = {"source_amplitudes": torch.zeros(2, 0, 6, dtype=torch.float64, device=device_of(backend))}
    empty["source_locations"] = torch.zeros(2, 0, 2, dtype=torch.int64)
    start = torch.ones(2, 4, 5, dtype=torch.float64, device=device_of(backend))

    out = run(call, wavefield_0=start, **empty)
    without = run(call, wavefield_0=start, source_amplitudes=None, source_locations=None, nt=6)
    loss(out).backward()

    assert torch.equal(out.receiver_amplitudes, without.receiver_amplitudes)
    assert out.receiver_amplitudes.abs().sum() > 0
    assert v.grad.abs().sum() > 0


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("receivers", [None, torch.zeros(2, 0, 2, dtype=torch.int64)], ids=["none", "empty"])
def test_no_receivers(backend: str, receivers: torch.Tensor | None) -> None:
    call = small(backend=backend, receiver_locations=receivers)
    v = call["v"].requires_grad_()

    out = run(call)
    loss(out).backward()

    assert tuple(out.receiver_amplitudes.shape) == (2, 0, 8)
    assert v.grad.abs().sum() > 0


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.int64, torch.bool, torch.complex64])
@pytest.mark.parametrize("argument", ["v", "source_amplitudes"])
def test_other_dtypes_are_refused_by_name(argument: str, dtype: torch.dtype) -> None:
    call = small()
    with pytest.raises(numbawave.InvalidTypeError, match=f"^{argument} = {dtype}"):
        run(call, **{argument: call[argument].to(dtype)})


@pytest.mark.parametrize("argument", ["source_amplitudes", "wavefield_0"])
def test_mixed_dtypes_are_refused_by_name(argument: str) -> None:
    call = small(wavefield_0=torch.zeros(2, 4, 5, dtype=torch.float64))
    with pytest.raises(numbawave.InvalidTypeError, match=f"^{argument} = torch.float32.*dtype of v, torch.float64"):
        run(call, **{argument: call[argument].float()})


@pytest.mark.parametrize("model", [[[1.0, 2.0]], 1500.0, None, "model.npy"], ids=["list", "number", "none", "text"])
def test_what_is_no_array_is_refused(model: Any) -> None:
    with pytest.raises(numbawave.InvalidTypeError, match="^v = "):
        run(small(), v=model)


def test_sparse_models_are_refused() -> None:
    call = small()
    with pytest.raises(numbawave.InvalidTypeError, match="^v = torch.sparse"):
        run(call, v=call["v"].to_sparse())


@pytest.mark.parametrize("backend", COMPILED)
def test_float32_gives_float32(backend: str) -> None:
    call = small(dtype=torch.float32, backend=backend)
    v = call["v"].requires_grad_()
    out = run(call)
    loss(out).backward()
    assert {out.receiver_amplitudes.dtype, out.wavefield_0.dtype, v.grad.dtype} == {torch.float32}
