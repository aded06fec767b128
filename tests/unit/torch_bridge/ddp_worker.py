"""One rank of test_ddp: run as a script with rank, number of ranks, meeting file and result file."""

import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from numbawave import Scalar
from tests.unit.torch_bridge.small import small

SHOTS = 7


def gradient(rank: int, ranks: int, wrap: bool) -> torch.Tensor:
    """The model's gradient of the sum over all shots, of which each rank has its share."""
    call = small(shots=SHOTS, backend="reference")
    module = Scalar(call.pop("v"), call.pop("grid_spacing"), v_requires_grad=True)
    wave = DistributedDataParallel(module) if wrap else module
    mine = slice(rank, None, ranks)
    shared = ("source_amplitudes", "source_locations", "receiver_locations")
    share = call | {name: call[name][mine] for name in shared}
    # The ranks' gradients are averaged: a sum over shots is that average of sums, times their number.
    loss = ranks * (wave(**share).receiver_amplitudes ** 2).sum()
    loss.backward()
    assert module.v.grad is not None
    return module.v.grad


if __name__ == "__main__":
    rank, ranks, meeting, result = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=ranks)
    torch.save(gradient(rank, ranks, wrap=True), f"{result}.{rank}")
    dist.destroy_process_group()
