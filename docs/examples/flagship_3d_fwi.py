"""Full-waveform inversion in 3-D that does not fit into one GPU's memory, made to fit: a lesson in one file.

A cube of ground, one kilometre a side, holds a ball of fast rock. Sources lie near the surface, receivers there and in
galleries at the base, and each record lasts 0.6 s. `--cells` and `--steps` say how finely that is computed. With the
defaults, 100^3 cells and 600 steps, a plain call with four shots would take 27 GB, nearly all of it for the wave's past.
Here that is the past of two shots and of a fifth of the steps, in 8 bits a value, in the host's memory:

    python docs/examples/flagship_3d_fwi.py                                  # one GPU, or the CPU
    torchrun --nproc-per-node 2 docs/examples/flagship_3d_fwi.py --shots 8   # two GPUs, or two processes on CPUs
    python docs/examples/flagship_3d_fwi.py --quick                          # seconds, on any machine

With `--budget "12 GB"` the levers are not given but found: those of the fastest call that takes no more of each device.

What is printed first is the plan of the call that is then made; below each epoch's loss stands what it really took.
"""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

import numbawave
from numbawave.apps import ddp
from numbawave.apps.device import own_device
from numbawave.apps.plots import CHANGE_MAP, draw_model
from numbawave.apps.ranks import gathered

try:
    import resource
except ImportError:  # on Windows, which then shows no RSS
    resource = None

EXTENT, DURATION, FREQUENCY, FASTEST = 1000.0, 0.6, 12.0, 3000.0  # m, s, Hz, m/s
LARGEST_CHANGE = 60.0  # m/s, in an epoch
COMPRESSIONS = {"none": False, "lossy": True}
QUICK = {"cells": 20, "steps": 60, "layer": 8, "shots": 4}
Call = Callable[[Tensor], dict[str, Any]]


