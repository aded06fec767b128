"""Reverse-time migration by batches of shots, in 2-D on the CPU: an image of where the ground reflects.

Records of some ground are migrated in a blurred copy of it, which knows the speeds but no reflector. A shot's image is
the gradient of the inner product of two records: the one that the blurred ground gives, and the one to be migrated, from
which the direct wave is muted. That gradient correlates the wave from the source with the record sent back into the
ground, cell by cell. PyTorch adds gradients up, so shots may come in batches of any size, one after the other:

    python docs/examples/rtm.py              # some ten seconds, and rtm.png
    python docs/examples/rtm.py --batch 2    # the same image, in less memory
"""

import argparse
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

import numbawave
from numbawave.apps.models import WATER_SPEED, layered_model
from numbawave.apps.plots import WAVE_MAP, draw_gathers, draw_model
from numbawave.apps.smoothing import smooth, water_layer

FREQUENCY, DELAY = 14.0, 0.09  # Hz and s, of a Ricker wavelet's peaks
FASTEST = 4500.0  # m/s


def options_of(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", type=int, nargs=2, default=(100, 260), help="in depth, and across")
    parser.add_argument("--spacing", type=float, default=12.0, help="m")
    parser.add_argument("--shots", type=int, default=26)
    parser.add_argument("--batch", type=int, default=7, help="shots in one call")
    parser.add_argument("--seconds", type=float, default=1.6, help="a record's length")
    parser.add_argument("--seed", type=int, default=4, help="of the ground")
    parser.add_argument("--output", default="rtm.png", help="where the picture goes")
    return parser.parse_args(words)


def acquire(shape: Sequence[int], spacing: float, seconds: float, n_shots: int) -> dict[str, Any]:
    """What `numbawave.scalar` is called with for all shots: these and receivers in every second cell, near the surface."""
    dt = 0.55 * spacing / (FASTEST * 2**0.5)  # no sub-steps
    nt, width = int(seconds / dt), shape[1]
    across = torch.linspace(5, width - 6, n_shots).long()
    listening = torch.arange(2, width - 2, 2)
    return {
        "grid_spacing": spacing,
        "dt": dt,
        "source_amplitudes": numbawave.wavelets.ricker(FREQUENCY, nt, dt, DELAY).expand(n_shots, 1, nt),
        "source_locations": torch.stack([torch.full_like(across, 2), across], -1)[:, None],
        "receiver_locations": torch.stack([torch.full_like(listening, 2), listening], -1).expand(n_shots, -1, -1),
        "max_vel": FASTEST,
        "pml_freq": FREQUENCY,
    }


def chosen(call: dict[str, Any], batch: Tensor) -> dict[str, Any]:
    """The same for some of the shots."""
    return {name: value[batch] if isinstance(value, Tensor) else value for name, value in call.items()}


def mute(call: dict[str, Any], speed: float) -> Tensor:
    """Weights [shot, receiver, time]: 0 until the direct wave is past, and from a period later on 1."""
    offset = call["source_locations"] - call["receiver_locations"]
    distance = call["grid_spacing"] * offset.double().norm(dim=-1)
    times = call["dt"] * torch.arange(call["source_amplitudes"].shape[-1])
    return ((times - DELAY - distance[..., None] / speed) * FREQUENCY - 1).clamp(0, 1).float()


def migrate(background: Tensor, call: dict[str, Any], data: Tensor, batch_size: int) -> Tensor:
    """The image [z, x]: the sum over shots of the correlation of their waves, down and up."""
    v = background.clone().requires_grad_()
    # An image needs the past of the ground alone, without the layers around it, and a few samples of each period.
    sparse = {"history": "interior", "model_gradient_sampling_interval": int(0.08 / (FREQUENCY * call["dt"]))}
    for batch in torch.arange(len(data)).split(batch_size):
        records = numbawave.scalar(v, **chosen(call, batch), **sparse).receiver_amplitudes
        (records * data[batch]).sum().backward()  # v.grad adds up; a batch's history is gone before the next begins
    return v.grad


def sharpen(image: Tensor, background: Tensor) -> Tensor:
    """The image without what waves leave on their way, which is smooth: minus its Laplacian, and stronger at depth."""
    padded = torch.nn.functional.pad(image[None, None], (1, 1, 1, 1), mode="replicate")[0, 0]
    laplacian = padded[2:, 1:-1] + padded[:-2, 1:-1] + padded[1:-1, 2:] + padded[1:-1, :-2] - 4 * image
    depth = torch.arange(len(image))[:, None] / len(image)
    sharp = -laplacian * depth**1.5 * background**2
    sharp = torch.where(water_layer(background, WATER_SPEED), 0.0, sharp)
    return sharp / sharp.abs().quantile(0.98)


def draw(
    path: str, true: Tensor, background: Tensor, image: Tensor, gathers: Sequence[Tensor], spacing: float, dt: float
) -> None:
    figure = Figure(figsize=(15, 8), layout="constrained")
    grid, h = figure.add_gridspec(2, 2), np.full(2, spacing)
    limits = (float(true.min()), float(true.max()))
    draw_model(figure, grid[0, 0], true.numpy(), h, "the ground", limits)
    draw_model(figure, grid[0, 1], background.numpy(), h, "the ground that the migration knows", limits)
    draw_model(figure, grid[1, 0], image.numpy(), h, "image", (-1.0, 1.0), WAVE_MAP, "clipped at its 98th percentile")
    recorded, muted = (gather.numpy() for gather in gathers)
    draw_gathers(figure, grid[1, 1], recorded, muted, dt, "one shot", ("as recorded", "muted"))
    figure.savefig(path, dpi=110)


def main(options: argparse.Namespace) -> None:
    true = torch.from_numpy(layered_model(options.cells, [options.spacing] * 2, options.seed))
    water = water_layer(true, WATER_SPEED)
    background = smooth(true.double(), [80.0 / options.spacing] * 2, water).float()
    call = acquire(true.shape, options.spacing, options.seconds, options.shots)
    batches = torch.arange(options.shots).split(options.batch)

    with torch.no_grad():
        records = torch.cat([numbawave.scalar(true, **chosen(call, batch)).receiver_amplitudes for batch in batches])
    data = records * mute(call, WATER_SPEED)
    image = sharpen(migrate(background, call, data, options.batch), background)

    middle = options.shots // 2
    draw(options.output, true, background, image, (records[middle], data[middle]), options.spacing, call["dt"])
    print(f"{options.shots} shots in batches of {options.batch}: the image is in {options.output}.")


if __name__ == "__main__":
    main(options_of())
