"""The quantisers of history on CUDA devices."""

from __future__ import annotations

from functools import lru_cache
from math import prod
from types import ModuleType
from typing import Any

import numpy as np

from numbawave.backends.cuda import LOADED, Converted, address, cuda, device_view, on, stream_of
from numbawave.codegen.coding import BLOCK, ROWS, WORDS, cuda_text
from numbawave.codegen.module_cache import load, one_process

MOST_BLOCKS = 1 << 14
"""Of threads in one launch, each of which takes its turn again where there is more work."""

THREADS = 256


class CudaCoder:
    """See ``Coder``.

    Parameters
    ----------
    space : Space
        Whose arrays are coded, on its caller's current stream: tensors of a device, or arrays in Numba's simulator.
        Codes are of the dtype that ``codegen.coding.CODES`` names, or of another one as wide.
    """

    def __init__(self, space: Any) -> None:
        self.space = space
        self._known: dict[tuple[Any, ...], list[Any]] = {}

    def encode(self, values: Any, coding: str, codes: Any, scales: Any) -> None:
        """See ``Coder``."""
        self._launch(f"encode_{coding}", values, [values, codes] if coding == "bf16" else [values, codes, scales])

    def decode(self, codes: Any, coding: str, scales: Any, values: Any) -> None:
        """See ``Coder``."""
        self._launch(f"decode_{coding}", values, [codes, values] if coding == "bf16" else [codes, scales, values])

    def close(self) -> None:
        """See ``Coder``."""
        self._known.clear()

    def _launch(self, title: str, values: Any, arrays: list[Any]) -> None:
        size, real = values.shape[0], str(values.dtype).removeprefix("torch.")
        if not size:
            return
        key = title, size, *map(address, arrays)
        if key not in self._known:
            self._known[key] = [
                device_view(array)
                if title.endswith("int8")
                else _words(array, WORDS[real] if array is values else "uint16")
                for array in arrays
            ]
        module, threads = _module(real), (BLOCK, ROWS) if title == "encode_int8" else (THREADS,)
        kernel, device, stream = getattr(module, title), self.space.device, stream_of(self.space)
        with on(device):
            queue = kernel[min(-(-size // prod(threads)), MOST_BLOCKS), threads, stream]
            if (name := f"{module.__name__}.{title}", device) in LOADED:
                queue(*self._known[key])
            else:
                with one_process(module):
                    queue(*self._known[key])
                LOADED.add((name, device))


@lru_cache(maxsize=2)
def _module(real: str) -> ModuleType:
    return load("coding_cuda", cuda_text(real))


def _words(array: Any, dtype: str) -> Any:
    """An array's bits as kernels take them."""
    flat = array.reshape(-1)
    if isinstance(array, np.ndarray):
        return flat.view(dtype)
    return Converted(cuda.as_cuda_array(flat.detach(), sync=False).view(np.dtype(dtype)))
