"""Which levers make a gradient fit on which card, what they cost, and how right the plan is: ``make decision-table``.

Each row in a new process, on the GPU, or with ``--scale cpu`` (the default without one) or ``small`` on the CPU. On a GPU a
row is tried with as much of its memory as ever larger cards have, up to the whole: what a failed try held and asked for
together is in the table, and the figures are those of the first card on which the row fits. Seconds are of a second call.
Bytes on the host are those beyond what the process held after a tiny call of the same kind. The gradient is compared with
the plain one of the same problem; where that does not fit, with that of a proxy, a smaller problem. Written are a CSV file,
a Markdown table and a picture.
"""

import argparse
import csv
import gc
import json
import platform
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

import torch
from gpu_against_peer import Row, problem, release
from gradient_call import attempted, child_figures, distance, forget_most_resident, measured
from matplotlib.figure import Figure

import numbawave
from numbawave.errors import DeviceMemoryError

CARDS = (16, 20, 24, 80)
"""Memory of cards in GB of 10^9 bytes: what they have beyond that is about what CUDA itself takes."""

HOST, FILE, LOSSY = {"storage_mode": "cpu"}, {"storage_mode": "disk"}, {"storage_compression": True}
FIVE, AUTO = {"checkpoint_segments": 5}, {"checkpoint_segments": "auto"}
INSIDE, UNDONE = {"history": "interior"}, {"history": "reconstruct"}
BYTES = {"storage_compression": "int8"}
WAYS: tuple[dict[str, Any], ...] = (
    {}, FIVE, AUTO, FIVE | HOST, FIVE | HOST | LOSSY, FIVE | FILE | LOSSY, FIVE | HOST | LOSSY | INSIDE,
    {"storage_compression": "bf16"}, BYTES, INSIDE, UNDONE, UNDONE | BYTES,
)  # fmt: skip
LARGE_WAYS = ({}, AUTO, AUTO | HOST, AUTO | HOST | LOSSY, AUTO | HOST | LOSSY | INSIDE, UNDONE)


@dataclass(frozen=True)
class Case:
    """A row's problem and levers: a cube of cells, steps, shots in a call."""

    cells: int
    steps: int
    shots: int
    levers: dict[str, Any] = field(default_factory=dict)

    @property
    def plain(self) -> "Case":
        """The same problem without a lever."""
        return Case(self.cells, self.steps, self.shots)

    def arguments(self, device: str) -> dict[str, Any]:
        """Those of the call, without the levers."""
        return problem(Row(self.cells, 3, self.shots, self.steps, 4, True, 0.0, 0.0), device)


ROWS = {
    "full": [
        *(Case(100, 600, 4, levers) for levers in WAYS),
        *(Case(100, 600, 2, levers) for levers in ({}, FIVE | HOST | LOSSY)),
        *(Case(150, 900, 4, levers) for levers in LARGE_WAYS),
        *(Case(200, 1000, 2, levers) for levers in LARGE_WAYS),
    ],
    "cpu": [Case(48, 300, 4, levers) for levers in WAYS],
    "small": [Case(24, 120, 2, levers) for levers in WAYS],
}
TINY, PROXY = Case(12, 8, 1), Case(40, 200, 2)
COLUMNS = {
    "grid": "grid", "nt": "steps", "shots": "shots", "segments": "segments", "storage": "storage",
    "compression": "compression", "region": "region", "fits": "fits on", "tried_gb": "tried in vain, GB",
    "gpu_gb": "GPU peak, GB", "planned_gpu_gb": "planned", "gpu_error": "off by", "host_gb": "host, GB",
    "planned_host_gb": "planned", "host_error": "off by", "seconds": "s", "gradient_error": "gradient off by",
    "against": "against",
}  # fmt: skip


def sizes() -> list[tuple[str, int]]:
    """The cards that this GPU can be, and itself, with their bytes; on the CPU none."""
    if not torch.cuda.is_available():
        return []
    whole = torch.cuda.get_device_properties(0).total_memory
    return [(f"{gb} GB", gb * 10**9) for gb in CARDS if gb * 10**9 < whole] + [(f"{whole / 1e9:.0f} GB", whole)]


