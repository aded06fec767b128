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
        self.now, self.before = self._now_and_peak()

    def bytes(self) -> int | None:
        """The most since then; None where there was more before, and where the system does not say."""
        _, most = self._now_and_peak()
        return most - self.now if most > self.before else None

    def _now_and_peak(self) -> tuple[int, int]:
        if self.device is not None:  # what memory_allocated and its like give, without the list that they make first
            found = torch.cuda.memory_stats_as_nested_dict(self.device)
            held = found["allocated_bytes"]["all"] if found else {"current": 0, "peak": 0}
            return int(held["current"]), int(held["peak"])
        with suppress(OSError, StopIteration, ValueError):
            pages = int(Path("/proc/self/statm").read_text().split()[1])
            lines = Path("/proc/self/status").read_text().splitlines()
            peak = next(line for line in lines if line.startswith("VmHWM"))
            return pages * os.sysconf("SC_PAGE_SIZE"), int(peak.split()[1]) * 1024
        return 0, 0
