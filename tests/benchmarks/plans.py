"""Compares plans with what calls take: ``make plans``, on a GPU where there is one.

Random calls, forward and backward, one after another: the bytes that ``numbawave.plan`` says before the call, beside the
peak of PyTorch's device memory and the growth of the process's resident memory during it (which needs memory that is given
back at once: ``MALLOC_MMAP_THRESHOLD_=65536``), which is less where a codec saves something; with ``--seconds``, the
expected time beside the shortest of three more calls. ``--picture`` draws bytes.
"""

import argparse
import gc
import random
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import torch

import numbawave

COLUMNS = ("call", "device MB: planned", "taken", "off", "host MB: planned", "taken", "off", "s: planned", "taken", "off")
CELLS = {
    "cpu": {1: (2_000, 8_000), 2: (200, 600), 3: (36, 60)},
    "cuda": {1: (8_000, 32_000), 2: (400, 1_200), 3: (60, 110)},
}
"""Cells of an axis, at least and at most."""

LONGER = {
    "cpu": {1: (10, 10), 2: (1, 1), 3: (1, 1)},
    "cuda": {1: (10, 10), 2: (1, 5), 3: (1, 2)},
}
"""Times as many shots, and steps."""

LEAST = 50e6
"""Bytes that a call must plan for to be made: what a process takes by the way counts little beside."""


class Compared(NamedTuple):
    """What was planned and what was taken, in bytes and seconds; whether a codec may save a part of the host's bytes."""

    call: str
    bound: bool
    device: tuple[float, float]
    host: tuple[float, float]
    seconds: tuple[float, float]


