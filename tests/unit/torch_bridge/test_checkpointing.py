"""A run in segments is the unsplit run: bit for bit forward, and to rounding in its gradients."""

import re
from typing import Any

import numpy as np
import pytest
import torch

import numbawave
from numbawave.torch_bridge.checkpointing import SegmentsInfo, run_segments
from numbawave.torch_bridge.function import Propagation
from tests import tolerance
from tests.unit.torch_bridge.small import BACKENDS, COMPILED, CUDA, SPACING, loss, run, small

NT = 7
SUB_STEPS = {"dt": 0.9}
"""A time step that is divided."""
WAYS: list[dict[str, Any]] = [
    {},
    {"history": "interior"},
    {"model_gradient_sampling_interval": 2},
    SUB_STEPS | {"model_gradient_sampling_interval": 2},
    SUB_STEPS | {"model_gradient_sampling_interval": "internal"},
]
LEAVES = ("v", "source_amplitudes", "wavefield_0", "wavefield_m1")


def segments(call: dict[str, Any], **changes: Any) -> numbawave.PropagatorOutput:
    """The call in segments."""
    given = call | changes
    return run_segments(numbawave.scalar, given.pop("v"), **given)


def with_state(call: dict[str, Any]) -> dict[str, Any]:
    """The call with an initial wavefield on the model's grid."""
    rng = np.random.default_rng(2)
    shape = (len(call["source_amplitudes"]), *call["v"].shape)
    values = torch.from_numpy(rng.standard_normal((2, *shape))).to(call["v"])
    return call | {"wavefield_0": values[0], "wavefield_m1": values[1]}


def gradients(function: Any, call: dict[str, Any], **changes: Any) -> tuple[torch.Tensor, ...]:
    """Of all that is differentiable."""
    leaves = {name: call[name].clone().requires_grad_() for name in LEAVES}
    return torch.autograd.grad(loss(function(call | leaves, **changes)), list(leaves.values()))


def assert_same(found: numbawave.PropagatorOutput, whole: numbawave.PropagatorOutput) -> None:
    assert found.names == whole.names
    for name in ("receiver_amplitudes", "wavefield_0", "wavefield_m1"):
        assert torch.equal(getattr(found, name), getattr(whole, name)), name
    for name, memory in whole.auxiliary_state.tensors.items():
        assert torch.equal(found.auxiliary_state.tensors[name], memory), name


@pytest.mark.parametrize("change", [{}, SUB_STEPS], ids=["steps", "sub-steps"])
@pytest.mark.parametrize(
    ("ndim", "backend"),
    [(1, "reference"), (2, "cpu"), (2, "reference"), pytest.param(2, *CUDA.values, marks=CUDA.marks)],
)
@pytest.mark.parametrize("lengths", [[NT], [3, 4], [1, 5, 1], [1] * NT], ids=str)
def test_segments_are_the_unsplit_run(ndim: int, backend: str, change: dict[str, Any], lengths: list[int]) -> None:
    call = with_state(small(ndim, nt=NT, backend=backend, pml_freq=None, max_vel=None, **change))
    whole = run(call)

    found = segments(call, lengths=lengths)

    assert (whole.info.step_ratio > 1) == bool(change)
    assert_same(found, whole)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("padding", [{}, {"time_pad_frac": 0.5, "freq_taper_frac": 0.3, "time_taper": True}], ids=str)
def test_records_are_resampled_as_a_whole(dtype: torch.dtype, padding: dict[str, Any]) -> None:
    call = small(2, nt=NT, dtype=dtype, **SUB_STEPS)
    assert_same(segments(call, n_segments=3, **padding), run(call, **padding))


def test_a_courant_number_at_which_the_step_is_divided_exactly_is_kept() -> None:
    # Divisions of this step meet the Courant number with equality, but for rounding in either direction.
    for ratio in range(2, 12):
        number = 0.15 * 2.0 * np.hypot(1 / SPACING[1], 1 / SPACING[2]) / ratio
        call = small(2, nt=4, courant_number=float(number))
        whole, found = run(call), segments(call, n_segments=2)
        assert found.info.step_ratio == whole.info.step_ratio
        assert found.info.internal_dt == whole.info.internal_dt
        assert_same(found, whole)


