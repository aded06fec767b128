import inspect

import pytest
import torch

import numbawave
from numbawave.equations import EQUATIONS
from tests.unit.torch_bridge.small import loss, run, small


def module(call: dict, **options: object) -> tuple[numbawave.Scalar, dict]:
    call = dict(call)
    shared = {name: call.pop(name) for name in ("pml_width", "max_vel", "pml_freq", "backend")}
    return numbawave.Scalar(call.pop("v"), call.pop("grid_spacing"), **shared, **options), call


def test_module_gives_what_the_function_gives() -> None:
    wave, call = module(small())
    assert torch.equal(wave(**call).receiver_amplitudes, run(small()).receiver_amplitudes)


def test_module_holds_its_model_as_a_parameter() -> None:
    wave, call = module(small(), v_requires_grad=True)
    loss(wave(**call)).backward()
    assert wave.v.grad.any()
    assert list(wave.state_dict()) == ["v"]
    assert not module(small())[0].v.requires_grad


def test_a_call_may_override_the_modules_options() -> None:
    wave, call = module(small())
    assert wave(**call, accuracy=2).info.accuracy == 2
    assert wave(**call).info.accuracy == 4


def test_a_module_refuses_unknown_options_at_once() -> None:
    with pytest.raises(numbawave.InvalidTypeError, match="did you mean accuracy"):
        module(small(), acuracy=2)  # codespell:ignore acuracy


@pytest.mark.parametrize("equation", EQUATIONS)
def test_a_propagator_documents_every_argument(equation: str) -> None:
    call = getattr(numbawave, equation)
    names = list(inspect.signature(call).parameters)
    assert names[: len(EQUATIONS[equation].models)] == [model.name for model in EQUATIONS[equation].models]
    assert all(name in call.__doc__ for name in names)


def test_results_come_by_name_and_as_a_tuple() -> None:
    out = run(small())
    assert out[-1] is out.receiver_amplitudes
    assert set(out.final_state) == {"wavefield_0", "wavefield_m1", "auxiliary_state"}
    with pytest.raises(AttributeError, match="receiver_amplitudes"):
        _ = out.pressure


def test_info_says_what_ran() -> None:
    info = run(small(2, nt=6, dt=0.9)).info
    assert (info.equation, info.ndim, info.nt, info.shots, info.dtype) == ("scalar", 2, 6, 2, "float64")
    assert info.internal_dt * info.step_ratio == pytest.approx(0.9)
    assert info.pml_width == ((2, 0), (1, 3))
    assert (info.max_vel, info.pml_freq, info.backend) == (2.0, 0.4, "reference")
