"""Measures the levers of memory on a GPU: ``make levers-gpu``.

Each row in a new process: the peak of PyTorch's device memory and of the process's memory after the first call, seconds of
the second one, forward and backward, and how far the gradient is from that of the row without a lever. Where the reference
peer is installed, its call with the same arguments beside it.
"""

import argparse
import importlib
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from gpu_against_peer import Row, problem
from gradient_call import child_figures, distance, measured

SEGMENTS: dict[str, Any] = {"checkpoint_segments": 5}
HOST, FILE, LOSSY = {"storage_mode": "cpu"}, {"storage_mode": "disk"}, {"storage_compression": True}
UNDONE: dict[str, Any] = {"history": "reconstruct"}
ROWS: dict[str, tuple[int, int, int, dict[str, Any], str, str]] = {
    # cells, steps, shots, levers, and what is asked for: GB of the GPU / of the process, and seconds
    "t1": (40, 200, 8, {}, "3.7 / -", "0.06"),
    "t3": (100, 600, 4, {}, "27.5 / -", "0.20"),
    "t4": (100, 600, 4, SEGMENTS, "7.0 / -", "0.30"),
    "t4a": (100, 600, 4, {"checkpoint_segments": "auto"}, "5.0 / -", "0.30"),
    "t5": (100, 600, 4, SEGMENTS | HOST, "0.9 / 8.5", "1.8"),
    "t6": (100, 600, 4, SEGMENTS | HOST | LOSSY, "0.9 / 3.6", "0.8"),
    "t7": (100, 600, 2, SEGMENTS | HOST | LOSSY, "0.45 / 2.7", "0.45"),
    "d7": (100, 600, 2, SEGMENTS | FILE | LOSSY, "0.45 / 2.0", "1.2"),
    "r4": (100, 600, 4, UNDONE, "2.0 / -", "0.35"),
    "r4i": (100, 600, 4, UNDONE | {"storage_compression": "int8"}, "1.1 / -", "0.36"),
    "r4c": (100, 600, 4, UNDONE | HOST | {"storage_compression": "lossless"}, "0.8 / 3.0", "0.5"),
    "i7": (100, 600, 2, SEGMENTS | HOST | LOSSY | {"history": "interior"}, "0.4 / 2.3", "0.40"),
    "int8 on the GPU": (100, 600, 4, {"storage_compression": "int8"}, "- / -", "-"),
    "bf16 on the GPU": (100, 600, 4, {"storage_compression": "bf16"}, "- / -", "-"),
    "8 states": (100, 600, 4, {"checkpoint_segments": 24, "checkpoint_states": 8}, "- / -", "-"),
    "r4 with 5 segments": (100, 600, 4, UNDONE | SEGMENTS, "- / -", "-"),
}
COLUMNS = ("row", "shots", "levers", "our GPU GB / RSS GB", "s", "gradient off by", "asked", "s", "peer's GB", "s")


def child(title: str, package: str, gradients: Path) -> dict[str, Any]:
    """A row's figures; the gradient goes to a file."""
    cells, steps, shots, levers, *_ = ROWS[title]
    arguments = problem(Row(cells, 3, shots, steps, 4, True, 0.0, 0.0), "cuda")
    found = measured(importlib.import_module(package).scalar, arguments, levers)
    torch.save(found.gradient, gradients / f"{package} {title}")
    return {"gpu": found.gpu / 1e9, "rss": found.rss / 1e9, "seconds": found.seconds, "first": found.first}


def run(title: str, package: str, gradients: str) -> dict[str, Any]:
    """The same from a process of its own; empty where it fails."""
    figures = child_figures(__file__, "--row", title, "--package", package, "--gradients", gradients)
    if "failure" in figures:
        print(f"{package} {title}: {figures['failure']}", file=sys.stderr)
        return {}
    return figures


def error(title: str, gradients: Path) -> str:
    """Relative L2 distance of a row's gradient from the plain one of as many shots."""
    plain = "t3" if ROWS[title][2] == 4 else None
    files = [gradients / f"numbawave {name}" for name in (title, plain)]
    if plain is None or not all(file.exists() for file in files):
        return "-"
    off = distance(*(torch.load(file) for file in files))
    return f"{off:.1e}" if off else "0"


def main() -> None:
    """Print the table, or as a child the figures of one row."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", default=list(ROWS))
    parser.add_argument("--peer", nargs="*", default=[])
    parser.add_argument("--row")
    parser.add_argument("--package", default="numbawave")
    parser.add_argument("--gradients")
    options = parser.parse_args()
    if options.row:
        print(json.dumps(child(options.row, options.package, Path(options.gradients))))
        return
    print(f"{torch.cuda.get_device_name()}; 3-D, order 4, layers of 20 cells, float32, forward and backward.\n")
    print(f"| {' | '.join(COLUMNS)} |\n|{' --- |' * len(COLUMNS)}")
    with tempfile.TemporaryDirectory() as gradients:
        for title in options.only:
            _, _, shots, levers, memory, seconds = ROWS[title]
            ours = run(title, "numbawave", gradients)
            peer = run(title, "deepwave", gradients) if title in options.peer else {}
            shown = ", ".join(f"{name}={value}" for name, value in levers.items()) or "-"
            both = [f"{x['gpu']:.2f} / {x['rss']:.2f} | {x['seconds']:.2f}" if x else "- | -" for x in (ours, peer)]
            words = [title, str(shots), shown, both[0], error(title, Path(gradients)), memory, seconds, both[1]]
            print(f"| {' | '.join(words)} |", flush=True)


if __name__ == "__main__":
    main()
