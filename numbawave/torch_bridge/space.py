"""Torch's memory as a run sees it: NumPy views of tensors of the host, tensors themselves on a CUDA device."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from numbawave.engine.space import Copy, HostMemory, Lane
from numbawave.history.media import Bytes, Copier
from numbawave.torch_bridge.arrays import DTYPES, numpy_view, plain_view

SHARE = 32 * 2**20
"""Bytes that one call copies, at most."""


class HostTensors(HostMemory):
    """Tensors of the host, as NumPy arrays that share their memory."""

    def zeros(self, *shape: int) -> NDArray[Any]:
        """See ``Space``. Written by all threads: pages that the first steps are the first to touch cost them more."""
        return numpy_view(torch.zeros(shape, dtype=_TORCH[self.dtype]))

    def view(self, value: torch.Tensor) -> NDArray[Any]:
        """A tensor as the run's array."""
        return numpy_view(value)

    def tensor(self, array: NDArray[Any]) -> torch.Tensor:
        """The run's array as a tensor."""
        return torch.from_numpy(array)


_TORCH = {real: dtype for dtype, real in DTYPES.items()}

_WORDS = {"uint16": torch.int16}
"""Where torch lacks a dtype, another one as wide."""


class Mark:
    """A place on a stream of a device."""

    def __init__(self, stream: torch.cuda.Stream) -> None:
        self.event = torch.cuda.Event(blocking=True)  # type: ignore[no-untyped-call]
        self.event.record(stream)

    def wait(self) -> None:
        """See ``Ticket``."""
        self.event.synchronize()


class DeviceLane:
    """A stream of its own for copies between a device and pinned memory; see ``Lane``."""

    def __init__(self, device: int) -> None:
        self.device, self.stream = device, torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._pinned: dict[int, torch.Tensor] = {}

    def staged(self, array: torch.Tensor, times: int) -> NDArray[Any]:
        """See ``Lane``."""
        pinned = torch.empty(times * array.numel(), dtype=array.dtype, pin_memory=True)
        self._pinned[pinned.data_ptr()] = pinned
        return pinned.numpy()

    def out(self, copies: Sequence[Copy]) -> Mark:
        """See ``Lane``."""
        self.mark().event.wait(self.stream)
        with torch.cuda.stream(self.stream):
            for array, staged, start in copies:
                self._pinned[staged.ctypes.data][start : start + array.numel()].copy_(array, non_blocking=True)
        return Mark(self.stream)

    def back(self, copies: Sequence[Copy], after: Any) -> Mark:
        """See ``Lane``."""
        if after is not None:
            after.event.wait(self.stream)
        with torch.cuda.stream(self.stream):
            for array, staged, start in copies:
                array.copy_(self._pinned[staged.ctypes.data][start : start + array.numel()], non_blocking=True)
        return Mark(self.stream)

    def mark(self) -> Mark:
        """See ``Lane``."""
        return Mark(torch.cuda.current_stream(self.device))

    def follow(self, ticket: Any) -> None:
        """See ``Lane``."""
        ticket.event.wait(torch.cuda.current_stream(self.device))


class TorchCopier(Copier):
    """Copies by PyTorch's own threads, in few calls: each call takes the interpreter's lock, for which a run waits."""

    threads = 2

    @property
    def share(self) -> int:
        """See ``Copier``."""
        return SHARE

    def copy(self, to: Bytes, values: Bytes) -> None:
        """See ``Copier``."""
        if values.flags.writeable:
            torch.from_numpy(to).copy_(torch.from_numpy(values))
        else:  # PyTorch takes no memory that it must not write to; only what blosc2 made is such
            super().copy(to, values)

    def beginning(self, threads: int) -> Callable[[], object]:
        """See ``Copier``: all take part of PyTorch's threads."""
        return partial(torch.set_num_threads, max(1, torch.get_num_threads() // threads))

    def end(self) -> None:
        """See ``Copier``: what these threads chose became the choice of all that are yet to come."""
        torch.set_num_threads(torch.get_num_threads())


@dataclass(frozen=True)
class DeviceTensors:
    """Tensors of one CUDA device, from torch's own allocator and on its current stream; see ``Space``."""

    dtype: torch.dtype
    device: int
    copier: ClassVar[Copier] = TorchCopier()

    @property
    def stream(self) -> int:
        """See ``Space``."""
        return int(torch.cuda.current_stream(self.device).cuda_stream)

    def zeros(self, *shape: int) -> torch.Tensor:
        """See ``Space``."""
        return torch.zeros(shape, dtype=self.dtype, device=self.device)

    def empty(self, *shape: int) -> torch.Tensor:
        """See ``Space``."""
        return torch.empty(shape, dtype=self.dtype, device=self.device)

    def buffer(self, size: int, dtype: str) -> torch.Tensor:
        """See ``Space``."""
        return torch.empty(size, dtype=_WORDS.get(dtype) or getattr(torch, dtype), device=self.device)

    def lane(self) -> Lane:
        """See ``Space``."""
        return DeviceLane(self.device)

    def own(self, values: torch.Tensor) -> torch.Tensor:
        """See ``Space``."""
        return values.clone(memory_format=torch.contiguous_format)

    def contiguous(self, values: torch.Tensor) -> torch.Tensor:
        """See ``Space``."""
        return values.to(self.dtype).contiguous()

    def upload(self, values: NDArray[Any]) -> torch.Tensor:
        """See ``Space``."""
        there = torch.from_numpy(np.require(values, requirements=["C", "W"])).to(self.device)
        return there if values.dtype.kind in "iu" else there.to(self.dtype)

    def divide(self, values: torch.Tensor, by: torch.Tensor) -> torch.Tensor:
        """See ``Space``."""
        return values.div_(torch.where(by == 0, 1, by))

    def view(self, value: torch.Tensor) -> torch.Tensor:
        """A tensor as the run's array."""
        return plain_view(value)

    def tensor(self, array: torch.Tensor) -> torch.Tensor:
        """The run's array as a tensor."""
        return array


def space_of(model: torch.Tensor) -> HostTensors | DeviceTensors:
    """The memory in which a model lies."""
    if model.device.type == "cuda":
        return DeviceTensors(model.dtype, torch.cuda.current_device() if model.device.index is None else model.device.index)
    return HostTensors(DTYPES[model.dtype])
