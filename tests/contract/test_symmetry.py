"""What the physics does not see, the results do not see: mirrors, axes, units, and who shoots and who listens."""

from typing import Any

import pytest
import torch

from tests import tolerance
from tests.unit.torch_bridge.small import BACKENDS, loss, run, small

NT = 10


def outcome(call: dict[str, Any]) -> tuple[torch.Tensor, torch.Tensor]:
    """The record and the model's gradient."""
    v = call["v"].detach().clone().requires_grad_()
    out = run(call, v=v)
    return out.receiver_amplitudes.detach(), torch.autograd.grad(loss(out), v)[0]


def assert_same(one: torch.Tensor, other: torch.Tensor, factor: float = 1.0) -> None:
    assert tolerance.apart((one * factor).cpu().numpy(), other.cpu().numpy()) <= tolerance.steps("f8", NT)


@pytest.mark.parametrize(("ndim", "axis"), [(1, 0), (2, 0), (2, 1), (3, 0), (3, 1), (3, 2)])
def test_a_mirrored_model_gives_the_mirrored_run(ndim: int, axis: int) -> None:
    call = small(ndim, nt=NT)
    mirrored = dict(call, v=call["v"].flip(axis), pml_width=list(call["pml_width"]))
    mirrored["pml_width"][2 * axis : 2 * axis + 2] = call["pml_width"][2 * axis : 2 * axis + 2][::-1]
    for name in ("source_locations", "receiver_locations"):
        mirrored[name] = call[name].clone()
        mirrored[name][..., axis] = call["v"].shape[axis] - 1 - call[name][..., axis]

    (record, gradient), (other, other_gradient) = outcome(call), outcome(mirrored)

    assert_same(other, record)
    assert_same(other_gradient.flip(axis), gradient)


@pytest.mark.parametrize("order", [(1, 0), (2, 0, 1), (0, 2, 1)])
def test_axes_in_another_order_give_the_same_record(order: tuple[int, ...]) -> None:
    call = small(len(order), nt=NT)
    turned = dict(call, v=call["v"].permute(order), grid_spacing=[call["grid_spacing"][k] for k in order])
    turned["pml_width"] = [w for k in order for w in call["pml_width"][2 * k : 2 * k + 2]]
    for name in ("source_locations", "receiver_locations"):
        turned[name] = call[name][..., list(order)]

    (record, gradient), (other, other_gradient) = outcome(call), outcome(turned)

    assert_same(other, record)
    assert_same(other_gradient, gradient.permute(order))


@pytest.mark.parametrize("length", [1000.0, 1e-3])
@pytest.mark.parametrize("pml_freq", [0.4, None])
def test_other_units_of_length_give_the_same_record(length: float, pml_freq: float | None) -> None:
    call = small(2, nt=NT, pml_freq=pml_freq)
    # f has the unit of the laplacian, so amplitudes change with the square of the length.
    other = dict(call, v=call["v"] * length, max_vel=call["max_vel"] * length)
    other["grid_spacing"] = [h * length for h in call["grid_spacing"]]
    other["source_amplitudes"] = call["source_amplitudes"] / length**2

    assert_same(run(other).receiver_amplitudes, run(call).receiver_amplitudes)


@pytest.mark.parametrize("time", [1e6, 1e-6])
@pytest.mark.parametrize("pml_freq", [0.4, None])
def test_other_units_of_time_give_the_same_record(time: float, pml_freq: float | None) -> None:
    call = small(2, nt=NT, pml_freq=pml_freq)
    other = dict(call, v=call["v"] / time, max_vel=call["max_vel"] / time, dt=call["dt"] * time)
    other["pml_freq"] = pml_freq and pml_freq / time

    expected = run(call).receiver_amplitudes
    # An inferred frequency has three significant figures and is the same one in both units.
    assert_same(run(other).receiver_amplitudes, expected)


@pytest.mark.parametrize("ndim", [1, 2, 3])
def test_source_and_receiver_may_change_places(ndim: int) -> None:
    """n steps without layers are a sum of c (L c)^k with a symmetric L, which is symmetric."""
    call = small(ndim, nt=NT, shots=1, pml_width=0)
    one, other = torch.zeros(ndim, dtype=torch.int64), torch.tensor(call["v"].shape) - 1
    responses = []
    for source, receiver in ((one, other), (other, one)):
        places = {"source_locations": source.view(1, 1, -1), "receiver_locations": receiver.view(1, 1, -1)}
        responses.append(run(call, source_amplitudes=call["source_amplitudes"][:, :1], **places).receiver_amplitudes)

    assert responses[0].any()
    assert_same(*responses)


def test_time_run_backwards_gives_the_same_record() -> None:
    """Without layers the step holds dt^2 alone, so its sign changes nothing; layers absorb in both directions."""
    call = small(2, nt=NT)
    assert torch.equal(run(call, dt=-call["dt"]).receiver_amplitudes, run(call).receiver_amplitudes)


@pytest.mark.parametrize("backend", BACKENDS)
def test_shots_do_not_know_each_other(backend: str) -> None:
    call = small(2, nt=NT, shots=3, backend=backend)
    together = run(call).receiver_amplitudes
    for shot in range(3):
        names = ("source_amplitudes", "source_locations", "receiver_locations")
        alone = run(call, **{name: call[name][shot : shot + 1] for name in names}).receiver_amplitudes
        assert torch.equal(alone[0], together[shot])


def test_sources_add_up() -> None:
    call = small(2, nt=NT)
    together = run(call).receiver_amplitudes
    parts = []
    for k in range(3):
        names = ("source_amplitudes", "source_locations")
        parts.append(run(call, **{name: call[name][:, k : k + 1] for name in names}).receiver_amplitudes)
    assert_same(sum(parts), together)
