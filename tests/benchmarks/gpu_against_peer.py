"""Times numbawave beside the reference peer on a GPU: ``make bench-gpu``.

Each row in a new process: medians of calls in turn after a warm-up, the peak of PyTorch's device memory for each package
alone, and how near our time comes to copy speed. Then the first call of a new process with an empty and with a full cache.
Without ``deepwave`` our figures alone; ``--device cpu --scale small`` tries the script where there is no GPU.
"""

import argparse
import gc
import importlib
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from datetime import date
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from statistics import median
from typing import Any, NamedTuple

import torch

import numbawave


class Row(NamedTuple):
    """A problem, and the times asked for and within reach: microseconds a step, or seconds a call."""

    cells: int
    ndim: int
    shots: int
    steps: int
    accuracy: int
    gradient: bool
    asked: float
    reach: float
    unit: str = "us a step"


ROWS = {
    "3-D 256^3 forward": Row(256, 3, 1, 200, 4, False, 215, 150),
    "3-D 256^3 forward, order 8": Row(256, 3, 1, 200, 8, False, 250, 180),
    "3-D 256^3 forward + backward": Row(256, 3, 1, 200, 4, True, 600, 500),
    "2-D 500^2 x 8 shots forward": Row(500, 2, 8, 2000, 4, False, 14, 10),
    "2-D 500^2 x 8 shots forward + backward": Row(500, 2, 8, 2000, 4, True, 45, 32),
    "2-D 100^2 forward": Row(100, 2, 1, 4000, 4, False, 3.5, 2.5),
    "2-D 100^2 forward + backward": Row(100, 2, 1, 4000, 4, True, 8, 5),
    "3-D 100^3 x 4 shots, 600 steps, forward + backward": Row(100, 3, 4, 600, 4, True, 0.20, 0.15, "s"),
}
FIRST_CALLS = {  # in this order, with one cache
    "first 3-D 100^3 forward + backward call, empty cache": Row(100, 3, 1, 2, 4, True, 8, 5, "s"),
    "first 3-D 100^3 forward + backward call, full cache": Row(100, 3, 1, 2, 4, True, 2, 1, "s"),
}
COLUMNS = ("row", "unit", "ours", "peer", "peer / ours", "asked", "reach", "our GPU peak, GB", "peer's", "bandwidth")
SPACING, DT, FREQUENCY, LARGEST, LAYER = 10.0, 0.001, 15.0, 2600.0, 20
FORWARD_BYTES, GRADIENT_BYTES = 16, 48  # the least that a padded point of a shot moves in a step