def limit(size: int) -> None:
    """Let this process have so many bytes of the GPU."""
    gc.collect()
    torch.cuda.empty_cache()
    whole = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(min(1.0, size / whole))


def figures(case: Case, device: str, gradients: Path) -> dict[str, Any]:
    """A row's figures, measured in this process; a plain gradient goes to a file, from which other rows take it."""
    tiny = TINY.arguments(device) | {"pml_width": 2}  # whatever it holds is held before and after, and not counted
    measured(numbawave.scalar, tiny, case.levers)  # compiles, and loads what is loaded once
    arguments = case.arguments(device)
    memory = numbawave.plan(numbawave.scalar, **arguments, **case.levers).memory
    found: dict[str, Any] = {"planned_gpu_gb": memory.device_bytes / 1e9, "planned_host_gb": memory.host_bytes / 1e9}
    tries, result, before = [], None, 0
    for name, size in sizes() if device == "cuda" else [("host", 0)]:
        if size:
            limit(size)
        before = forget_most_resident()
        try:
            result = measured(numbawave.scalar, arguments, case.levers)
        except (DeviceMemoryError, torch.cuda.OutOfMemoryError) as error:
            tries.append(f"{name}: {attempted(error) / 1e9:.2f}")
            arguments["v"].grad = None
            continue
        found["fits"] = name
        break
    found["tried_gb"] = "; ".join(tries)
    if result is None:
        return found | {"fits": "none of these"}
    found |= {"seconds": result.seconds, "gpu_gb": result.gpu / 1e9, "host_gb": (result.rss - before) / 1e9}
    for place in ("gpu", "host"):
        if found[f"{place}_gb"] > 0.01:  # of less, a part is no measure: the process grows by pages of its own
            found[f"{place}_error"] = found[f"planned_{place}_gb"] / found[f"{place}_gb"] - 1
    return found | compared(case, result.gradient, device, gradients)


def compared(case: Case, gradient: torch.Tensor, device: str, gradients: Path) -> dict[str, Any]:
    """How far a row's gradient is from the plain one, or that of the proxy where there is no plain one."""
    file = gradients / f"{case.cells} {case.steps} {case.shots}"
    if not case.levers:
        torch.save(gradient, file)
        return {"gradient_error": 0.0, "against": "itself"}
    if file.exists():
        return {"gradient_error": distance(gradient, torch.load(file)), "against": "plain"}
    pair = [measured(numbawave.scalar, PROXY.arguments(device), levers).gradient for levers in (case.levers, {})]
    return {"gradient_error": distance(*pair), "against": f"plain, of {PROXY.cells}^3 and {PROXY.steps} steps"}


def row(case: Case, found: dict[str, Any]) -> dict[str, Any]:
    """A line of the CSV file."""
    levers = case.levers
    own = {
        "grid": f"{case.cells}^3", "nt": case.steps, "shots": case.shots, "segments": levers.get("checkpoint_segments", 1),
        "storage": levers.get("storage_mode", "device"), "compression": str(levers.get("storage_compression", "no")),
        "region": levers.get("history", "full"),
    }  # fmt: skip
    return {name: (own | found).get(name, "") for name in COLUMNS}


def shown(name: str, value: Any) -> str:
    """A value as the table shows it."""
    if value == "" or (name.endswith("gpu_gb") and value == 0):
        return "-"
    if not isinstance(value, float):
        return str(value)
    if name == "gradient_error":
        return f"{value:.1e}" if value else "0"
    return f"{value:+.1%}" if name.endswith("error") else f"{value:.3g}"