@pytest.mark.parametrize("checkpoint", [False, True])
@pytest.mark.parametrize("change", WAYS, ids=str)
@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients_are_those_of_the_unsplit_run(backend: str, change: dict[str, Any], checkpoint: bool) -> None:
    call = with_state(small(2, nt=NT, backend=backend, **change))
    expected = gradients(run, call)

    for n_segments in (1, 3, 4):
        found = gradients(segments, call, n_segments=n_segments, checkpoint=checkpoint)

        for name, one, other in zip(LEAVES, found, expected, strict=True):
            apart = tolerance.apart(one.cpu().numpy(), other.cpu().numpy())
            assert apart <= 1e-12, (name, n_segments)


@pytest.mark.parametrize("checkpoint", [False, True])
@pytest.mark.parametrize("backend", COMPILED)
def test_gradients_in_single_precision_are_equal_to_rounding(backend: str, checkpoint: bool) -> None:
    call = with_state(small(2, nt=NT, backend=backend, dtype=torch.float32))
    found = gradients(segments, call, lengths=[2, 4, 1], checkpoint=checkpoint)
    for one, other in zip(found, gradients(run, call), strict=True):
        assert tolerance.apart(one.cpu().numpy(), other.cpu().numpy()) <= tolerance.steps("f4", 2 * NT)


@pytest.mark.parametrize("backend", COMPILED)
def test_a_checkpoint_changes_no_bit_of_segments(backend: str) -> None:
    call = with_state(small(2, nt=NT, backend=backend))
    once, again = (gradients(segments, call, n_segments=3, checkpoint=checkpoint) for checkpoint in (False, True))
    assert all(torch.equal(one, other) for one, other in zip(once, again, strict=True))


def test_with_checkpoints_torch_keeps_no_history_between_segments() -> None:
    kept: list[int] = []

    def pack(value: torch.Tensor) -> torch.Tensor:
        kept.append(value.untyped_storage().nbytes())
        return value

    call = small(2, nt=NT)
    call["v"] = call["v"].requires_grad_()
    sizes = []
    for checkpoint in (False, True):
        kept.clear()
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda value: value):
            segments(call, n_segments=1, checkpoint=checkpoint)
        sizes.append(sum(kept))
    assert sizes[1] < run(call).info.history_bytes < sizes[0]


@pytest.mark.parametrize("given", ["function", "name", "by name", "module"])
def test_a_propagator_is_a_function_a_name_or_a_module(given: str) -> None:
    call = small(2, nt=NT)
    options = {name: value for name, value in call.items() if name not in ("v", "grid_spacing")}
    spacing = {"grid_spacing": call["grid_spacing"]}
    shared = {name: options.pop(name) for name in ("pml_width", "backend")} if given == "module" else {}
    module = numbawave.Scalar(call["v"], call["grid_spacing"], True, **shared)
    ways = {
        "function": lambda: run_segments(numbawave.scalar, call["v"], n_segments=3, **spacing, **options),
        "name": lambda: run_segments("scalar", call["v"], n_segments=3, **spacing, **options),
        "by name": lambda: run_segments("scalar", v=call["v"], n_segments=3, **spacing, **options),
        "module": lambda: run_segments(module, n_segments=3, **options),
    }

    found = ways[given]()

    assert_same(found, run(call))
    if given == "module":
        loss(found).backward()
        assert module.v.grad.any()


def test_the_layers_are_made_for_the_whole_record() -> None:
    call = small(2, nt=12, pml_freq=None, max_vel=None)
    call["source_amplitudes"] = call["source_amplitudes"] * torch.linspace(0, 1, 12, dtype=torch.float64) ** 4
    whole, seen = run(call), []

    found = segments(call, n_segments=4, callback=lambda _, output: seen.append(output.info))

    first = run(call, source_amplitudes=call["source_amplitudes"][..., :3])
    assert first.info.pml_freq != whole.info.pml_freq
    assert {info.pml_freq for info in [found.info, *seen]} == {whole.info.pml_freq}
    assert {info.max_vel for info in [found.info, *seen]} == {whole.info.max_vel}


