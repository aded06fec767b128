"""Processes that work together: who is there, whose shots are whose, and errors that reach all of them.

Under ``torchrun`` each process, a rank, runs the same program. Every function here also works in a process alone.
"""

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from ..backends import local_size
from ..errors import InvalidValueError, NumbawaveError, RankError
from ..torch_bridge.options import Options
from ..torch_bridge.result import CallInfo

PATIENCE = timedelta(hours=12)
"""How long a rank waits for the others, which may propagate many more shots than it has; a lost one is noticed at once."""

COMING = timedelta(minutes=10)
"""How long ranks wait for one another to come, once the launcher has started all."""

LAUNCHED = {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}
"""What ``torchrun`` tells a process in its environment; other launchers may do the same."""


@dataclass(frozen=True)
class Ranks:
    """The processes that work together, as one of them sees them.

    Attributes
    ----------
    rank, size : int
        This process's number, and how many there are.
    local_rank, local_size : int
        The same on this machine: what is its own, as cores, host memory and devices, is shared by `local_size` ranks.
    """

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    local_size: int = 1

    @property
    def first(self) -> bool:
        """Whether this is the rank that prints and writes."""
        return self.rank == 0

    def shots(self, n_shots: int) -> slice:
        """The rank's share of so many shots; see `rank_shots`."""
        return rank_shots(n_shots, self.rank, self.size)


def ranks() -> Ranks:
    """Say who works together.

    Returns
    -------
    Ranks
        Of torch's default process group; of a process alone where there is none.
    """
    if not (dist.is_available() and dist.is_initialized()):
        return Ranks()
    return Ranks(dist.get_rank(), dist.get_world_size(), int(os.environ.get("LOCAL_RANK", 0)), local_size())


@contextmanager
def process_group() -> Iterator[Ranks]:
    """Join the ranks that ``torchrun`` started: NCCL for tensors on GPUs, gloo for those on CPUs.

    Without ``torchrun``, or inside a process group that is there already, nothing is started.

    Yields
    ------
    Ranks
    """
    with ExitStack() as stack:
        if os.environ.keys() >= LAUNCHED and not dist.is_initialized():
            gpus = torch.cuda.is_available() and dist.is_nccl_available()
            local_rank = int(os.environ.get("LOCAL_RANK", 0))
            if gpus and local_rank < torch.cuda.device_count():
                stack.enter_context(torch.cuda.device(local_rank))
            from .meeting import meet  # torch may be built without what this needs

            store, rank, size = meet(COMING)
            backend = "cpu:gloo,cuda:nccl" if gpus else "gloo"
            dist.init_process_group(backend, timeout=PATIENCE, store=store, rank=rank, world_size=size)
            stack.callback(dist.destroy_process_group)
        yield ranks()


