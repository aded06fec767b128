"""Too little memory on a device: the error says what the run takes and which levers would make it fit."""

from typing import Any

import pytest
import torch

import numbawave
from numbawave.engine.space import HostMemory
from numbawave.torch_bridge import advice
from tests.unit.torch_bridge.small import run, small


def allocate_no_more_than(monkeypatch: pytest.MonkeyPatch, bytes_left: int, free: int) -> None:
    """A device on which an array may be so large, and of which so much could be had for another call."""
    plain = HostMemory.empty

    def empty(self: HostMemory, *shape: int) -> Any:
        array = plain(self, *shape)
        if array.nbytes > bytes_left:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory.")
        return array

    monkeypatch.setattr(HostMemory, "empty", empty)
    monkeypatch.setattr(advice, "memory", lambda device: free)


def call() -> dict[str, Any]:
    wanted = small(2, nt=400)
    wanted["v"].requires_grad_()
    return wanted


def test_the_levers_that_change_no_bit_are_named_first(monkeypatch: pytest.MonkeyPatch) -> None:
    most = run(call()).info.ledger.peak("device")[0]
    least = run(call(), checkpoint_segments="auto").info.ledger.peak("device")[0]
    assert least < most
    allocate_no_more_than(monkeypatch, 50_000, least)
    with pytest.raises(numbawave.DeviceMemoryError) as found:
        run(call())
    text = str(found.value)
    assert f"this run takes {most / 1e9:.3g} GB, and {least / 1e9:.3g} GB can be had" in text
    assert f"Remedy: give checkpoint_segments='auto': that takes about {least / 1e9:.3g} GB" in text
    assert isinstance(found.value, RuntimeError)
    assert isinstance(found.value, MemoryError)


def test_levers_in_use_are_not_named(monkeypatch: pytest.MonkeyPatch) -> None:
    least = run(call(), checkpoint_segments=3).info.ledger.peak("device")[0]
    allocate_no_more_than(monkeypatch, 1000, least - 1)
    with pytest.raises(numbawave.DeviceMemoryError, match="Remedy: give storage_mode='cpu'") as found:
        run(call(), checkpoint_segments=3)
    assert "checkpoint_segments" not in str(found.value)


def test_batches_of_shots_are_named_before_what_changes_the_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    levers = {"checkpoint_segments": "auto", "storage_mode": "cpu", "shot_batch": 1}
    least = run(call(), **levers).info.ledger.peak("device")[0]
    allocate_no_more_than(monkeypatch, 1000, least)
    with pytest.raises(numbawave.DeviceMemoryError, match="checkpoint_segments='auto', storage_mode='cpu', shot_batch=1: "):
        run(call())


def test_where_nothing_fits_shots_are_fewer(monkeypatch: pytest.MonkeyPatch) -> None:
    allocate_no_more_than(monkeypatch, 1000, 10)
    with pytest.raises(numbawave.DeviceMemoryError, match="give fewer shots a call than 2, and add up"):
        run(call())