def test_a_run_without_sources_goes_on_from_a_state() -> None:
    first = run(small(2, nt=NT))
    silent = small(2) | {"source_amplitudes": None, "source_locations": None, "initial_state": first, "nt": NT}
    assert_same(segments(silent, n_segments=3), run(silent))


def test_a_segmented_run_goes_on_like_any_other() -> None:
    call = small(2, nt=2 * NT)
    parts = [call | {"source_amplitudes": half} for half in call["source_amplitudes"].split(NT, -1)]
    rest = segments(parts[1], n_segments=2, initial_state=segments(parts[0], n_segments=3))
    assert torch.equal(rest.receiver_amplitudes, run(call).receiver_amplitudes[..., NT:])


def test_numpy_in_numpy_out() -> None:
    call = {name: value.numpy() if isinstance(value, torch.Tensor) else value for name, value in small(nt=NT).items()}
    found = segments(call, n_segments=3, **SUB_STEPS)
    assert isinstance(found.receiver_amplitudes, np.ndarray)
    assert np.array_equal(found.receiver_amplitudes, run(call, **SUB_STEPS).receiver_amplitudes)


def test_info_says_that_there_were_segments() -> None:
    call = small(2, nt=NT, **SUB_STEPS)
    call["v"] = call["v"].requires_grad_()
    whole = run(call).info

    plain, again = (segments(call, lengths=[4, 2, 1], checkpoint=checkpoint).info for checkpoint in (False, True))

    assert isinstance(plain, SegmentsInfo)
    assert (plain.lengths, plain.checkpoint, again.checkpoint) == ((4, 2, 1), False, True)
    for name in ("equation", "dt", "internal_dt", "step_ratio", "nt", "shots", "pml_freq", "history_bytes"):
        assert getattr(plain, name) == getattr(whole, name), name
    assert again.history_bytes * NT == whole.history_bytes * 4


def test_the_callback_sees_every_segment() -> None:
    call, seen = small(2, nt=NT), []

    found = segments(call, lengths=[3, 2, 2], callback=lambda segment, output: seen.append((segment, output)))

    assert [segment for segment, _ in seen] == [0, 1, 2]
    assert torch.equal(torch.cat([output.receiver_amplitudes for _, output in seen], -1), found.receiver_amplitudes)
    assert torch.equal(seen[1][1].wavefield_0, run(call, source_amplitudes=call["source_amplitudes"][..., :5]).wavefield_0)


def test_what_the_callback_raises_ends_the_run() -> None:
    seen: list[int] = []

    def callback(segment: int, _: Any) -> None:
        seen.append(segment)
        if segment == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        segments(small(2, nt=NT), n_segments=NT, callback=callback)
    assert seen == [0, 1]


def test_segments_without_a_gradient_start_anywhere() -> None:
    call = small(2, nt=NT, model_gradient_sampling_interval=3)
    assert segments(call, lengths=[2, 5]).info.lengths == (2, 5)
    call["v"] = call["v"].requires_grad_()
    assert segments(call, n_segments=3).info.lengths == (3, 3, 1)


