"""The quantisers of history on the CPU."""

from __future__ import annotations

from contextlib import nullcontext
from functools import lru_cache
from types import ModuleType
from typing import Any

from numpy.typing import NDArray

from numbawave.backends.cpu import _ONE_AT_A_TIME, FAST, _threads
from numbawave.codegen.coding import WORDS, cpu_text
from numbawave.codegen.module_cache import load

FEW_VALUES = 200_000
"""Up to so many are coded by one thread: at 10 GB/s and more that takes less than to wake another one."""


def encode(values: NDArray[Any], coding: str, codes: NDArray[Any], scales: NDArray[Any] | None = None) -> None:
    """Quantise values.

    Parameters
    ----------
    values : ndarray [size] of float32 or float64
        Contiguous.
    coding : {"bf16", "int8"}
    codes : ndarray [size]
        Of the dtype that ``codegen.coding.CODES`` names; is overwritten.
    scales : ndarray [scale_count(coding, size)], optional
        Of the values' dtype; is overwritten. None for "bf16".
    """
    words = values.view(WORDS[values.dtype.name])
    _run(values, f"encode_{coding}", (words, codes) if coding == "bf16" else (values, words, codes, scales))


def decode(codes: NDArray[Any], coding: str, scales: NDArray[Any] | None, values: NDArray[Any]) -> None:
    """Bring values back.

    Parameters
    ----------
    codes, coding, scales
        See ``encode``.
    values : ndarray [size] of float32 or float64
        Is overwritten.
    """
    words = values.view(WORDS[values.dtype.name])
    _run(values, f"decode_{coding}", (codes, words) if coding == "bf16" else (codes, scales, values))


@lru_cache(maxsize=2)
def _module(real: str) -> ModuleType:
    return load("coding_cpu", cpu_text(real), sorted(FAST))


def _run(values: NDArray[Any], title: str, arrays: tuple[Any, ...]) -> None:
    function = getattr(_module(values.dtype.name), title)
    with _ONE_AT_A_TIME, _threads(1) if values.size <= FEW_VALUES else nullcontext():
        function(*arrays)


class CpuCoder:
    """See ``Coder``."""

    encode = staticmethod(encode)
    decode = staticmethod(decode)

    def close(self) -> None:
        """See ``Coder``."""
