"""Gradients of the public call against finite differences."""

from typing import Any

import pytest
import torch

from tests.unit.torch_bridge.small import COMPILED, CUDA, SHAPE, WIDTHS, device_of, run, small


def cuda(ndim: int) -> Any:
    """The GPU's backend on a grid of so many axes."""
    return pytest.param(ndim, *CUDA.values, marks=CUDA.marks)


def check(call: dict[str, Any], *differentiable: str) -> bool:
    """Gradcheck of a random, not linear mixture of every output with respect to these arguments.

    Each entry is checked by itself where runs are fast, and a random direction of all entries elsewhere.
    """
    inputs = [call[name].clone().requires_grad_() for name in differentiable]

    def mixture(*values: torch.Tensor) -> torch.Tensor:
        out = run(call, **dict(zip(differentiable, values, strict=True)))
        flat = torch.cat([x.reshape(-1) for x in (out.receiver_amplitudes, out.wavefield_0, out.wavefield_m1)])
        weights = torch.randn(flat.shape, dtype=flat.dtype, generator=torch.Generator().manual_seed(2))
        return (weights.to(flat.device) * flat).sum() + (flat**2).sum()

    return torch.autograd.gradcheck(mixture, inputs, fast_mode=call["backend"] != "cpu" or "wavefield_0" in differentiable)


@pytest.mark.parametrize("accuracy", [2, 8])
@pytest.mark.parametrize("ndim", [1, 2, 3])
def test_model_and_amplitudes(ndim: int, accuracy: int) -> None:
    assert check(small(ndim, nt=4, accuracy=accuracy), "v", "source_amplitudes")


@pytest.mark.parametrize(("ndim", "backend"), [(2, "cpu"), *(cuda(ndim) for ndim in (1, 2, 3))])
def test_model_and_amplitudes_compiled(ndim: int, backend: str) -> None:
    assert check(small(ndim, nt=4, backend=backend), "v", "source_amplitudes")


@pytest.mark.parametrize("backend", COMPILED)
def test_a_model_for_each_shot(backend: str) -> None:
    call = small(2, nt=4, backend=backend)
    call["v"] = torch.stack([call["v"], call["v"].flip(0)])
    assert check(call, "v", "source_amplitudes")


def test_one_model_with_a_shot_axis() -> None:
    call = small(1, nt=4)
    call["v"] = call["v"][None]
    assert check(call, "v")


@pytest.mark.parametrize(("ndim", "backend"), [(1, "reference"), (2, "cpu"), cuda(2)])
def test_every_internal_step_gives_the_exact_gradient(ndim: int, backend: str) -> None:
    call = small(ndim, nt=4, backend=backend, dt=0.9, model_gradient_sampling_interval="internal")
    assert run(call).info.step_ratio > 1
    assert check(call, "v", "source_amplitudes")


@pytest.mark.parametrize(("ndim", "backend"), [(1, "reference"), (2, "cpu"), cuda(2)])
@pytest.mark.parametrize("layers", [False, True])
def test_initial_wavefields(ndim: int, backend: str, layers: bool, rng: Any) -> None:
    call = small(ndim, nt=3, backend=backend)
    widths = WIDTHS[-2 * ndim :] if layers else (0,) * (2 * ndim)
    shape = [n + low + high for n, low, high in zip(SHAPE[-ndim:], widths[::2], widths[1::2], strict=True)]
    for name in ("wavefield_0", "wavefield_m1"):
        call[name] = torch.from_numpy(rng.standard_normal((2, *shape))).to(device_of(backend))
    assert check(call, "v", "wavefield_0", "wavefield_m1")


def test_no_layers() -> None:
    assert check(small(2, nt=4, pml_width=0), "v", "source_amplitudes")


def test_one_layer_alone() -> None:
    assert check(small(2, nt=4, pml_width=[0, 0, 2, 0]), "v", "source_amplitudes")


@pytest.mark.parametrize("backend", COMPILED)
def test_backwards_in_time(backend: str) -> None:
    assert check(small(2, nt=4, dt=-0.15, backend=backend), "v", "source_amplitudes")


@pytest.mark.parametrize("backend", COMPILED)
def test_one_sample(backend: str) -> None:
    assert check(small(2, nt=1, backend=backend), "v", "source_amplitudes")
