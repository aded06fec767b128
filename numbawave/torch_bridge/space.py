"""Torch's memory as a run sees it: NumPy views of tensors of the host, tensors themselves on a CUDA device."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from numbawave.engine.space import HostMemory
from numbawave.torch_bridge.arrays import DTYPES, numpy_view, plain_view


class HostTensors(HostMemory):
    """Tensors of the host, as NumPy arrays that share their memory."""

    def view(self, value: torch.Tensor) -> NDArray[Any]:
        """A tensor as the run's array."""
        return numpy_view(value)

    def tensor(self, array: NDArray[Any]) -> torch.Tensor:
        """The run's array as a tensor."""
        return torch.from_numpy(array)


@dataclass(frozen=True)
class DeviceTensors:
    """Tensors of one CUDA device, from torch's own allocator and on its current stream; see ``Space``."""

    dtype: torch.dtype
    device: int

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

    def own(self, values: torch.Tensor) -> torch.Tensor:
        """See ``Space``."""
        return values.clone(memory_format=torch.contiguous_format)

    def contiguous(self, values: torch.Tensor) -> torch.Tensor:
        """See ``Space``."""
        return values.to(self.dtype).contiguous()

    def upload(self, values: NDArray[Any]) -> torch.Tensor:
        """See ``Space``."""
        there = torch.from_numpy(np.ascontiguousarray(values)).to(self.device)
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
