"""A run split in two is the unsplit run: bit for bit forward, and to rounding in its gradients."""

from typing import Any

import pytest
import torch

from tests import tolerance
from tests.unit.torch_bridge.small import BACKENDS, COMPILED, CUDA, loss, run, small

NT = 7


def split(call: dict[str, Any], at: list[int]) -> tuple[list[Any], torch.Tensor]:
    """Outputs of the parts, and the joined record."""
    outputs: list[Any] = []
    for first, last in zip([0, *at], [*at, NT], strict=True):
        more = {"initial_state": outputs[-1]} if outputs else {}
        if call["source_amplitudes"] is not None:
            more["source_amplitudes"] = call["source_amplitudes"][..., first:last]
        outputs.append(run(call, **more))
    return outputs, torch.cat([out.receiver_amplitudes for out in outputs], -1)


@pytest.mark.parametrize("at", range(1, NT))
@pytest.mark.parametrize(
    ("ndim", "backend"),
    [(1, "reference"), (2, "cpu"), (3, "reference"), *(pytest.param(n, *CUDA.values, marks=CUDA.marks) for n in (1, 2, 3))],
)
def test_a_run_split_anywhere_is_the_unsplit_run(ndim: int, backend: str, at: int) -> None:
    call = small(ndim, nt=NT, backend=backend)
    whole = run(call)

    outputs, record = split(call, [at])

    assert torch.equal(record, whole.receiver_amplitudes)
    for name in ("wavefield_0", "wavefield_m1"):
        assert torch.equal(getattr(outputs[-1], name), getattr(whole, name))
    for name, memory in whole.auxiliary_state.tensors.items():
        assert torch.equal(outputs[-1].auxiliary_state.tensors[name], memory), name


@pytest.mark.parametrize("backend", COMPILED)
def test_a_run_split_at_every_step_is_the_unsplit_run(backend: str) -> None:
    call = small(2, nt=NT, backend=backend)
    assert torch.equal(split(call, list(range(1, NT)))[1], run(call).receiver_amplitudes)


def test_layers_stay_the_same_without_saying_so_again() -> None:
    call = small(2, nt=NT)
    first = run(call, source_amplitudes=call["source_amplitudes"][..., :3])

    rest = run(call, source_amplitudes=call["source_amplitudes"][..., 3:], initial_state=first, pml_freq=None, max_vel=None)

    assert (rest.info.pml_freq, rest.info.max_vel) == (first.info.pml_freq, first.info.max_vel)
    assert torch.equal(rest.receiver_amplitudes, run(call).receiver_amplitudes[..., 3:])


@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients_through_a_split_chain_are_those_of_the_unsplit_run(backend: str) -> None:
    call = small(2, nt=NT, backend=backend)
    gradients = []
    for at in ([], [2], [1, 4, 6]):
        leaves = [call[name].clone().requires_grad_() for name in ("v", "source_amplitudes")]
        outputs, record = split(call | {"v": leaves[0], "source_amplitudes": leaves[1]}, at)
        value = (record**2).sum() + (outputs[-1].wavefield_0 ** 2).sum() + (outputs[-1].wavefield_m1 ** 2).sum()
        gradients.append(torch.autograd.grad(value, leaves))

    for found in gradients[1:]:
        for one, other in zip(found, gradients[0], strict=True):
            assert tolerance.apart(one.cpu().numpy(), other.cpu().numpy()) <= tolerance.steps("f8", 2 * NT)


def test_the_final_state_is_differentiable_like_the_record() -> None:
    call = small(2, nt=NT)
    v = call["v"].requires_grad_()
    first = run(call)
    loss(run(call, initial_state=first)).backward()
    assert torch.isfinite(v.grad).all()
    assert v.grad.any()
