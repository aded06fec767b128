"""The quantisers of history on CUDA devices."""

from __future__ import annotations

from collections import Counter
from contextlib import nullcontext
from dataclasses import dataclass
from functools import lru_cache
from types import ModuleType
from typing import Any

import numpy as np

from numbawave.backends import simulated
from numbawave.backends.cuda import LOADED, Converted, address, cuda, device_view, on, quiet, stream_of
from numbawave.codegen.coding import BLOCK, LANES, ROWS, WORDS, cuda_text
from numbawave.codegen.module_cache import load, one_process

if not simulated():
    from numbawave.backends.cuda_graph import graph_of

MOST_BLOCKS = 1 << 14
"""Of threads in one launch, each of which takes its turn again where there is more work."""

THREADS = 256

FEW_USES = 8
"""Up to so many times the same arrays are coded by a launch: making a graph would take longer."""


@dataclass(frozen=True)
class _Launch:
    """A quantiser of a module with its arrays."""

    module: ModuleType
    title: str
    blocks: int
    threads: tuple[int, ...]
    arrays: list[Any]

    def __call__(self, stream: Any) -> None:
        getattr(self.module, self.title)[self.blocks, self.threads, stream](*self.arrays)

    def after(self, other: _Launch) -> bool:
        """See ``Launch``; it is replayed alone."""
        return True


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
        self._known: dict[tuple[Any, ...], _Launch] = {}
        self._uses = Counter[tuple[Any, ...]]()

    def encode(self, values: Any, coding: str, codes: Any, scales: Any) -> None:
        """See ``Coder``."""
        self._run(f"encode_{coding}", values, [values, codes] if coding == "bf16" else [values, codes, scales])

    def decode(self, codes: Any, coding: str, scales: Any, values: Any) -> None:
        """See ``Coder``."""
        self._run(f"decode_{coding}", values, [codes, values] if coding == "bf16" else [codes, scales, values])

    def close(self) -> None:
        """See ``Coder``."""
        self._known.clear()
        self._uses.clear()

    def _run(self, title: str, values: Any, arrays: list[Any]) -> None:
        """Launch a quantiser; where it has done the same a few times, its graph, which takes much less time."""
        if not values.shape[0]:
            return
        key, device, stream = (title, *map(_mark, arrays)), self.space.device, stream_of(self.space)
        self._uses[key] += 1
        with on(device):
            if key not in self._known:
                self._known[key] = _bound(title, values, arrays)
                _launched(self._known[key], device, stream)
            elif device is None or self._uses[key] <= FEW_USES:
                with quiet():
                    self._known[key](stream)
            else:
                graph_of(cuda, device, lambda: [self._known[key]], key).launch(1, stream)


def _launched(launch: _Launch, device: int | None, stream: Any) -> None:
    """Launch what may have to be compiled first."""
    name = f"{launch.module.__name__}.{launch.title}", device
    with quiet(), nullcontext() if name in LOADED else one_process(launch.module):
        launch(stream)
    LOADED.add(name)


def _bound(title: str, values: Any, arrays: list[Any]) -> _Launch:
    real = str(values.dtype).removeprefix("torch.")
    module, size = _module(real), values.shape[0]
    if title.endswith("int8"):
        given = [device_view(array) for array in arrays]
    else:
        given = [_words(array, WORDS[real] if array is values else "uint16") for array in arrays]
    threads, each = ((LANES, ROWS), ROWS * BLOCK) if title == "encode_int8" else ((THREADS,), THREADS)
    return _Launch(module, title, min(-(-size // each), MOST_BLOCKS), threads, given)


def _mark(array: Any) -> tuple[int, int, str]:
    """What tells arrays apart."""
    return address(array), array.shape[0], str(array.dtype)


@lru_cache(maxsize=2)
def _module(real: str) -> ModuleType:
    return load("coding_cuda", cuda_text(real))


def _words(array: Any, dtype: str) -> Any:
    """An array's bits as kernels take them."""
    flat = array.reshape(-1)
    if isinstance(array, np.ndarray):
        return flat.view(dtype)
    return Converted(cuda.as_cuda_array(flat.detach(), sync=False).view(np.dtype(dtype)))