def draw(chance: random.Random, device: str, folder: str) -> tuple[str, dict[str, Any]]:
    """A random call, and how it is called."""
    ndim = chance.choice((1, 2, 2, 3, 3))
    shape = [chance.randint(*CELLS[device][ndim]) for _ in range(ndim)]
    longer = zip(LONGER[device][ndim], ((1, 4), (20, 60)), strict=True)
    shots, steps = (times * chance.randint(*ends) for times, ends in longer)
    wanted = chance.random() < 0.8
    dtype = torch.float64 if ndim < 3 and chance.random() < 0.3 else torch.float32
    levers: dict[str, Any] = {"model_gradient_sampling_interval": chance.choice((1, 1, 2, 3))}
    if wanted:
        levers["history"] = chance.choice(("full", "full", "interior", "reconstruct"))
        levers["checkpoint_segments"] = chance.choice((None, None, 2, 4, "auto"))
        levers["storage_mode"] = chance.choice(("device", "device", "cpu", "disk"))
        codings = (False, False, True, "bf16", "int8", *(("lossless",) if levers["storage_mode"] != "device" else ()))
        levers["storage_compression"] = chance.choice(codings)
        if levers["storage_mode"] == "disk":
            levers["storage_path"] = folder
    if levers.get("history") == "reconstruct":
        levers["model_gradient_sampling_interval"] = 1
    cells = torch.tensor([[[n // 2 for n in shape]]]).expand(shots, 1, ndim).contiguous()
    step = 0.0005 * (2.5 if chance.random() < 0.2 else 1.0)
    call = {
        "v": (2000 + 100 * torch.rand(shape, dtype=dtype)).to(device).requires_grad_(wanted),
        "grid_spacing": 5.0,
        "dt": step,
        "source_amplitudes": torch.randn(shots, 1, steps, dtype=dtype).to(device),
        "source_locations": cells.to(device),
        "receiver_locations": (cells + 1).to(device),
        "pml_width": chance.choice((0, 10, 20)),
        "pml_freq": 25.0,
        "max_vel": 2500.0,
        "accuracy": 4,
        **levers,
    }
    said = ", ".join(
        f"{k}={v}" for k, v in levers.items() if v not in (None, False, 1, "full", "device") and k != "storage_path"
    )
    size = " x ".join(map(str, shape))
    return f"{size}, {shots} shots, {steps} steps of {1000 * step:g} ms, {str(dtype)[6:]}, {said or 'no lever'}", call


def resident(name: str) -> int:
    """Bytes of the process: ``VmRSS`` now, ``VmHWM`` at most since `forget`."""
    with open("/proc/self/status") as status:
        return int(next(line for line in status if line.startswith(name)).split()[1]) * 1024


def forget() -> None:
    """Let the peak of resident memory begin anew."""
    with suppress(OSError), open("/proc/self/clear_refs", "w") as switch:
        switch.write("5")


def run(call: dict[str, Any]) -> float:
    """Seconds of a call, forward and back."""
    on_gpu = call["v"].device.type == "cuda"
    begin = time.perf_counter()
    out = numbawave.scalar(**call)
    if call["v"].requires_grad:
        out.receiver_amplitudes.square().sum().backward()
    if on_gpu:
        torch.cuda.synchronize()
    call["v"].grad = None
    return time.perf_counter() - begin


def compare(said: str, call: dict[str, Any], seconds: bool) -> Compared | None:
    """Plan a call, and make it: once so that all is compiled, then measured. None for one that is too small."""
    plan = numbawave.plan("scalar", **call)
    if plan.memory.device_bytes + plan.memory.host_bytes < LEAST:
        return None
    run(call)
    gc.collect()
    on_gpu = call["v"].device.type == "cuda"
    base = 0
    if on_gpu:
        torch.cuda.empty_cache()
        getattr(torch._C, "_host_emptyCache", lambda: None)()  # pinned memory is kept otherwise, and would not be counted
        torch.cuda.reset_peak_memory_stats()
        base = torch.cuda.memory_allocated()
    forget()
    before = resident("VmRSS")
    run(call)
    host = resident("VmHWM") - before
    device = torch.cuda.max_memory_allocated() - base if on_gpu else 0
    expected, taken = (plan.seconds.total, min(run(call) for _ in range(3))) if seconds else (0.0, 0.0)
    bound = call.get("storage_mode") in ("cpu", "disk") and call.get("storage_compression") in ("lossless", "bf16", "int8")
    return Compared(said, bound, (plan.memory.device_bytes, device), (plan.memory.host_bytes, host), (expected, taken))


def off(planned: float, taken: float, least: float) -> str:
    """How far a plan is from what was taken; nothing is said of little."""
    return f"{planned / taken - 1:+.1%}" if taken and max(planned, taken) >= least else "-"


def row(found: Compared) -> str:
    """A row of the table."""
    device, host = ([f"{value / 1e6:.1f}" for value in each] for each in (found.device, found.host))
    spared = found.bound and found.host[0] > found.host[1]
    words = [found.call, *device, off(*found.device, LEAST), *host, "at most" if spared else off(*found.host, LEAST)]
    words += [f"{value:.3f}" for value in found.seconds] + [off(*found.seconds, 0.02) if found.seconds[0] else "-"]
    return f"| {' | '.join(words)} |"


def picture(found: list[Compared], path: Path) -> None:
    """Planned against taken, device and host."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 4), layout="constrained")
    for axes, title, pairs in zip(
        figure.subplots(1, 2), ("device", "host"), ([f.device for f in found], [f.host for f in found]), strict=True
    ):
        large = [pair for pair in pairs if max(pair) >= LEAST]
        axes.set(title=title, xlabel="planned, MB", ylabel="taken, MB", xscale="log", yscale="log")
        if large:
            axes.plot(*([value / 1e6 for value in each] for each in zip(*large, strict=True)), "o", ms=3)
            ends = [min(map(min, large)) / 1e6, max(map(max, large)) / 1e6]
            axes.plot(ends, ends, "k:", lw=1)
    figure.savefig(path, dpi=120)


def main() -> None:
    """Print the table, and the worst of each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--seconds", action="store_true")
    parser.add_argument("--picture", type=Path)
    parser.add_argument("--within", type=float, default=1e9, help="fail where planned bytes are off by more")
    parser.add_argument("--stop-after", type=float, default=1e9, metavar="S", help="begin no call after so many seconds")
    options = parser.parse_args()
    chance, begin = random.Random(options.seed), time.perf_counter()
    found: list[Compared] = []
    print(f"| {' | '.join(COLUMNS)} |\n|{' --- |' * len(COLUMNS)}")
    with tempfile.TemporaryDirectory() as folder:
        while len(found) < options.count and time.perf_counter() - begin < options.stop_after:
            torch.manual_seed(options.seed)
            if each := compare(*draw(chance, options.device, folder), options.seconds):
                found.append(each)
                print(row(each), flush=True)
    failed = False
    late = [f.seconds[0] / f.seconds[1] - 1 for f in found if f.seconds[0]]
    if late:
        near = sum(abs(each) <= 0.3 for each in late)
        print(f"\nseconds: {len(late)} calls, from {min(late):+.0%} to {max(late):+.0%}, {near} within 30 %")
    for place, pairs in (("device", [f.device for f in found]), ("host", [f.host for f in found])):
        bounds = [place == "host" and f.bound for f in found]
        errors = [
            min(0, planned / taken - 1) if bound else planned / taken - 1
            for bound, (planned, taken) in zip(bounds, pairs, strict=True)
            if max(planned, taken) >= LEAST and taken
        ]
        if errors:
            print(f"\n{place}: {len(errors)} calls, from {min(errors):+.1%} to {max(errors):+.1%}")
            failed |= max(map(abs, errors)) > options.within
    if options.picture:
        picture(found, options.picture)
    sys.exit(failed)


if __name__ == "__main__":
    main()