def rank_shots(n_shots: int, rank: int, size: int) -> slice:
    """Find a rank's share of the shots.

    Parameters
    ----------
    n_shots : int
    rank, size : int
        The rank's number, and how many there are.

    Returns
    -------
    slice
        Consecutive shots; the shares of all ranks are every shot once, and differ by one in length at most. Empty for
        some ranks where these are more than shots.

    Raises
    ------
    InvalidValueError
        If there is no such rank, or the number of shots is negative.
    """
    if n_shots < 0:
        raise InvalidValueError("n_shots", n_shots, "must not be negative", "count the shots")
    if not 0 <= rank < size:
        raise InvalidValueError("rank", rank, f"lies in 0 to {size - 1} where there are {size}", "count ranks from 0")
    return slice(n_shots * rank // size, n_shots * (rank + 1) // size)


def gathered(value: Any) -> list[Any]:
    """Hear what each rank says; every rank must take part.

    Parameters
    ----------
    value : object
        Small, and one that can be pickled.

    Returns
    -------
    list
        By rank.
    """
    heard = [value] * ranks().size
    if ranks().size > 1:
        dist.all_gather_object(heard, value)
    return heard


def told(value: Any) -> Any:
    """Hear what the first rank says; every rank must take part.

    Parameters
    ----------
    value : object
        Small, and one that can be pickled; that of other ranks than the first does not matter.

    Returns
    -------
    object
    """
    if ranks().size > 1:
        heard = [value]
        dist.broadcast_object_list(heard, src=0)
        return heard[0]
    return value


@contextmanager
def united() -> Iterator[None]:
    """Let an error of one rank stop all: each leaves the block with an error, or none does.

    Every rank must enter the block, and nothing in it may wait for another rank.

    Yields
    ------
    None

    Raises
    ------
    NumbawaveError
        Of the kind that the failing rank raised, naming it; `RankError` if that was none of numbawave's. The failing
        rank keeps its own error.
    """
    failure = None
    try:
        yield
    except Exception as error:
        if ranks().size == 1:
            raise
        failure = error
    for rank, heard in enumerate(gathered(_portable(failure))):
        if failure is not None:
            raise failure
        if heard is not None:
            kind, argument, value, rule, remedy = heard
            raise kind(f"{argument} on rank {rank}", value, rule, remedy)


def _portable(error: Exception | None) -> tuple[type[NumbawaveError], str, str, str, str] | None:
    """An error as something that another process can read for certain."""
    if error is None:
        return None
    if isinstance(error, NumbawaveError):
        value = error.value if isinstance(error.value, str) else repr(error.value)
        return type(error), error.argument, value, error.rule, error.remedy
    found = f"{type(error).__name__}: {error}"
    return RankError, "work", found, "no rank goes on without another", "see the traceback of that rank"


CAUSES = ("equation", "dtype", "accuracy", "nt", "dt", "max_vel", "internal_dt", "step_ratio", "pml_width", "pml_freq")
LEVERS = ("history", "storage_mode", "storage_error")
"""What must be one for all ranks in a call, causes before their effects."""


def agree(found: CallInfo | Mapping[str, Any] | None) -> None:
    """Check before propagation that the ranks' calls belong together; every rank must take part.

    The time step, the absorbing layers and their frequency are inferred from the model and the sources unless given, so
    ranks with different shots may come to different ones, whose gradients are no parts of one sum.

    Parameters
    ----------
    found : CallInfo, mapping of str to object, or None
        ``numbawave.plan(...).info``, of which time step, layers and levers are compared, or values by name; None of a
        rank that has no shots and so nothing to say.

    Raises
    ------
    InvalidValueError
        On every rank, if one differs: naming what, and the first rank that differs from most.
    """
    if isinstance(found, CallInfo):
        # What a budget chose for one rank's shots changes no bit, so it is compared as it was given.
        place = {"storage_mode": Options.storage_mode} if "storage_mode" in found.chosen else {}
        found = {name: getattr(found, name) for name in CAUSES + LEVERS} | place
    heard = gathered(None if found is None else {name: repr(value) for name, value in found.items()})
    spoken = {rank: values for rank, values in enumerate(heard) if values is not None}
    for name in next(iter(spoken.values()), {}):
        values = {rank: said.get(name, "missing") for rank, said in spoken.items()}
        usual = Counter(values.values()).most_common(1)[0][0]
        odd = next((rank for rank, value in values.items() if value != usual), None)
        if odd is not None:
            others = ", ".join(str(rank) for rank, value in values.items() if value == usual)
            rule = f"must be the same on all ranks, and is {usual} on {others}"
            remedy = f"give every rank the same {name}"
            if name in ("max_vel", "internal_dt", "step_ratio", "pml_freq"):
                remedy = "give every rank the same dt, max_vel and pml_freq, which are else inferred from its own shots"
            raise InvalidValueError(f"{name} on rank {odd}", values[odd], rule, remedy)


def sum_over_ranks(tensor: Tensor) -> Tensor:
    """Add up a tensor that every rank has, in place; every rank must take part.

    Parameters
    ----------
    tensor : Tensor
        Of one shape and dtype on all ranks.

    Returns
    -------
    Tensor
        The same tensor: the same bits on every rank, and in every run with so many ranks on the same machines.
    """
    if ranks().size > 1:
        dist.all_reduce(tensor)
    return tensor
