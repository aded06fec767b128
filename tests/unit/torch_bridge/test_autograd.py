"""What torch may do with a propagation, beyond ``backward``."""

import threading

import pytest
import torch

from tests.unit.torch_bridge.small import BACKENDS, COMPILED, loss, run, small


def leaf(call: dict, *names: str) -> dict:
    return call | {name: call[name].clone().requires_grad_() for name in names}


@pytest.mark.parametrize("backend", COMPILED)
def test_autograd_grad_equals_backward(backend: str) -> None:
    call = leaf(small(backend=backend), "v", "source_amplitudes")

    found = torch.autograd.grad(loss(run(call)), (call["v"], call["source_amplitudes"]))
    loss(run(call)).backward()

    assert torch.equal(found[0], call["v"].grad)
    assert torch.equal(found[1], call["source_amplitudes"].grad)


def test_hooks_see_and_change_gradients() -> None:
    call = leaf(small(), "v")
    seen = []
    call["v"].register_hook(lambda gradient: seen.append(gradient) or 2 * gradient)
    out = run(call)
    out.receiver_amplitudes.register_hook(lambda gradient: seen.append(gradient) or gradient)

    loss(out).backward()

    assert [tuple(g.shape) for g in seen] == [tuple(out.receiver_amplitudes.shape), tuple(call["v"].shape)]
    assert torch.equal(call["v"].grad, 2 * seen[1])


def test_no_grad_keeps_no_history() -> None:
    call = leaf(small(), "v", "source_amplitudes")
    with torch.no_grad():
        out = run(call)

    assert out.info.history_bytes == 0
    assert not out.receiver_amplitudes.requires_grad
    assert run(call).info.history_bytes > 0


@pytest.mark.parametrize("backend", COMPILED)
def test_amplitudes_alone_keep_no_history(backend: str) -> None:
    both = leaf(small(backend=backend), "v", "source_amplitudes")
    alone = leaf(small(backend=backend), "source_amplitudes")

    out = run(alone)
    loss(out).backward()
    loss(run(both)).backward()

    assert out.info.history_bytes == 0
    torch.testing.assert_close(alone["source_amplitudes"].grad, both["source_amplitudes"].grad, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("backend", COMPILED)
def test_a_graph_kept_gives_the_gradient_twice(backend: str) -> None:
    call = leaf(small(backend=backend), "v")
    value = loss(run(call))

    first = torch.autograd.grad(value, call["v"], retain_graph=True)[0]
    second = torch.autograd.grad(value, call["v"])[0]

    assert torch.equal(first, second)
    with pytest.raises(RuntimeError, match="second time"):
        torch.autograd.grad(value, call["v"])


def test_second_derivatives_are_refused() -> None:
    call = leaf(small(), "v")
    (gradient,) = torch.autograd.grad(loss(run(call)), call["v"], create_graph=True)

    with pytest.raises(RuntimeError, match="once_differentiable"):
        gradient.sum().backward()


@pytest.mark.parametrize("backend", BACKENDS)
def test_func_grad_equals_autograd(backend: str) -> None:
    call = leaf(small(backend=backend), "v")

    found = torch.func.grad(lambda v: loss(run(call, v=v)))(call["v"].detach())

    loss(run(call)).backward()
    assert torch.equal(found, call["v"].grad)


@pytest.mark.parametrize("backend", COMPILED)
def test_backward_from_another_thread(backend: str) -> None:
    call, other = leaf(small(backend=backend), "v"), leaf(small(backend=backend), "v")
    loss(run(call)).backward()

    thread = threading.Thread(target=loss(run(other)).backward)
    thread.start()
    thread.join()

    assert torch.equal(other["v"].grad, call["v"].grad)


def test_an_output_alone_may_be_differentiated() -> None:
    call = leaf(small(nt=6), "v", "source_amplitudes")
    out = run(call)

    (gradient,) = torch.autograd.grad(out.wavefield_0.sum(), call["source_amplitudes"])

    assert gradient[..., -1].abs().sum() > 0
    assert torch.isfinite(gradient).all()


def test_gradients_add_up_over_calls() -> None:
    call = leaf(small(), "v")
    (once,) = torch.autograd.grad(loss(run(call)), call["v"])

    value = loss(run(call)) + loss(run(call))
    value.backward()

    torch.testing.assert_close(call["v"].grad, 2 * once, rtol=1e-14, atol=0)


def test_the_model_may_be_the_result_of_operations() -> None:
    call = small()
    slowness = (1 / call["v"]).requires_grad_()
    direct = leaf(call, "v")

    loss(run(call, v=1 / slowness)).backward()
    loss(run(direct)).backward()

    expected = -direct["v"].grad / slowness.detach() ** 2
    torch.testing.assert_close(slowness.grad, expected, rtol=1e-12, atol=1e-12 * float(expected.abs().max()))


def test_gradient_of_zero_sources_is_zero() -> None:
    call = leaf(small(), "v", "source_amplitudes")
    call["source_amplitudes"] = torch.zeros_like(call["source_amplitudes"]).requires_grad_()

    loss(run(call)).backward()

    assert not call["v"].grad.any()
    assert not call["source_amplitudes"].grad.any()