def options_of(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", type=int, default=100, help="along each side of the cube")
    parser.add_argument("--steps", type=int, default=600, help="of time")
    parser.add_argument("--layer", type=int, default=20, help="cells of the absorbing layers")
    parser.add_argument("--shots", type=int, default=8, help="of all ranks together; give each at least four")
    parser.add_argument("--batch", type=int, default=2, help="shots in one call")
    parser.add_argument("--segments", type=int, default=5, help="checkpoint_segments")
    parser.add_argument("--storage", default="cpu", choices=("device", "cpu", "disk"), help="storage_mode")
    parser.add_argument("--compression", default="lossy", choices=("none", "lossy", "lossless", "bf16", "int8"))
    parser.add_argument("--budget", help="bytes of a device, such as '12 GB', for which all levers are chosen")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--output", default="flagship.png", help="where the picture goes")
    parser.add_argument("--quick", action="store_true", help=f"the defaults are those of a trial: {QUICK}")
    if parser.parse_known_args(words)[0].quick:
        parser.set_defaults(**QUICK)
    return parser.parse_args(words)


def survey_of(options: argparse.Namespace, device: torch.device) -> tuple[Tensor, Tensor, Call]:
    """The true speed and that of the start, [z, y, x] in m/s, and what `numbawave.scalar` is called with for some shots."""
    n, dt = options.cells, DURATION / options.steps
    middle = (torch.arange(n) + 0.5) / n
    z, y, x = torch.meshgrid(middle, middle, middle, indexing="ij")
    start = (1800 + 800 * z).to(device)
    ball = ((z - 0.45) ** 2 + (y - 0.5) ** 2 + (x - 0.5) ** 2 < 0.18**2).to(device)
    places = 0.15 + 0.7 * torch.rand(options.shots, 2, generator=torch.Generator().manual_seed(0))
    sources = torch.cat([torch.full((options.shots, 1), 0.03), places], 1)[:, None]  # [shot, source, axis]
    line = torch.linspace(0.05, 0.95, 16)
    receivers = torch.cartesian_prod(torch.tensor([0.01, 0.97]), line, line)
    wavelet = numbawave.wavelets.ricker(FREQUENCY, options.steps, dt, 1.2 / FREQUENCY).to(device)
    levers = {
        "checkpoint_segments": options.segments,
        "storage_mode": options.storage,
        "storage_compression": COMPRESSIONS.get(options.compression, options.compression),
    }
    if options.budget:
        levers = {"memory": numbawave.Budget(device=options.budget)}

    def call(shots: Tensor) -> dict[str, Any]:
        return {
            "grid_spacing": EXTENT / n,
            "dt": dt,
            "source_amplitudes": wavelet.repeat(len(shots), 1, 1),
            "source_locations": (n * sources[shots]).long().to(device),
            "receiver_locations": (n * receivers).long().repeat(len(shots), 1, 1).to(device),
            "accuracy": 4,
            "pml_width": options.layer,
            # Every rank must take the same time step and layers, whatever its shots, also when the model changes.
            "max_vel": FASTEST,
            "pml_freq": FREQUENCY,
            **levers,
        }

    return start + 200 * ball, start, call


def epoch(v: Tensor, call: Call, observed: list[Tensor], batches: list[Tensor]) -> float:
    """The loss of all ranks' shots; `v.grad` is its gradient, the same on every rank."""
    loss = torch.zeros((), dtype=torch.float64)
    with ddp.united():  # an error of one rank ends all of them, where else the others would wait for it
        for batch, there in zip(batches, observed, strict=True):
            records = numbawave.scalar(v, **call(batch)).receiver_amplitudes
            misfit = (records - there).square().sum()
            misfit.backward()  # history of this batch lives until here, one segment at a time
            loss += misfit.detach().cpu()
    ddp.all_reduce_gradients([v])
    return float(ddp.sum_over_ranks(loss))


def descend(v: Tensor) -> None:
    """Change the speed against its gradient: more at depth, where waves are weak, and not next to sources and receivers."""
    n, edge = len(v), len(v) // 8
    with torch.no_grad():
        step = v.grad * torch.arange(n, device=v.device)[:, None, None] / n
        step[:edge] = step[n - edge :] = 0
        v -= LARGEST_CHANGE * step / step.abs().max()
    v.grad = None


def memory(device: torch.device, peak: bool = True) -> tuple[float, float]:
    """GB: what tensors take on this rank's GPU, at most so far or now, and the most that the process took on the host."""
    now = torch.cuda.max_memory_allocated if peak else torch.cuda.memory_allocated
    host = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss if resource else 0
    gpu = now(device) if device.type == "cuda" else 0
    return gpu / 1e9, host * (1 if sys.platform == "darwin" else 1024) / 1e9


def draw(path: str, changes: dict[str, Tensor]) -> None:
    """Slices of what should be found, and of what each epoch found of it."""
    figure = Figure(figsize=(5.5 * len(changes), 5.2), layout="constrained")
    for place, (title, change) in zip(figure.add_gridspec(1, len(changes)), changes.items(), strict=True):
        largest, spacing = float(change.abs().max()), np.full(3, EXTENT / len(change))
        draw_model(figure, place, change.cpu().numpy(), spacing, title, (-largest, largest), CHANGE_MAP)
    figure.savefig(path, dpi=110)


def invert(options: argparse.Namespace, ranks: ddp.Ranks) -> list[float]:
    """The loss before each epoch's change, as a part of the data's energy."""
    device = own_device("auto")
    true, start, call = survey_of(options, device)
    shots = torch.arange(options.shots)[ranks.shots(options.shots)]
    batches = [batch for batch in shots.split(options.batch) if len(batch)]
    v = start.clone().requires_grad_()

    plan, planned = None, (0.0, 0.0)
    with ddp.united():
        if batches:  # a rank may have no shots
            plan = numbawave.plan(numbawave.scalar, v, **call(batches[0]))
            taken = plan.memory.without_results()  # `epoch` keeps the records alone
            planned = (taken.device_bytes / 1e9, taken.host_bytes / 1e9)
    ddp.agree(plan and plan.info)  # on time step, layers and levers, before any rank propagates
    if ranks.first:
        print(plan.summary() if plan else "no shots on the first rank", end="\n\n")

    with ddp.united(), torch.no_grad():
        observed = [numbawave.scalar(true, **call(batch)).receiver_amplitudes for batch in batches]
    squares = [records.double().square().sum().cpu() for records in observed]
    energy = float(ddp.sum_over_ranks(torch.stack([torch.zeros(()).double(), *squares]).sum()))
    losses, changes = [], {"true - start": true - start}
    before = memory(device, peak=False)
    for number in range(1, options.epochs + 1):
        began = time.perf_counter()
        losses.append(epoch(v, call, observed, batches) / energy)
        descend(v)
        seconds = time.perf_counter() - began
        changes[f"update, {number} epoch{'s'[: number - 1]}"] = v.detach() - start
        words = [
            f"{what} {most:.2f} GB, {there:.2f} of it before the epochs (planned beyond that {more:.2f})"
            for what, most, there, more in zip(("GPU peak", "RSS"), memory(device), before, planned, strict=True)
            if most
        ]
        lines = gathered(f"  rank {ranks.rank}, {len(shots)} shots on {device}: {', '.join(words)}")
        if ranks.first:
            print(f"epoch {number}: loss {losses[-1]:.9e} of the data's energy, {seconds:.2f} s", *lines, sep="\n")
    if ranks.first:
        draw(options.output, changes)
        print(f"The change of the model is in {options.output}.")
    return losses


if __name__ == "__main__":
    with ddp.process_group() as ranks:
        invert(options_of(), ranks)
