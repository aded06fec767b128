"""What is free now, and what a budget leaves of it."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path

import torch

from numbawave.backends import local_size
from numbawave.history.media import File
from numbawave.history.storage import free_memory
from numbawave.planning.budget import Budget
from numbawave.torch_bridge.advice import memory

KEPT_BACK = 0.1
"""The part of what is free that stays so: buffers are not all that a process takes."""

GROUPS = (
    ("/sys/fs/cgroup", "memory.max", "memory.current"),
    ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes"),
)
"""Where Linux says what a container may take, and what it takes: in version 2 and in version 1 of control groups."""

Limits = dict[str, int]
"""Bytes by place: "device" where there is one, "host" and "disk"."""


def limits(budget: Budget, device: int | None, folder: str | os.PathLike[str] | None) -> Limits:
    """The bytes that a call may take in each place.

    Parameters
    ----------
    budget : Budget
    device : int or None
        Ordinal of a CUDA device; None where models lie on the host.
    folder : path or None
        Where a file of history would lie; the system's folder for such unless given.

    Returns
    -------
    dict of str to int
    """
    given = {name: getattr(budget, name) for name in ("device", "host", "disk")}
    found = {name: int(size) for name, size in given.items() if size is not None}
    if "disk" not in found:
        there = File.default() if folder is None else os.fspath(folder)
        found["disk"] = _share(shutil.disk_usage(there).free if os.path.isdir(there) else 0)
    if device is None:
        bounds = [found[name] for name in ("device", "host") if name in found]
        return {"host": min(bounds) if bounds else _share(host_memory()), "disk": found["disk"]}
    if "host" not in found:
        found["host"] = _share(host_memory())
    if "device" not in found:
        found["device"] = int((1 - KEPT_BACK) * (memory(device) - torch.cuda.memory_allocated(device)))
    return {name: found[name] for name in ("device", "host", "disk")}


def host_memory() -> int:
    """Bytes that the host can still give to this process's group; a very large number where the system does not say."""
    bounds = [free for free in (free_memory(), *map(_left, GROUPS)) if free is not None]
    return min(bounds, default=2**62)


def _left(group: tuple[str, str, str]) -> int | None:
    """What a control group has left; pages of files can be had back."""
    folder, most, taken = group
    with suppress(OSError, ValueError):
        found = int(Path(folder, most).read_text()) - int(Path(folder, taken).read_text())
        lines = dict(line.split() for line in Path(folder, "memory.stat").read_text().splitlines())
        return found + int(lines.get("inactive_file", 0))
    return None


def _share(free: int) -> int:
    """The part of this process in what the node has."""
    return int((1 - KEPT_BACK) * free / local_size())
