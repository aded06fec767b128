"""What a call would take, before it runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch

from numbawave.engine.buffers import declare
from numbawave.engine.work import Legs
from numbawave.planning.ledger import Ledger, Moment
from numbawave.planning.seconds import Seconds, seconds
from numbawave.torch_bridge.binding import bound
from numbawave.torch_bridge.calibration import Calibration, legs
from numbawave.torch_bridge.frontend import Prepared, prepare
from numbawave.torch_bridge.propagators import call_info
from numbawave.torch_bridge.result import CallInfo
from numbawave.torch_bridge.segments import equation_of


@dataclass(frozen=True)
class Memory:
    """The most that a call and its backward pass hold at once, by place.

    Attributes
    ----------
    device_bytes, host_bytes, disk_bytes : int
        Peaks of the buffers; pinned memory counts as the host's. With a model on the CPU all but files is the host's.
    device_moment, host_moment, disk_moment : Moment
        When a peak is first reached.
    buffers : Ledger
        What they are sums of: the buffers that the run will allocate from; ``print`` shows a table. Its place "device" is
        where the model lies, also on a CPU.
    """

    device_bytes: int
    device_moment: Moment
    host_bytes: int
    host_moment: Moment
    disk_bytes: int
    disk_moment: Moment
    buffers: Ledger = field(repr=False, compare=False)

    @classmethod
    def of(cls, buffers: Ledger, on_device: bool) -> Memory:
        """The peaks of a ledger; ``on_device`` says whether its place "device" is one, and not the host."""
        device = buffers.peak("device") if on_device else buffers.peak()
        host = buffers.peak("host", "pinned") if on_device else buffers.peak("device", "host", "pinned")
        return cls(*device, *host, *buffers.peak("disk"), buffers)


def table(buffers: Ledger, device_bytes: int) -> list[str]:
    """A ledger's table, and what "device" means in it where nothing lies on one.

    Parameters
    ----------
    buffers : Ledger
    device_bytes : int
        The peak on a device; 0 where the models lie on the host.

    Returns
    -------
    list of str
    """
    return [str(buffers), *([] if device_bytes else ['"device" is where the model lies: here the host'])]


@dataclass(frozen=True)
class Plan:
    """What a call would run, and what that takes.

    Attributes
    ----------
    info : CallInfo
        The call's ``out.info``, but for what only the run tells.
    memory : Memory
    """

    info: CallInfo
    memory: Memory
    _prepared: Prepared = field(repr=False, compare=False)
    _legs: tuple[Legs, Legs] = field(repr=False, compare=False)

    @cached_property
    def seconds(self) -> Seconds:
        """The expected times forward and back, compilation not included; the first one of a kind measures this machine.

        That takes seconds, and is kept in the package's cache folder by equation, dimension, accuracy, dtype, backend,
        device and version.
        """
        found, run = Calibration(self._prepared), self._prepared.run
        rates, link = found.rates, found.link(run)
        return Seconds(*(seconds(each, rates, link) for each in self._legs))

    def summary(self, seconds: bool = False) -> str:
        """What would run, the peaks, and the table of buffers.

        Parameters
        ----------
        seconds : bool
            Show the expected times also where they were not asked for before, and so may have to be measured.

        Returns
        -------
        str
        """
        info, memory = self.info, self.memory
        kept = f"{info.history_bytes / 1e6:.3f} MB of history={info.history!r}" if info.history_bytes else "no history"
        lines = [
            f"{info.equation} in {info.ndim}-D, shots: {info.shots}, {info.dtype}, backend {info.backend} on {info.device}",
            f"{info.nt} steps of {info.dt:.6g}, {info.step_ratio} internal ones of {info.internal_dt:.6g} in each",
            f"{kept} a segment, storage_mode={info.storage_mode!r}",
        ]
        for place in ("device", "host", "disk"):
            most, moment = getattr(memory, f"{place}_bytes"), getattr(memory, f"{place}_moment")
            lines += [f"{place}: {most / 1e6:.3f} MB at most, {moment.name.lower()}"] if most else []
        if seconds or "seconds" in vars(self):
            lines += [f"expected: {self.seconds}, compilation not included"]
        return "\n".join([*lines, "", *table(memory.buffers, memory.device_bytes)])


def plan(propagator: Any, /, *arguments: Any, **keywords: Any) -> Plan:
    """What a call of a propagator would take; nothing is propagated, compiled or written, and no field is allocated.

    The call is checked and laid out by the code that the call itself runs, and its buffers are declared by the same
    function that the run allocates from. As in the call, history counts where a model requires a gradient and gradients
    are enabled.

    Not counted is what is no buffer of the run: compiled code, resampled records, and what the libraries hold themselves.
    Whether so much is free now is not checked, nor whether a file can be made.

    Parameters
    ----------
    propagator : callable, str or torch.nn.Module
        ``numbawave.scalar`` or its like, an equation's name, or a module such as ``numbawave.Scalar``.
    *arguments, **keywords
        What the propagator would be called with.

    Returns
    -------
    Plan

    Raises
    ------
    NumbawaveError
        As the call does before any work: one of its kinds, naming the argument, its value, the rule and the remedy.
    """
    equation = equation_of(propagator)
    held = isinstance(propagator, torch.nn.Module)
    call = propagator.bound(*arguments, **keywords) if held else bound(equation, *arguments, **keywords)
    prepared, options = prepare(*call), call[-1]
    buffers = declare(prepared.run, prepared.wanted)
    info = call_info(prepared, options, buffers)
    return Plan(info, Memory.of(buffers, prepared.run.space.device is not None), prepared, legs(prepared))