def markdown(rows: Iterable[dict[str, Any]], title: str) -> str:
    """The table, under a title."""
    lines = [title, "", f"| {' | '.join(COLUMNS.values())} |", f"|{' --- |' * len(COLUMNS)}"]
    lines += [f"| {' | '.join(shown(name, value) for name, value in each.items())} |" for each in rows]
    return "\n".join(lines) + "\n"


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """Bytes against seconds, a point a row: on the GPU where there was one, else on the host. Lines are the cards."""
    place = "gpu" if any(each["gpu_gb"] for each in rows) else "host"
    ran = [each for each in rows if each["seconds"] != "" and each[f"{place}_gb"] > 0]
    if not ran:
        return
    figure = Figure(figsize=(11, 7.5), layout="constrained")
    axes = figure.add_subplot()
    marks = {"device": "o", "cpu": "s", "disk": "D"}
    colours = {problem: f"C{number}" for number, problem in enumerate(dict.fromkeys(map(problem_of, ran)))}
    for each in ran:
        x, y, colour = each["seconds"], each[f"{place}_gb"], colours[problem_of(each)]
        axes.plot(x, y, marks[each["storage"]], color=colour, ms=8, alpha=0.8)
        axes.annotate(levers_of(each), (x, y), xytext=(7, 3), textcoords="offset points", fontsize=7)
    for name, colour in colours.items():
        axes.plot([], [], "o", color=colour, label=name)
    for name, mark in marks.items():
        axes.plot([], [], mark, color="0.5", label=f"history: {name}")
    axes.set_xscale("log")
    axes.set_yscale("log")
    for size in CARDS if place == "gpu" else ():
        axes.axhline(size, color="0.4", lw=0.8, ls="--")
        axes.text(1.0, size, f" {size} GB", transform=axes.get_yaxis_transform(), va="center", fontsize=8)
    axes.set_xlabel("seconds, forward and backward")
    axes.set_ylabel("GPU peak, GB" if place == "gpu" else "host, GB beyond a tiny call")
    axes.legend(fontsize=8)
    axes.grid(alpha=0.3, which="both")
    figure.savefig(path, dpi=110)


def problem_of(each: dict[str, Any]) -> str:
    """A row's problem in words."""
    return f"{each['grid']}, {each['nt']} steps, {each['shots']} shots"


def levers_of(each: dict[str, Any]) -> str:
    """A row's levers in words; where history lies is the mark's to say."""
    segments = "" if each["segments"] == 1 else f"{each['segments']} segments"
    words = [segments, "" if each["compression"] == "no" else each["compression"].replace("True", "lossy")]
    return ", ".join(filter(None, [*words, "" if each["region"] == "full" else each["region"]])) or "no lever"


def main(words: list[str] | None = None) -> None:
    """Measure all rows and write them, or as a child print the figures of one."""
    scale = "full" if torch.cuda.is_available() else "cpu"
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", choices=ROWS, default=scale)
    parser.add_argument("--only", type=int, nargs="*", help="numbers of rows, from 0")
    parser.add_argument("--output", type=Path, default=Path("build/decision-table"), help="a folder")
    parser.add_argument("--row", type=int, help="measure this row here and print its figures")
    parser.add_argument("--gradients", type=Path)
    options = parser.parse_args(words)
    device, cases = "cuda" if torch.cuda.is_available() else "cpu", ROWS[options.scale]
    if options.row is not None:
        print(json.dumps(figures(cases[options.row], device, options.gradients)))
        return
    options.output.mkdir(parents=True, exist_ok=True)
    name = torch.cuda.get_device_name() if device == "cuda" else "CPU"
    packages = ", ".join(release(package) for package in ("numpy", "torch", "numba", "numba-cuda", "blosc2"))
    title = f"{name}; Python {platform.python_version()}, numbawave {numbawave.__version__}, {packages}; {date.today()}."
    rows = []
    with tempfile.TemporaryDirectory() as gradients:
        for number in range(len(cases)) if options.only is None else options.only:
            words = ["--scale", options.scale, "--row", str(number), "--gradients", gradients]
            found = child_figures(__file__, *words)
            rows.append(row(cases[number], found | ({"fits": found["failure"]} if "failure" in found else {})))
            print(f"{number}: {problem_of(rows[-1])}, {levers_of(rows[-1])}: {json.dumps(found)}", flush=True)
            write(rows, title, options.output)


def write(rows: list[dict[str, Any]], title: str, folder: Path) -> None:
    """The files, whole after every row: a long run may be stopped."""
    with open(folder / "decision_table.csv", "w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, COLUMNS)
        table.writeheader()
        table.writerows(rows)
    (folder / "decision_table.md").write_text(markdown(rows, title), encoding="utf-8")
    draw(rows, folder / "decision_table.png")


if __name__ == "__main__":
    main()
