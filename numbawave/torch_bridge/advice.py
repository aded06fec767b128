"""What to do where a device has too little memory: the levers in turn, and the first call that would fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch

from numbawave.engine.buffers import declare
from numbawave.engine.run import Run
from numbawave.engine.setup import Setup
from numbawave.errors import DeviceMemoryError
from numbawave.torch_bridge.levers import pull
from numbawave.torch_bridge.options import Options

LEVERS: tuple[dict[str, Any], ...] = (
    {"checkpoint_segments": "auto"},
    {"storage_mode": "cpu"},
    {"shot_batch": 1},
    {"storage_compression": True},
    {"history": "interior"},
)
"""In the order in which they are pulled: first those that change no bit, then one that changes sums by rounding."""


def adviser(run: Run, options: Options, undo: Setup | None) -> Callable[[int], str]:
    """A function that says, for so many bytes of memory, what would fit; it does not hold the run."""
    bare, shots = replace(run, tape=None, report=None), run.shots

    def advise(free: int) -> str:
        changes: dict[str, Any] = {}
        for lever in LEVERS:
            if all(getattr(options, name) == getattr(Options(), name) for name in lever):
                changes |= lever
                trial = replace(bare, undo=None)
                pull(trial, replace(options, **changes), undo)
                needed = declare(trial, keep=True).peak("device")[0]
                if needed <= free:
                    words = ", ".join(f"{name}={value!r}" for name, value in changes.items())
                    return f"give {words}: that takes about {needed / 1e9:.3g} GB"
        return f"give fewer shots a call than {shots}, and add up the gradients"

    return advise


@contextmanager
def explained(run: Run) -> Iterator[None]:
    """Turn the allocator's error into one that says what the run takes and what would fit."""
    try:
        yield
    except torch.cuda.OutOfMemoryError as error:
        most = run.ledger.peak("device")[0]
        free, keeps = memory(run.space.device), any(buffer.name == "history" for buffer in run.ledger)
        rule = f"this run takes {most / 1e9:.3g} GB, and {free / 1e9:.3g} GB can be had"
        remedy = run.advice(free) if run.advice is not None and keeps else "give fewer shots a call"
        raise DeviceMemoryError("device memory", f"too little on device {run.space.device}", rule, remedy) from error


def memory(device: int | None) -> int:
    """Bytes that this process can have on a device: what is free, and what torch holds already."""
    if device is None:
        return 0
    return int(torch.cuda.mem_get_info(device)[0] + torch.cuda.memory_reserved(device))
