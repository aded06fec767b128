"""One rank of test_ddp, run as a script with a meeting file, a file for what it finds, and a job file."""

import dataclasses
import os
import sys
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import numbawave
from numbawave.apps import crew, ddp
from numbawave.apps.fwi import run
from numbawave.apps.job_file import read_job
from numbawave.errors import StorageError
from tests.unit.torch_bridge.small import small

SHARED = ("source_amplitudes", "source_locations", "receiver_locations")
WAYS = ("spread", "ordinary", "all-reduce")
SIZES = ((7, torch.float32), (7, torch.float64), (1, torch.float64))
CASES = [(way, *size) for way in WAYS for size in SIZES]
"""Ways of summing, numbers of shots and dtypes; of one shot some ranks have none."""


def survey(shots: int, dtype: torch.dtype) -> dict[str, Any]:
    """A call whose gradient passes three segments of the time axis."""
    return small(shots=shots, dtype=dtype, backend="cpu", checkpoint_segments=3)


def gradient(way: str, shots: int, dtype: torch.dtype, **changes: Any) -> torch.Tensor:
    """The model's gradient of a sum over all shots, of which this rank propagates its share."""
    here, call = ddp.ranks(), survey(shots, dtype) | changes
    mine = here.shots(shots)
    share = call | {name: call[name][mine] for name in SHARED}
    v = share.pop("v").requires_grad_()
    if way == "all-reduce":
        if mine.start < mine.stop:
            numbawave.scalar(v, **share).receiver_amplitudes.square().sum().backward()
        ddp.all_reduce_gradients([v])
        return v.grad
    model = numbawave.Scalar(v.detach(), share.pop("grid_spacing"), v_requires_grad=True)
    records = ddp.Records(model)
    wave = ddp.spread(records) if way == "spread" else DistributedDataParallel(records)
    factor = 1 if way == "spread" else here.size
    (factor * wave(**share).square().sum()).backward()
    return model.v.grad


def told(work: Callable[[], Any]) -> str:
    """The kind of error that some work ends in, and what it says."""
    try:
        work()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "no error"


def one_rank(value: Any, other: Any) -> Any:
    """A value on the last rank, and another one on the rest."""
    here = ddp.ranks()
    return value if here.rank == here.size - 1 else other


def differ(**changes: Any) -> str:
    """What is said where the last rank's call differs."""
    return told(lambda: gradient("spread", 7, torch.float64, **one_rank(changes, {})))


def fail(error: Exception) -> str:
    """What is said where the last rank fails in a block."""

    def work() -> None:
        with ddp.united():
            if one_rank(True, False):
                raise error

    return told(work)


def broken_job(job: Any) -> str:
    """What is said where the last rank fails amid an inversion."""
    whole = crew.misfit_and_gradient

    def failing(*arguments: Any) -> Any:
        raise StorageError("storage_mode", "disk", "the disk is full", "free some space")

    crew.misfit_and_gradient = one_rank(failing, whole)
    found = told(lambda: run(job, progress=False))
    crew.misfit_and_gradient = whole
    return found


def found(job: Any) -> dict[str, Any]:
    """Everything that the tests look at."""
    errors = {
        "max_vel": differ(max_vel=2.5),
        "dt": differ(dt=0.1),
        "pml_freq": differ(pml_freq=0.3),
        "history": differ(history="interior"),
        "accuracy": differ(accuracy=3),
        "foreign": fail(KeyError("lost")),
        "job": told(lambda: run(dataclasses.replace(job, seed=one_rank(5, 4)), progress=False)),
        "file": told(lambda: run(dataclasses.replace(job, output=__file__), progress=False)),
        "broken": broken_job(job),
        "device": told(lambda: run(dataclasses.replace(job, device="cuda:0"), progress=False)),
    }
    return {"gradients": {case: gradient(*case) for case in CASES}, "errors": errors}


if __name__ == "__main__":
    meeting, result, job_file = sys.argv[1:]
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=size)
    with ddp.process_group() as ranks:  # that is there already
        torch.save(found(read_job(job_file)), f"{result}.{ranks.rank}")
    dist.destroy_process_group()
