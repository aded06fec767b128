"""The memory that a call takes, seen from outside and without a change to the user's statistics."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import torch


class Meter:
    """What a process holds from now on, beyond what it holds now.

    Parameters
    ----------
    device : int or None
        Ordinal of a CUDA device; None for the host's memory.
    """

    def __init__(self, device: int | None) -> None:
        self.device = device
        self.now, self.before = self._now(), self._peak()

    def bytes(self) -> int | None:
        """The most since then; None where there was more before, and where the system does not say."""
        most = self._peak()
        return most - self.now if most > self.before else None

    def _now(self) -> int:
        if self.device is not None:
            return self._allocated("current")
        with suppress(OSError, ValueError):
            return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        return 0

    def _peak(self) -> int:
        if self.device is not None:
            return self._allocated("peak")
        with suppress(OSError, StopIteration), open("/proc/self/status") as file:
            return int(next(line for line in file if line.startswith("VmHWM")).split()[1]) * 1024
        return 0

    def _allocated(self, which: str) -> int:
        """What ``torch.cuda.memory_allocated`` and its like give, without the list of all the rest that they make first."""
        found = torch.cuda.memory_stats_as_nested_dict(self.device)
        return int(found["allocated_bytes"]["all"][which]) if found else 0
