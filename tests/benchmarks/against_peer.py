"""Times numbawave beside the reference peer, in turn, in one process: ``make bench``.

Medians of several calls after a warm-up; also the first call of a new process with an empty and with a full cache, and
the peak memory of a gradient run. Without ``deepwave`` installed it prints our times alone.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from statistics import median
from typing import Any

import torch

import numbawave

# title: cells along each axis, steps, accuracy, gradient, the speed against the peer that is asked for
ROWS: dict[str, tuple[tuple[int, ...], int, int, bool, float | None]] = {
    "3-D 100^3 forward": ((100,) * 3, 40, 4, False, 2.5),
    "3-D 100^3 forward + backward": ((100,) * 3, 20, 4, True, 2.5),
    "3-D 100^3 forward, order 8": ((100,) * 3, 20, 8, False, None),
    "2-D 500^2 forward": ((500,) * 2, 400, 4, False, 1.0),
    "2-D 500^2 forward + backward": ((500,) * 2, 100, 4, True, 2.0),
    "2-D 100^2 forward": ((100,) * 2, 4000, 4, False, 2.0),
    "2-D 100^2 forward + backward": ((100,) * 2, 1000, 4, True, None),
}
SPACING, DT, FREQUENCY, LARGEST = 10.0, 0.001, 15.0, 2600.0


def call(propagate: Callable[..., Any], shape: tuple[int, ...], steps: int, accuracy: int, gradient: bool) -> None:
    """One call of either package, with a row of receivers near the source."""
    generator = torch.Generator().manual_seed(0)
    v = (2000 + 500 * torch.rand(shape, generator=generator)).requires_grad_(gradient)
    wavelet = numbawave.wavelets.ricker(FREQUENCY, steps, DT, 0.1)
    source = torch.tensor([[[n // 2 for n in shape]]])
    receivers = torch.tensor([[[n // 2 + 5 for n in shape[:-1]] + [x] for x in range(shape[-1])]])
    out = propagate(v, SPACING, DT, source_amplitudes=wavelet.reshape(1, 1, -1), source_locations=source,
                    receiver_locations=receivers, accuracy=accuracy, pml_freq=FREQUENCY, max_vel=LARGEST)  # fmt: skip
    if gradient:
        (out.receiver_amplitudes**2).sum().backward()


def timed(function: Callable[[], None]) -> float:
    """Seconds of a call."""
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def row(title: str, peer: Callable[..., Any] | None, repeats: int) -> str:
    """A line of the table: microseconds a step, ours and the peer's, and their ratio."""
    shape, steps, accuracy, gradient, asked = ROWS[title]
    ours = lambda: call(numbawave.scalar, shape, steps, accuracy, gradient)  # noqa: E731
    theirs = (lambda: call(peer, shape, steps, accuracy, gradient)) if peer else None
    ours()
    pairs = [(timed(ours), timed(theirs) if theirs else float("nan")) for _ in range(repeats + (theirs is not None))]
    pairs = pairs[1:] if theirs else pairs
    mine, other = median(a for a, _ in pairs), median(b for _, b in pairs)
    target = "-" if asked is None else f"{asked:.1f}"
    return f"| {title} | {mine / steps * 1e6:.1f} | {other / steps * 1e6:.1f} | {other / mine:.2f} | {target} |"


FIRST = """
import resource, time
start = time.perf_counter()
import runpy, sys
sys.argv = ["against_peer"]
bench = runpy.run_path({path!r})
import numbawave
imported = time.perf_counter()
bench["call"](numbawave.scalar, (100, 100, 100), 2, 4, True)
print(imported - start, time.perf_counter() - imported)
"""


def first_call(cache: str) -> tuple[float, float]:
    """Seconds of import and of the first 3-D gradient in a new process."""
    command = [sys.executable, "-c", FIRST.format(path=os.path.abspath(__file__))]
    done = subprocess.run(
        command, env=os.environ | {"NUMBAWAVE_CACHE_DIR": cache}, capture_output=True, text=True, check=True
    )
    imported, called = (float(word) for word in done.stdout.split()[-2:])
    return imported, called


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", default="", help="rows whose title contains this")
    parser.add_argument("--no-first-call", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    try:
        from deepwave import scalar as peer
    except ImportError:
        peer = None
        print("deepwave is not installed: our times alone")
    print(f"{torch.get_num_threads()} threads, float32, absorbing layers of 20 cells; medians of {options.repeats}\n")
    print("| row | ours, us a step | peer | peer / ours | asked |\n| --- | --- | --- | --- | --- |")
    for title in (t for t in ROWS if options.only in t):
        print(row(title, peer, options.repeats), flush=True)
    if not options.no_first_call:
        with tempfile.TemporaryDirectory() as cache:
            for title in ("empty", "full"):
                imported, called = first_call(cache)
                print(
                    f"first 3-D forward + backward call, {title} cache: {called:.2f} s (import {imported:.2f} s)",
                    flush=True,
                )
    print(f"peak memory of this process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.2f} GB")


if __name__ == "__main__":
    main()
