"""Snapshots are the wavefields of shorter runs, in memory or in a file, and leave the run as it is."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import numbawave
from numbawave.torch_bridge import snapshot
from numbawave.torch_bridge.function import Propagation
from tests.unit.torch_bridge.small import CUDA, NO_SIMULATOR, SHAPE, WIDTHS, run, small

NT = 7


def snapshots(call: dict[str, Any], **changes: Any) -> tuple[np.ndarray, numbawave.PropagatorOutput]:
    """The call with snapshots."""
    given = call | changes
    return numbawave.snapshots(numbawave.scalar, given.pop("v"), **given)


def wavefield(call: dict[str, Any], steps: int) -> np.ndarray:
    """What a run of so many steps ends with, layers included."""
    short = run(call, source_amplitudes=call["source_amplitudes"][..., :steps])
    return short.wavefield_0.detach().cpu().numpy()


def inner(ndim: int) -> tuple[slice, ...]:
    """The model's own cells in the grid with its layers."""
    return tuple(slice(low, low + n) for low, n in zip(WIDTHS[-2 * ndim :: 2], SHAPE[-ndim:], strict=True))


@pytest.mark.parametrize("every", [1, 3, NT])
@pytest.mark.parametrize(
    ("ndim", "backend"),
    [(1, "reference"), (2, "cpu"), (3, "reference"), pytest.param(2, *CUDA.values, marks=CUDA.marks)],
)
def test_a_snapshot_is_the_wavefield_of_a_shorter_run(ndim: int, backend: str, every: int) -> None:
    call = small(ndim, nt=NT, backend=backend, dtype=torch.float32)

    found, output = snapshots(call, every=every)

    assert found.shape == (NT // every, 2, *SHAPE[-ndim:])
    assert found.dtype == np.float32
    for number, picture in enumerate(found):
        assert np.array_equal(picture, wavefield(call, (number + 1) * every)[(..., *inner(ndim))])
    assert torch.equal(output.receiver_amplitudes, run(call).receiver_amplitudes)
    assert torch.equal(output.wavefield_0, run(call).wavefield_0)


def test_layers_are_there_on_request() -> None:
    call = small(2, nt=NT)
    bare, whole = (snapshots(call, every=2, layers=layers)[0] for layers in (False, True))
    assert np.array_equal(whole[1], wavefield(call, 4))
    assert np.array_equal(whole[(..., *inner(2))], bare)


def test_with_sub_steps_the_last_snapshot_is_the_final_wavefield() -> None:
    call = small(2, nt=6, dt=0.9)
    found, output = snapshots(call, every=2, layers=True)
    assert output.info.step_ratio > 1
    assert np.array_equal(found[-1], run(call).wavefield_0)
    assert torch.equal(output.receiver_amplitudes, run(call).receiver_amplitudes)


def test_nothing_is_differentiated() -> None:
    call = small(2, nt=NT)
    call["v"] = call["v"].requires_grad_()
    _, output = snapshots(call, every=2, model_gradient_sampling_interval=3)
    assert not output.receiver_amplitudes.requires_grad
    assert output.info.history_bytes == 0
    assert torch.is_grad_enabled()


def test_numpy_models_and_modules_are_taken() -> None:
    call = small(2, nt=NT)
    arrays = {name: value.numpy() if isinstance(value, torch.Tensor) else value for name, value in call.items()}
    expected, _ = snapshots(call, every=2)

    found, output = snapshots(arrays, every=2)
    module = numbawave.Scalar(call.pop("v"), call.pop("grid_spacing"))

    assert isinstance(output.receiver_amplitudes, np.ndarray)
    assert np.array_equal(found, expected)
    assert np.array_equal(numbawave.snapshots(module, every=2, **call)[0], expected)


def test_a_file_holds_what_memory_would(tmp_path: Path) -> None:
    call, path = small(2, nt=NT), tmp_path / "wave.npy"
    expected, _ = snapshots(call, every=2)

    found, _ = snapshots(call, every=2, storage="disk", path=path)

    assert isinstance(found, np.memmap)
    assert not found.flags.writeable
    assert np.array_equal(found, expected)
    assert np.array_equal(np.load(path), expected)


def test_a_file_that_is_there_is_left_alone(tmp_path: Path, no_work: None) -> None:
    path = tmp_path / "wave.npy"
    path.write_bytes(b"precious")
    with pytest.raises(numbawave.StorageError, match=f"^path = {re.escape(str(path))}: there is a file of this name"):
        snapshots(small(2, nt=NT), every=2, storage="disk", path=path)
    assert path.read_bytes() == b"precious"


@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning", "ignore:invalid value:RuntimeWarning")
def test_a_run_that_fails_leaves_no_file(tmp_path: Path) -> None:
    call = small(2, nt=NT, dtype=torch.float32)
    call["source_amplitudes"] = torch.full_like(call["source_amplitudes"], 3e38)
    with pytest.raises(numbawave.NonFiniteError):
        snapshots(call, every=1, storage="disk", path=tmp_path / "wave.npy")
    assert not list(tmp_path.iterdir())


def test_a_full_disk_or_memory_is_seen_before_any_work(
    tmp_path: Path, no_work: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Full:
        free = 0

    monkeypatch.setattr(snapshot.shutil, "disk_usage", lambda _: Full)
    monkeypatch.setattr(snapshot, "free_memory", lambda: 0)
    with pytest.raises(numbawave.StorageError, match="^path = .*are free there"):
        snapshots(small(2, nt=NT), every=2, storage="disk", path=tmp_path / "wave.npy")
    with pytest.raises(numbawave.StorageError, match="^storage = cpu: .*memory are free"):
        snapshots(small(2, nt=NT), every=2)
    assert not list(tmp_path.iterdir())


@pytest.fixture
def no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Propagation fails the test."""
    monkeypatch.setattr(Propagation, "apply", lambda *_: pytest.fail("work was done before the error"))


VALUE, TYPE, STORAGE = numbawave.InvalidValueError, numbawave.InvalidTypeError, numbawave.StorageError


@pytest.mark.usefixtures("no_work")
@pytest.mark.parametrize(
    ("change", "kind", "message"),
    [
        ({"every": 0}, VALUE, "^every = 0: is a whole number from 1 to the number of time steps, 7"),
        ({"every": NT + 1}, VALUE, f"^every = {NT + 1}"),
        ({"every": 1.5}, VALUE, "^every = 1.5"),
        ({"every": True}, VALUE, "^every = True"),
        ({"storage": "tape"}, VALUE, "^storage = tape: is one of cpu, disk"),
        ({"storage": "disk"}, VALUE, "^path = None"),
        ({"path": "wave.npy"}, VALUE, "^path = wave.npy: is the file of storage"),
        ({"storage": "disk", "path": "/no/such/folder/wave.npy"}, STORAGE, "^path = /no/such.*no file can be made"),
        ({"acuracy": 4}, TYPE, "did you mean accuracy"),  # codespell:ignore acuracy
        ({"grid_spacing": None}, VALUE, "^grid_spacing = missing"),
        ({"dt": 0.0}, VALUE, "^dt = 0.0"),
    ],
    ids=str,
)
def test_bad_input_is_refused_before_any_work(change: dict[str, Any], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message) as caught:
        snapshots(small(2, nt=NT), **({"every": 2} | change))
    assert re.search(r": .+\. Remedy: .+\.$", str(caught.value))


@pytest.mark.gpu
@NO_SIMULATOR
def test_the_devices_peak_does_not_grow_with_the_number_of_snapshots() -> None:
    peaks = []
    for nt in (4, 40):
        call = small(2, nt=nt, backend="cuda", v=torch.full((200, 300), 1.5, dtype=torch.float64))
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        snapshots(call, every=2)
        peaks.append(torch.cuda.max_memory_allocated() - before)
    assert peaks[1] < 1.1 * peaks[0]
