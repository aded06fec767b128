"""Shots spread over GPUs or machines: gradients that are those of one process with all the shots.

Under ``torchrun`` every rank runs the same program on its own share of the shots, which may be none::

    from numbawave.apps import ddp

    with ddp.process_group() as ranks:
        model = numbawave.Scalar(v, 5.0, v_requires_grad=True, max_vel=4500.0, pml_freq=25.0)
        wave = ddp.spread(ddp.Records(model))
        mine = ranks.shots(len(source_locations))
        records = wave(
            0.001,
            source_amplitudes=source_amplitudes[mine],
            source_locations=source_locations[mine],
            receiver_locations=receiver_locations[mine],
        )
        (records - observed[mine]).square().sum().backward()  # model.v.grad: of all shots, on every rank

An ordinary ``DistributedDataParallel(ddp.Records(model))`` works as well, but it gives the average over the ranks, not
the sum over the shots: multiply the loss by ``ranks.size``. Where the waves are no module's, call ``numbawave.scalar``
for the shots of this rank, ``backward``, and then `all_reduce_gradients`, which needs no wrapping.
"""

from collections.abc import Iterable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from ..errors import InvalidTypeError, InvalidValueError
from ..torch_bridge.plan import plan
from .ranks import Ranks, agree, process_group, rank_shots, ranks, sum_over_ranks, united

__all__ = [
    "Ranks",
    "Records",
    "agree",
    "all_reduce_gradients",
    "process_group",
    "rank_shots",
    "ranks",
    "spread",
    "sum_over_ranks",
    "united",
]

SHOTS = ("source_amplitudes", "source_locations", "receiver_locations")
"""Arguments whose first axis is that of shots."""


class Records(torch.nn.Module):
    """A propagator's module whose result is its records alone, and which may be called without shots.

    That is what torch's wrappers for several devices need: ``DataParallel`` splits the arguments along their first axis
    and joins tensors, and under ``DistributedDataParallel`` each rank takes part, also one without shots. Where a
    gradient is wanted, all ranks check first that their calls belong together (`agree`), so all must make the call.

    Parameters
    ----------
    module : torch.nn.Module
        ``numbawave.Scalar`` or its like.
    """

    def __init__(self, module: torch.nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, dt: float, **options: Any) -> Tensor:
        """Records [shot, receiver, time]; the arguments are the module's."""
        given = [options[name] for name in SHOTS if options.get(name) is not None]
        empty = any(len(value) == 0 for value in given)
        if torch.is_grad_enabled() and ranks().size > 1:
            with united():
                found = None if empty else plan(self.module, dt, **options).info
            agree(found)
        if empty:
            return self._no_records(**options)
        records: Tensor = self.module(dt, **options).receiver_amplitudes
        return records

    def _no_records(self, receiver_locations: Any = (), source_amplitudes: Any = None, nt: int = 0, **_: Any) -> Tensor:
        """Records of no shot, of which the gradient is zero: a rank without shots takes its part in the sum."""
        n_receivers = receiver_locations.shape[1] if hasattr(receiver_locations, "shape") else 0
        n_times = nt if source_amplitudes is None else source_amplitudes.shape[-1]
        nothing = torch.stack([parameter.sum() * 0 for parameter in self.parameters()]).sum()
        return nothing.expand(0, n_receivers, n_times)


def spread(module: torch.nn.Module) -> torch.nn.Module:
    """Wrap a module so that the gradients of its parameters are summed over the ranks.

    Parameters
    ----------
    module : torch.nn.Module
        `Records` or any module; on one device, with the same parameters on every rank (the first rank's are copied).

    Returns
    -------
    torch.nn.Module
        A ``DistributedDataParallel`` that adds where torch's averages, so that the gradient is that of one process with
        all shots; the module itself in a process alone.

    Raises
    ------
    InvalidValueError
        If no parameter requires a gradient.
    """
    if not any(parameter.requires_grad for parameter in module.parameters()):
        rule = "some parameter requires a gradient, else there is nothing to sum"
        raise InvalidValueError("module", type(module).__name__, rule, "give v_requires_grad=True")
    if ranks().size == 1:
        return module
    wrapped = DistributedDataParallel(module)
    wrapped.register_comm_hook(None, lambda _, bucket: _summed(bucket.buffer()))  # torch wants this name
    return wrapped


def _summed(gradients: Tensor) -> torch.futures.Future[Tensor]:
    future = dist.all_reduce(gradients, async_op=True).get_future()
    summed: torch.futures.Future[Tensor] = future.then(lambda done: done.value()[0])
    return summed


def all_reduce_gradients(parameters: Iterable[Tensor]) -> None:
    """Sum the gradients of tensors over the ranks, in place; every rank must take part.

    Parameters
    ----------
    parameters : iterable of Tensor
        Leaves that require a gradient, the same on every rank. A missing gradient counts as zero, such as that of a rank
        without shots.

    Raises
    ------
    InvalidTypeError
        If a tensor requires no gradient.
    """
    for parameter in parameters:
        if not (parameter.requires_grad and parameter.is_leaf):
            rule = "is a leaf that requires a gradient"
            raise InvalidTypeError("parameters", f"shape {list(parameter.shape)}", rule, "give what was differentiated")
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
        sum_over_ranks(parameter.grad)
