"""What a coding of history costs: the error of the model's gradient, and how much smaller history is as the wave spreads.

``--model velocity.npy --grid-spacing 20`` takes a model of one's own, axes z, x or z, y, x; else a built-in one. The
gradient is that of an inversion's first iteration: in a blurred model, of half the squared distance from true records.
"""

import argparse
import time
from itertools import pairwise
from typing import Any

import numpy as np
import torch

import numbawave
from numbawave import Compression
from numbawave.apps.models import layered_model
from numbawave.apps.smoothing import smooth

CODINGS: dict[str, Any] = {
    "lossless": "lossless",
    "bf16": "bf16",
    "int8": "int8",
    "True (int8, LZ4)": True,
    **{f"tolerance {t:g}": Compression(tolerance=t) for t in (1e-1, 1e-2, 1e-3, 1e-4)},
}
QUARTERS = 4


def survey(v: torch.Tensor, spacing: float, nt: int, dt: float, frequency: float, shots: int) -> dict[str, Any]:
    """The arguments of a call: sources and receivers in the third row of cells, spread over the last axis."""
    n = v.shape[-1]
    source = torch.full((shots, 1, v.ndim), 2)
    receivers = torch.full((shots, n // 2, v.ndim), 2)
    if v.ndim == 3:
        source[..., 1], receivers[..., 1] = v.shape[1] // 2, v.shape[1] // 2
    source[:, 0, -1] = torch.linspace(n // 8, n - n // 8 - 1, shots).long()
    receivers[..., -1] = torch.arange(0, n // 2 * 2, 2)
    wavelet = numbawave.wavelets.ricker(frequency, nt, dt, 1.2 / frequency)
    arguments = {"grid_spacing": spacing, "dt": dt, "source_amplitudes": wavelet.repeat(shots, 1, 1)}
    return arguments | {"source_locations": source, "receiver_locations": receivers, "max_vel": float(v.max())}


def gradient(v: torch.Tensor, observed: torch.Tensor, call: dict[str, Any], coding: Any) -> tuple[torch.Tensor, Any, float]:
    """The gradient, what ran, and seconds."""
    v = v.detach().clone().requires_grad_()
    levers = {"storage_mode": "cpu", "storage_compression": coding} if coding else {}
    start = time.perf_counter()
    out = numbawave.scalar(v, **call, **levers)
    (0.5 * (out.receiver_amplitudes - observed).square().sum()).backward()
    assert v.grad is not None
    return v.grad, out.info, time.perf_counter() - start


def ratios(v: torch.Tensor, call: dict[str, Any], coding: Any) -> list[float]:
    """How much smaller the history of each quarter of the run is."""
    v, nt = v.detach().clone().requires_grad_(), call["source_amplitudes"].shape[-1]
    sizes = [(0, 0)]
    for quarter in range(1, QUARTERS + 1):
        part = call | {"source_amplitudes": call["source_amplitudes"][..., : nt * quarter // QUARTERS]}
        info = numbawave.scalar(v, **part, storage_mode="cpu", storage_compression=coding).info
        sizes.append((info.history_bytes, info.kept_bytes))
    pairs = pairwise(sizes)
    return [(after[0] - before[0]) / max(1, after[1] - before[1]) for before, after in pairs]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model")
    parser.add_argument("--grid-spacing", type=float, default=20.0)
    parser.add_argument("--shape", type=int, nargs="+", default=[120, 240])
    parser.add_argument("--nt", type=int, default=1000)
    parser.add_argument("--dt", type=float, default=0.002)
    parser.add_argument("--frequency", type=float, default=8.0)
    parser.add_argument("--shots", type=int, default=2)
    options = parser.parse_args()
    spacing = options.grid_spacing
    model = (
        np.load(options.model) if options.model else layered_model(options.shape, [spacing] * len(options.shape), seed=0)
    )
    true = torch.from_numpy(np.ascontiguousarray(model, np.float32))
    start = smooth(true, [10.0] * true.ndim).float()
    call = survey(true, spacing, options.nt, options.dt, options.frequency, options.shots)
    with torch.no_grad():
        observed = numbawave.scalar(true, **call).receiver_amplitudes
    wanted, _, seconds = gradient(start, observed, call, None)
    print(f"{' x '.join(map(str, true.shape))} cells of {spacing:g} m, {options.nt} steps, {options.shots} shots, float32;")
    print(f"without a coding {seconds:.1f} s.\n")
    print("| coding | bound for a slot | gradient off by (relative L2) | 1 - cosine | smaller by, each quarter | s |")
    print("| --- | --- | --- | --- | --- | --- |")
    for title, coding in CODINGS.items():
        found, _, seconds = gradient(start, observed, call, coding)
        off = float((found - wanted).norm() / wanted.norm())
        cosine = float(torch.nn.functional.cosine_similarity(found.double().ravel(), wanted.double().ravel(), 0))
        known = Compression.of(coding)
        assert known is not None
        words = " / ".join(f"{ratio:.2g}" for ratio in ratios(start, call, coding))
        bound = known.relative_error(np.float32)
        print(f"| {title} | {bound:.1e} | {off:.1e} | {1 - cosine:.1e} | {words} | {seconds:.1f} |", flush=True)


if __name__ == "__main__":
    main()
