"""The quantisers of history on CUDA devices."""

from __future__ import annotations

from functools import lru_cache
from types import ModuleType
from typing import Any

import numpy as np

from numbawave.backends.cuda import LOADED, Converted, cuda, device_view, on, stream_of
from numbawave.codegen.coding import BLOCK, CODES, ROWS, WORDS, cuda_text
from numbawave.codegen.module_cache import load, one_process

MOST_BLOCKS = 1 << 14
"""Of threads in one launch, each of which takes its turn again where there is more work."""

THREADS = 256


def encode(values: Any, coding: str, codes: Any, scales: Any, device: int | None, stream: Any) -> None:
    """Queue the quantisation of values.

    Parameters
    ----------
    values : tensor [size] of float32 or float64
        Contiguous, on the device; an array of the host in Numba's simulator.
    coding : {"bf16", "int8"}
    codes : tensor [size]
        Of the dtype that ``codegen.coding.CODES`` names, or another one as wide; is overwritten.
    scales : tensor [scale_count(coding, size)] or None
        Of the values' dtype; is overwritten. None for "bf16".
    device : int or None
        None in the simulator.
    stream : stream
        As kernels are launched on.
    """
    real = str(values.dtype).removeprefix("torch.")
    if coding == "bf16":
        arrays = [_words(values, WORDS[real]), _words(codes, CODES[coding])]
        _launch(real, "encode_bf16", arrays, values.shape[0], device, stream)
    else:
        arrays = [device_view(values), device_view(codes), device_view(scales)]
        _launch(real, "encode_int8", arrays, values.shape[0], device, stream)


def decode(codes: Any, coding: str, scales: Any, values: Any, device: int | None, stream: Any) -> None:
    """Queue the way back.

    Parameters
    ----------
    codes, coding, scales, device, stream
        See ``encode``.
    values : tensor [size] of float32 or float64
        Is overwritten.
    """
    real = str(values.dtype).removeprefix("torch.")
    if coding == "bf16":
        arrays = [_words(codes, CODES[coding]), _words(values, WORDS[real])]
    else:
        arrays = [device_view(codes), device_view(scales), device_view(values)]
    _launch(real, f"decode_{coding}", arrays, values.shape[0], device, stream)


def _launch(real: str, title: str, arrays: list[Any], size: int, device: int | None, stream: Any) -> None:
    if not size:
        return
    module = _module(real)
    kernel = getattr(module, title)
    threads: tuple[int, ...] = (BLOCK, ROWS) if title == "encode_int8" else (THREADS,)
    blocks = min(-(-size // int(np.prod(threads))), MOST_BLOCKS)
    with on(device):
        if (kernel_name := f"{module.__name__}.{title}", device) in LOADED:
            kernel[blocks, threads, stream](*arrays)
        else:
            with one_process(module):
                kernel[blocks, threads, stream](*arrays)
            LOADED.add((kernel_name, device))


@lru_cache(maxsize=2)
def _module(real: str) -> ModuleType:
    return load("coding_cuda", cuda_text(real))


def _words(array: Any, dtype: str) -> Any:
    """An array's bits as kernels take them."""
    flat = array.reshape(-1)
    if isinstance(array, np.ndarray):
        return flat.view(dtype)
    return Converted(cuda.as_cuda_array(flat.detach(), sync=False).view(np.dtype(dtype)))


class CudaCoder:
    """See ``Coder``.

    Parameters
    ----------
    space : Space
        Whose arrays are coded, on its caller's current stream.
    """

    def __init__(self, space: Any) -> None:
        self.space = space

    def encode(self, values: Any, coding: str, codes: Any, scales: Any) -> None:
        """See ``Coder``."""
        encode(values, coding, codes, scales, self.space.device, stream_of(self.space))

    def decode(self, codes: Any, coding: str, scales: Any, values: Any) -> None:
        """See ``Coder``."""
        decode(codes, coding, scales, values, self.space.device, stream_of(self.space))