VALUE, TYPE = numbawave.InvalidValueError, numbawave.InvalidTypeError
BAD: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "neither": ({}, VALUE, "^n_segments = None: either"),
    "both": ({"n_segments": 2, "lengths": [3, 4]}, VALUE, "^n_segments = 2: either"),
    "none": ({"n_segments": 0}, VALUE, "^n_segments = 0"),
    "a part": ({"n_segments": 1.5}, VALUE, "^n_segments = 1.5"),
    "a truth": ({"n_segments": True}, VALUE, "^n_segments = True"),
    "too many": ({"n_segments": NT + 1}, VALUE, f"^n_segments = {NT + 1}: must be from 1 to {NT}[.]"),
    "sum": ({"lengths": [3, 3]}, VALUE, r"^lengths = \[3, 3\]: add up to 6, but the run has 7 steps"),
    "empty": ({"lengths": [7, 0]}, VALUE, "^lengths = 0"),
    "a number": ({"lengths": 7}, TYPE, "^lengths = 7: is a sequence"),
    "callback": ({"n_segments": 2, "callback": 1}, TYPE, "^callback = int"),
    "option": ({"n_segments": 2, "acuracy": 4}, TYPE, "^acuracy .*did you mean accuracy"),  # codespell:ignore acuracy
    "spacing": ({"n_segments": 2, "grid_spacing": None}, VALUE, "^grid_spacing = missing"),
    "amplitudes": ({"n_segments": 2, "source_amplitudes": None}, VALUE, "^source_amplitudes = None"),
    "twice": ({"n_segments": 2, "checkpoint": True, "checkpoint_segments": 3}, VALUE, "^checkpoint_segments = 3"),
    "states": ({"n_segments": 2, "checkpoint": True, "checkpoint_states": 3}, VALUE, "^checkpoint_states = 3"),
    "elsewhere": ({"n_segments": 2, "checkpoint": True, "storage_mode": "disk"}, VALUE, "^storage_mode = disk"),
    "coded": ({"n_segments": 2, "checkpoint": True, "storage_compression": "int8"}, VALUE, "^storage_compression = int8"),
    "inner": ({"n_segments": 3, "checkpoint_segments": 4}, VALUE, "^checkpoint_segments = 4: must be from 1 to .* 2"),
    "interval": ({"lengths": [3, 2, 2], "model_gradient_sampling_interval": 3, "v": small()["v"].requires_grad_()}, VALUE,
                 "^lengths = .*starts at step 5"),
    "groups": ({"n_segments": 4, "model_gradient_sampling_interval": 3, "v": small()["v"].requires_grad_()}, VALUE,
               "^n_segments = 4: must be from 1 to 3, for 7 steps in groups of 3"),
}  # fmt: skip


@pytest.fixture
def no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Propagation fails the test."""
    monkeypatch.setattr(Propagation, "apply", lambda *_: pytest.fail("work was done before the error"))


@pytest.mark.usefixtures("no_work")
@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused_before_any_work(name: str) -> None:
    change, kind, message = BAD[name]
    with pytest.raises(kind, match=message) as caught:
        segments(small(2, nt=NT), **change)
    assert re.search(r": .+\. Remedy: .+\.$", str(caught.value))


@pytest.mark.usefixtures("no_work")
def test_only_propagators_are_run_in_segments() -> None:
    v = small()["v"]
    for propagator, kind in ((run, TYPE), ("elastic?", VALUE), (None, TYPE), (torch.nn.Identity(), TYPE)):
        with pytest.raises(kind, match="^propagator = .*scalar"):
            run_segments(propagator, v, grid_spacing=1.0, dt=0.1, nt=4, n_segments=2)
    with pytest.raises(TYPE, match="^v = given: a module holds its models"):
        run_segments(numbawave.Scalar(v, 1.0), v, dt=0.1, nt=4, n_segments=2)
    with pytest.raises(TYPE, match="^grid_spacing = given: a module holds"):
        run_segments(numbawave.Scalar(v, 1.0), grid_spacing=1.0, dt=0.1, nt=4, n_segments=2)
    with pytest.raises(TYPE, match="^models = 2 models"):
        run_segments("scalar", v, v, grid_spacing=1.0, dt=0.1, nt=4, n_segments=2)
    with pytest.raises(TYPE, match="^v = given twice"):
        run_segments("scalar", v, v=v, grid_spacing=1.0, dt=0.1, nt=4, n_segments=2)
    with pytest.raises(VALUE, match="^v = missing"):
        run_segments("scalar", grid_spacing=1.0, dt=0.1, nt=4, n_segments=2)
