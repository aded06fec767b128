"""A call with its gradient, measured in a process of its own: what the tables of the levers are made from."""

import json
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch


@dataclass(frozen=True)
class Measured:
    """What a first call took, bytes and seconds, and the seconds of a second one.

    ``gpu`` is the peak of PyTorch's memory on the device, ``rss`` the most that the process held on the host, so far.
    """

    gpu: int
    rss: int
    first: float
    seconds: float
    gradient: torch.Tensor


def measured(propagate: Callable[..., Any], arguments: dict[str, Any], levers: dict[str, Any]) -> Measured:
    """Two calls, forward and backward with the model's gradient, where the model lies; a file gets a folder of its own."""
    on_gpu, seconds, v = arguments["v"].is_cuda, [], arguments["v"]
    wait: Callable[[], None] = torch.cuda.synchronize if on_gpu else lambda: None
    gpu, rss, gradient = 0, 0, v
    if on_gpu:
        torch.cuda.reset_peak_memory_stats()
    with tempfile.TemporaryDirectory() as folder:
        more = levers | ({"storage_path": folder} if levers.get("storage_mode") == "disk" else {})
        for _ in range(2):
            v.grad = None
            wait()
            start = time.perf_counter()
            out = propagate(**arguments, **more)
            (out.receiver_amplitudes**2).sum().backward()  # the results live as long as in a user's loop
            wait()
            seconds.append(time.perf_counter() - start)
            if len(seconds) == 1:
                rss, gradient = most_resident(), v.grad.cpu().clone()
                gpu = torch.cuda.max_memory_allocated() if on_gpu else 0
            del out
    v.grad = None
    return Measured(gpu, rss, *seconds, gradient)


def most_resident() -> int:
    """The most bytes that this process held on the host, since it started or `forget_most_resident`."""
    with suppress(OSError, StopIteration), open("/proc/self/status") as file:
        return int(next(line for line in file if line.startswith("VmHWM")).split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def forget_most_resident() -> int:
    """What the process holds now; `most_resident` begins anew from there, where the system can do that."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return most_resident()


def attempted(error: BaseException) -> int:
    """Bytes that the process held and asked for, together, when a device had no more, by what PyTorch's error says."""
    units = {"bytes": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
    said = str(error.__cause__ or error)
    found = [re.search(rf"{words}([\d.]+) (\w+)", said) for words in ("Tried to allocate ", "Of the allocated memory ")]
    return sum(int(float(each[1]) * units[each[2]]) for each in found if each)


def child_figures(script: str, *words: str) -> dict[str, Any]:
    """What a script prints as JSON in its last line, run in a new process; ``failure`` alone where that fails."""
    done = subprocess.run([sys.executable, script, *words], capture_output=True, text=True)
    if done.returncode:
        return {"failure": (done.stderr.strip() or f"exit status {done.returncode}").splitlines()[-1]}
    return dict(json.loads(done.stdout.splitlines()[-1]))


def distance(one: torch.Tensor, other: torch.Tensor) -> float:
    """Relative L2 distance of a gradient from another; 0 means the same bits."""
    return 0.0 if torch.equal(one, other) else float((one - other).norm() / other.norm())
