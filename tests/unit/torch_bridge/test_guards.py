"""Bad input is an error before any work: it names the argument, its value, the rule and the remedy."""

import pickle
import re
from typing import Any

import pytest
import torch

import numbawave
from numbawave import errors
from numbawave.equations import EQUATIONS
from numbawave.torch_bridge.function import Propagation
from tests.unit.torch_bridge.small import BACKENDS, run, small

VALUE, TYPE = numbawave.InvalidValueError, numbawave.InvalidTypeError
KINDS = errors.NumbawaveError.__subclasses__()


@pytest.fixture
def no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Propagation fails the test."""

    def apply(*_: Any) -> None:
        pytest.fail("work was done before the error")

    monkeypatch.setattr(Propagation, "apply", apply)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_an_error_is_of_the_family_and_of_a_builtin_kind(kind: type[Exception]) -> None:
    error = kind("v", 0.0, "is positive", "mend it")
    builtin = next(base for base in kind.__mro__ if base.__module__ == "builtins")

    assert isinstance(error, numbawave.NumbawaveError)
    assert builtin not in (Exception, BaseException, object)
    assert str(error) == "v = 0.0: is positive. Remedy: mend it."
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def places(at: Any) -> torch.Tensor:
    return torch.tensor(at).expand(2, 3, 2).clone()


def with_cell(value: float, ndim: int = 2) -> torch.Tensor:
    v = small(ndim)["v"].clone()
    v[2, 3] = value
    return v


def with_sample(value: float) -> torch.Tensor:
    amplitudes = small()["source_amplitudes"].clone()
    amplitudes[1, 2, 5] = value
    return amplitudes


nan, inf = float("nan"), float("inf")

BAD: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "unknown keyword": ({"recevier_locations": None}, TYPE, "^recevier_locations .*did you mean receiver_locations"),
    "unlike any keyword": ({"qqq": 1}, TYPE, "^qqq .*choose from .*accuracy"),
    "amplitudes without locations": ({"source_locations": None}, VALUE, "^source_locations = None.*together"),
    "locations without amplitudes": ({"source_amplitudes": None}, VALUE, "^source_amplitudes = None.*together"),
    "no length": ({"source_amplitudes": None, "source_locations": None}, VALUE, "^nt = None"),
    "another length": ({"nt": 3}, VALUE, "^nt = 3: the source amplitudes have 8 samples"),
    "no steps": ({"source_amplitudes": None, "source_locations": None, "nt": 0}, VALUE, "^nt = 0"),
    "no samples": ({"source_amplitudes": torch.zeros(2, 3, 0, dtype=torch.float64)}, VALUE, "^source_amplitudes .*sample"),
    "source count": ({"source_amplitudes": torch.zeros(2, 2, 8, dtype=torch.float64)}, VALUE,
                     "^source_amplitudes = 2 shots of 2 sources: the locations have 2 shots of 3"),
    "shot count": ({"receiver_locations": torch.zeros(3, 1, 2, dtype=torch.int64)}, VALUE, "^receiver_locations = 3 shots"),
    "amplitude axes": ({"source_amplitudes": torch.zeros(2, 8, dtype=torch.float64)}, VALUE, "^source_amplitudes = shape"),
    "NaN amplitude": ({"source_amplitudes": with_sample(nan)}, VALUE, "= nan at shot 1, source 2, sample 5"),
    "infinite amplitude": ({"source_amplitudes": with_sample(-inf)}, VALUE, "^source_amplitudes = -inf at shot 1"),
    "NaN speed": ({"v": with_cell(nan)}, VALUE, "^v = nan in the cell z 2, x 3"),
    "zero speed": ({"v": with_cell(0.0)}, VALUE, "^v = 0.0 in the cell z 2, x 3"),
    "negative speed": ({"v": with_cell(-1.5)}, VALUE, "^v = -1.5 in the cell z 2, x 3"),
    "infinite speed": ({"v": with_cell(inf)}, VALUE, "^v = inf in the cell z 2, x 3"),
    "absurd speed": ({"v": with_cell(9e9), "max_vel": None}, VALUE, "^v = 9000000000.0 in the cell z 2, x 3"),
    "no cells": ({"v": torch.zeros(0, 5, dtype=torch.float64)}, VALUE, "^v = shape .*cells"),
    "model axes": ({"v": torch.ones(5, dtype=torch.float64)}, VALUE, "^v = shape"),
    "models": ({"v": torch.ones(3, 4, 5, dtype=torch.float64)}, VALUE, "^v = 3 models: there are 2 shots"),
    "bound below the model": ({"max_vel": 1.2}, VALUE, "^max_vel = 1.2: the model's largest speed is"),
    "negative bound": ({"max_vel": -1.0}, VALUE, "^max_vel = -1.0"),
    "NaN frequency": ({"pml_freq": nan}, VALUE, "^pml_freq = nan"),
    "no time": ({"dt": 0.0}, VALUE, "^dt = 0.0"),
    "NaN time": ({"dt": nan}, VALUE, "^dt = nan"),
    "time of text": ({"dt": "fast"}, TYPE, "^dt = fast"),
    "far too long a step": ({"dt": 1e12}, VALUE, "^dt = .*internal steps"),
    "spacing": ({"grid_spacing": [1.0, 0.0]}, VALUE, "^grid_spacing"),
    "spacings": ({"grid_spacing": [1.0, 1.0, 1.0]}, VALUE, "^grid_spacing"),
    "negative width": ({"pml_width": [1, 1, -1, 1]}, VALUE, "^pml_width"),
    "widths": ({"pml_width": [1, 1, 1]}, VALUE, "^pml_width"),
    "accuracy": ({"accuracy": 3}, VALUE, "^accuracy = 3"),
    "courant number": ({"courant_number": 0.9}, VALUE, "^courant_number = 0.9"),
    "interval 0": ({"model_gradient_sampling_interval": 0}, VALUE, "^model_gradient_sampling_interval = 0"),
    "interval of text": ({"model_gradient_sampling_interval": "all"}, VALUE, "^model_gradient_sampling_interval = all"),
    "backend": ({"backend": "cuda9"}, VALUE, "^backend = cuda9.*cpu, cuda, reference"),
    "metres": ({"source_locations": places([3.0, 3.6])}, TYPE, "^source_locations = dtype .*float"),
    "location axes": ({"receiver_locations": torch.zeros(2, 2, dtype=torch.int64)}, VALUE, "^receiver_locations = shape"),
    "wavefield shape": ({"wavefield_0": torch.zeros(2, 3, 3, dtype=torch.float64)}, VALUE, "^wavefield_0 = shape"),
    "state of another kind": ({"initial_state": {"pressure": 1}}, VALUE, "^initial_state .*pressure"),
    "padding": ({"time_pad_frac": 2.0, "dt": 0.9}, VALUE, "^time_pad_frac = 2.0"),
}  # fmt: skip


@pytest.mark.usefixtures("no_work")
@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused_before_any_work(name: str) -> None:
    change, kind, message = BAD[name]
    with pytest.raises(kind, match=message) as caught:
        run(small(), **change)
    assert re.search(r": .+\. Remedy: .+\.$", str(caught.value))


@pytest.mark.usefixtures("no_work")
@pytest.mark.parametrize("argument", ["source_locations", "receiver_locations"])
@pytest.mark.parametrize(
    ("axis", "name", "index"), [(0, "z", -1), (0, "z", 3), (1, "y", -1), (1, "y", 4), (2, "x", -1), (2, "x", 5)]
)
def test_a_point_beyond_any_face_is_named(argument: str, axis: int, name: str, index: int) -> None:
    call = small(3)
    locations = call[argument].clone()
    locations[1, 2, axis] = index
    with pytest.raises(VALUE, match=rf"^{argument}\[shot 1, point 2, axis {name}\] = {index}: must be a cell index from 0"):
        run(call, **{argument: locations})


@pytest.mark.usefixtures("no_work")
def test_whole_metres_are_seen_through() -> None:
    with pytest.raises(VALUE, match=r"did you mean .*\[2, 3\]"):
        run(small(grid_spacing=10.0, max_vel=None, dt=1.0), source_locations=places([20, 30]))


@pytest.mark.usefixtures("no_work")
def test_a_bad_speed_names_its_shot() -> None:
    call = small()
    with pytest.raises(VALUE, match="^v = nan in the cell shot 1, z 2, x 3"):
        run(call, v=torch.stack([call["v"], with_cell(nan)]))


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"accuracy": 2}, "accuracy"),
        ({"pml_width": 3}, "pml_width"),
        ({"dt": 0.05}, "internal_dt"),
        ({"v": torch.ones(4, 6, dtype=torch.float64)}, "shape"),
    ],
)
def test_a_state_of_another_layout_is_refused(change: dict[str, Any], name: str, request: pytest.FixtureRequest) -> None:
    state = run(small())
    request.getfixturevalue("no_work")
    with pytest.raises(VALUE, match=f"^initial_state = {name} "):
        run(small(), initial_state=state, **change)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning", "ignore:invalid value:RuntimeWarning")
def test_a_run_that_overflows_is_an_error(backend: str) -> None:
    call = small(dtype=torch.float32, backend=backend)
    large = torch.full_like(call["source_amplitudes"], 3e38)
    with pytest.raises(numbawave.NonFiniteError, match="^(wavefield|receiver_amplitudes).*internal step"):
        run(call, source_amplitudes=large, nt=8)
    assert not torch.isfinite(run(call, source_amplitudes=large, check_output_finite=False).wavefield_0).all()


@pytest.mark.parametrize("argument", ["v", "grid_spacing"])
def test_an_argument_given_twice_is_refused_by_name(argument: str) -> None:
    call = small(2)
    places, twice = [call.pop(name) for name in ("v", "grid_spacing", "dt")], {argument: small(2)[argument]}
    with pytest.raises(numbawave.InvalidTypeError, match=f"^{argument} = given twice: .* Remedy: leave"):
        numbawave.scalar(*places, **call, **twice)
    with pytest.raises(numbawave.InvalidTypeError, match=f"^{argument} = given twice: .* Remedy: leave"):
        numbawave.Scalar(*places[:2])(places[2], **call, **twice)


@pytest.mark.parametrize("equation", EQUATIONS)
def test_a_missing_model_is_named(equation: str) -> None:
    first = EQUATIONS[equation].models[0].name
    with pytest.raises(VALUE, match=f"^{first} = missing"):
        getattr(numbawave, equation)()


def test_every_cell_of_every_edge_takes_sources_and_receivers() -> None:
    call = small(2, nt=2)
    every = torch.cartesian_prod(torch.arange(4), torch.arange(5)).expand(2, -1, -1)
    out = run(
        call, source_amplitudes=torch.ones(2, 20, 2, dtype=torch.float64), source_locations=every, receiver_locations=every
    )
    # The second sample is -v^2 dt^2 times the first amplitude, in every cell.
    expected = -((call["v"] * call["dt"]) ** 2).reshape(-1)
    torch.testing.assert_close(out.receiver_amplitudes[0, :, 1], expected, rtol=1e-14, atol=0)
