"""Arrays in and out: tensors, and anything else that speaks DLPack, without a copy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch._C import _functorch as functorch
from torch.utils.dlpack import from_dlpack

from numbawave.errors import InvalidTypeError

DTYPES: dict[torch.dtype, np.dtype[Any]] = {torch.float32: np.dtype("float32"), torch.float64: np.dtype("float64")}


def tensor(argument: str, value: Any) -> torch.Tensor:
    """A tensor that shares its memory with what was given.

    Parameters
    ----------
    argument : str
    value : torch.Tensor, numpy.ndarray or other array with ``__dlpack__``

    Returns
    -------
    torch.Tensor

    Raises
    ------
    InvalidTypeError
        If it is no array, or not of float32 or float64.
    """
    shared: torch.Tensor
    if isinstance(value, torch.Tensor):
        shared = value
    else:
        if isinstance(value, np.ndarray) and value.dtype.kind == "f" and not value.flags.writeable:
            value = value.copy()
        try:
            shared = torch.from_numpy(value) if isinstance(value, np.ndarray) else from_dlpack(value)
        except (TypeError, ValueError, AttributeError, RuntimeError, BufferError) as error:
            raise InvalidTypeError(argument, type(value).__name__, "is an array: a torch tensor, or one with __dlpack__",
                                   "convert it with torch.as_tensor") from error  # fmt: skip
    if shared.dtype not in DTYPES:
        raise InvalidTypeError(argument, str(shared.dtype), "is of float32 or float64",
                               f"convert it: {argument}.to(torch.float32)")  # fmt: skip
    if shared.layout != torch.strided:
        raise InvalidTypeError(argument, str(shared.layout), "is a dense tensor", f"use {argument}.to_dense()")
    return shared


def alike(argument: str, value: Any, model: torch.Tensor, model_name: str) -> torch.Tensor:
    """A tensor of the model's dtype and device.

    Raises
    ------
    InvalidTypeError
        If it is of another dtype or lies on another device; the message names both.
    """
    given = tensor(argument, value)
    if given.device != model.device:
        raise InvalidTypeError(argument, str(given.device), f"must lie where {model_name} does, on {model.device}",
                               f"move it: {argument}.to({str(model.device)!r})")  # fmt: skip
    if given.dtype != model.dtype:
        raise InvalidTypeError(argument, str(given.dtype), f"must have the dtype of {model_name}, {model.dtype}",
                               f"convert it: {argument}.to({model.dtype})")  # fmt: skip
    return given


def outside_transforms() -> Any:
    """A context in which tensors are plain, whatever ``torch.func`` transforms are under way."""
    return torch._C._DisableFuncTorch()


def plain_view(value: torch.Tensor) -> torch.Tensor:
    """The tensor's own memory, contiguous and without gradients; inside ``torch.func`` transforms too."""
    with outside_transforms():
        while functorch.is_functorch_wrapped_tensor(value):
            value = functorch.get_unwrapped(value)
        return value.detach().contiguous()


def distinct(value: torch.Tensor) -> torch.Tensor:
    """The tensor without repeats: one entry along each axis that was expanded."""
    return value[tuple(slice(1) if step == 0 else slice(None) for step in value.stride())]


def numpy_view(value: torch.Tensor) -> NDArray[Any]:
    """The tensor's own memory as a NumPy array; a copy where it lies on a device."""
    with outside_transforms():
        array: NDArray[Any] = plain_view(value).cpu().numpy()
    return array


def give_back(like: Any) -> Callable[[torch.Tensor], Any]:
    """How results are returned to a caller who gave an array like this one: tensors for a tensor, else its own kind."""
    if isinstance(like, torch.Tensor):
        return lambda result: result
    if isinstance(like, np.ndarray):
        return lambda result: result.numpy()
    space = like.__array_namespace__() if hasattr(like, "__array_namespace__") else None
    return space.from_dlpack if space is not None else lambda result: result