def problem(row: Row, device: str) -> dict[str, Any]:
    """The arguments of a call, on the device: sources at the centre, a row of receivers five cells from it."""
    n, generator = row.cells, torch.Generator().manual_seed(0)
    v = 2000 + 500 * torch.rand((n,) * row.ndim, generator=generator)
    wavelet = numbawave.wavelets.ricker(FREQUENCY, row.steps, DT, 0.1)
    source = torch.full((row.shots, 1, row.ndim), n // 2)
    source[:, 0, -1] += torch.arange(row.shots)
    receivers = torch.full((row.shots, n, row.ndim), n // 2 + 5)
    receivers[..., -1] = torch.arange(n)
    tensors = {"v": v, "source_amplitudes": wavelet.repeat(row.shots, 1, 1), "source_locations": source}
    tensors = {name: x.to(device) for name, x in (tensors | {"receiver_locations": receivers}).items()}
    tensors["v"].requires_grad_(row.gradient)
    numbers = {"grid_spacing": SPACING, "dt": DT, "accuracy": row.accuracy, "pml_width": LAYER}
    return tensors | numbers | {"pml_freq": FREQUENCY, "max_vel": LARGEST}


def call(propagate: Callable[..., Any], arguments: dict[str, Any]) -> None:
    """One call of either package, with the model's gradient where the model asks for it; nothing is kept."""
    record = propagate(**arguments).receiver_amplitudes
    if arguments["v"].requires_grad:
        (record**2).sum().backward()
        arguments["v"].grad = None


def timed(function: Callable[[], Any], device: str) -> float:
    """Seconds of a call, until the device is done."""
    wait: Callable[[], None] = torch.cuda.synchronize if device == "cuda" else lambda: None
    wait()
    start = time.perf_counter()
    function()
    wait()
    return time.perf_counter() - start


def peak(function: Callable[[], None], device: str, inputs: int) -> float | None:
    """GB at the peak of a second call, with the inputs, without what another package keeps; None without a GPU."""
    if device != "cuda":
        return None
    gc.collect()
    kept = torch.cuda.memory_allocated() - inputs
    function()
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    function()
    return (torch.cuda.max_memory_allocated() - kept) / 1e9


def compare(row: Row, device: str, repeats: int) -> dict[str, Any]:
    """Median seconds and peak of both packages."""
    packages: dict[str, Callable[..., Any]] = {"ours": numbawave.scalar}
    with suppress(ImportError):
        packages["peer"] = importlib.import_module("deepwave").scalar
    arguments = problem(row, device)
    runs = {name: partial(call, propagate, arguments) for name, propagate in packages.items()}
    inputs = torch.cuda.memory_allocated() if device == "cuda" else 0
    figures: dict[str, Any] = {f"{name} peak": peak(run, device, inputs) for name, run in runs.items()}
    turns = [{name: timed(run, device) for name, run in runs.items()} for _ in range(repeats + 1)]
    return figures | {name: median(turn[name] for turn in turns[1:]) for name in runs}  # the first fills the allocator


def first_call(row: Row, device: str) -> dict[str, Any]:
    """Seconds of this process's first call, with everything imported and the device started."""
    torch.zeros(1, device=device)
    return {"ours": timed(partial(call, numbawave.scalar, problem(row, device)), device)}


def release(package: str) -> str:
    """A package's name and version; ``-`` where it is not installed."""
    with suppress(PackageNotFoundError):
        return f"{package} {version(package)}"
    return f"{package} -"


def machine(device: str, small: bool) -> dict[str, Any]:
    """What the table was made with, and the bytes that a copy on the device reads and writes in a second."""
    name, driver = "CPU", "-"
    if device == "cuda":
        name = torch.cuda.get_device_name()
        query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        with suppress(OSError, subprocess.CalledProcessError, IndexError):
            driver = subprocess.run(query, capture_output=True, text=True, check=True).stdout.split()[0]
    source = torch.zeros(2 << (20 if small else 30), dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    target.copy_(source)
    seconds = median(timed(lambda: target.copy_(source), device) for _ in range(10))
    packages = ", ".join(release(package) for package in ("numpy", "torch", "numba", "numba-cuda", "deepwave"))
    title = f"{name}, driver {driver}; Python {platform.python_version()}, numbawave {numbawave.__version__}, {packages}"
    return {"title": title, "copy": 2 * source.numel() / seconds}


def child(title: str, options: argparse.Namespace, **environment: str) -> dict[str, Any]:
    """The figures of a row, from a process of its own."""
    words = f"--device {options.device} --scale {options.scale} --repeats {options.repeats}".split()
    command = [sys.executable, os.path.abspath(__file__), *words, "--row", title]
    done = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True)
    if done.returncode:
        last = (done.stderr.strip() or f"exit status {done.returncode}").splitlines()[-1]
        return {"failure": f"{title}: {last}"}
    return dict(json.loads(done.stdout.splitlines()[-1]))


def line(title: str, row: Row, figures: dict[str, Any], copy: float | None) -> str:
    """A line of the table; ``-`` for what was not measured."""
    ours, peer = figures.get("ours"), figures.get("peer")
    factor = 1.0 if row.unit == "s" else 1e6 / row.steps
    points = (row.cells + 2 * LAYER) ** row.ndim * row.shots * row.steps
    least = points * (GRADIENT_BYTES if row.gradient else FORWARD_BYTES)
    share = least / ours / copy if ours and copy and title in ROWS else None
    times = [ours and ours * factor, peer and peer * factor, peer / ours if ours and peer else None]
    numbers = [*times, row.asked, row.reach, figures.get("ours peak"), figures.get("peer peak"), share]
    words = ["-" if x is None else f"{x:.0f}" if x >= 100 else f"{x:#.3g}" for x in numbers]
    return f"| {' | '.join([title, row.unit, *words])} |"


def table(options: argparse.Namespace, rows: dict[str, Row]) -> list[str]:
    """Print the header and the lines; what failed is returned."""
    about = child("machine", options)
    if "failure" in about:
        return [about["failure"]]
    copy = about["copy"] if options.device == "cuda" else None
    rate = f"{copy / 1e12:.2f}" if copy else "-"
    print(f"{about['title']}; {date.today()}.\n")
    print(f"Float32, absorbing layers of {LAYER} cells; the two in turn, medians of {options.repeats} after a warm-up.")
    print(f"Copy on the device: {rate} TB/s, bytes read plus written; bandwidth is the share of it that the least traffic")
    print(f"takes: {FORWARD_BYTES} bytes a padded point, shot and step ({GRADIENT_BYTES} with the gradient).")
    print("A trial of the script: cells and steps are not what the rows say." if options.scale == "small" else "")
    print(f"\n| {' | '.join(COLUMNS)} |\n|{' --- |' * len(COLUMNS)}", flush=True)
    picked = [title for title in ROWS if options.only in title]
    picked += FIRST_CALLS if any(options.only in title for title in FIRST_CALLS) else []
    failures = []
    with tempfile.TemporaryDirectory() as cache:
        caches = {"NUMBAWAVE_CACHE_DIR": cache, "CUDA_CACHE_PATH": os.path.join(cache, "driver")}
        for title in picked:
            figures = child(title, options, **(caches if title in FIRST_CALLS else {}))
            failures += [failure] if (failure := figures.get("failure")) else []
            print(line(title, rows[title], figures, copy), flush=True)
    return failures


def main() -> None:
    """Print the table, or as a child the figures of one row."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", default="", help="rows whose title contains this")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--scale", choices=("full", "small"), default="full")
    parser.add_argument("--row", help="measure this row here and print its figures")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    small = options.scale == "small"
    rows = {title: row._replace(cells=20, steps=6) if small else row for title, row in (ROWS | FIRST_CALLS).items()}
    if not options.row:
        sys.exit("\n".join(table(options, rows)) or None)
    if options.row == "machine":
        figures = machine(options.device, small)
    elif options.row in FIRST_CALLS:
        figures = first_call(rows[options.row], options.device)
    else:
        figures = compare(rows[options.row], options.device, options.repeats)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
