"""The choice of a coding: how kept values are quantised, how the result is compressed, and the error of both."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import DTypeLike

from numbawave.codegen.coding import CODES, scale_count
from numbawave.errors import InvalidValueError

Coding = Literal["none", "bf16", "int8"]
Codec = Literal["lz4", "zstd", "blosclz"]
Shuffle = Literal["auto", "bit", "byte", "none"]

ERRORS: dict[Coding, float] = {"none": 0.0, "bf16": 2.0**-8, "int8": 2.0**-5}
"""Relative L2 errors that a coding never exceeds; see ``Compression``."""


@dataclass(frozen=True)
class Compression:
    """How history is coded.

    Errors are relative L2 errors of a slot, for values in the normal range of their dtype:

    * ``"none"`` is exact, unless ``tolerance`` lets the host drop bits: values cut after b bits of the mantissa err by
      less than 2**-b, each relative to itself.
    * ``"bf16"`` keeps 8 significant bits and rounds to the nearest: each value errs by at most 2**-8 of itself. Values
      below 2**-126 err by less than 2**-126, those beyond 3.39e38 become infinite.
    * ``"int8"`` scales blocks of 64 values to -127 ... 127: each value errs by at most 1/254 of its block's largest
      absolute value M, so a small value beside a large one may lose all. The value M itself is met, and a block's norm is
      at least M, so a block and with it the whole errs by at most sqrt(63)/254 < 2**-5. On smooth waves it is nearer to
      2**-8. Blocks with M below 127 times the smallest normal number become zeros.

    When not to use it: a lossy coding changes a gradient by about its error, so checks of gradients want "lossless".

    Parameters
    ----------
    coding : {None, "none", "bf16", "int8"}, optional
        How values are quantised on the device. None chooses: "int8", or by ``tolerance`` the smallest that meets it.
    codec : {None, "lz4", "zstd", "blosclz"}, optional
        What compresses on the host, with blosc2; None for nothing.
    level : int, optional
        Of the codec's effort, 1 to 9.
    shuffle : {"auto", "bit", "byte", "none"}, optional
        What is rearranged before that; "auto" takes what did best on waves.
    tolerance : float, optional
        Largest relative L2 error allowed, between 0 and 1. From 2**-5 on it chooses "int8", from 2**-8 on "bf16" (cutting
        after 6 bits would save one bit in 16, and transfer twice the bytes), below that "none" with bits cut on the
        host. A tolerance finer than the dtype is met without loss.

    Raises
    ------
    InvalidValueError
        For an unknown choice, a coding that cannot meet the tolerance, and one that makes nothing smaller.
    """

    coding: Coding | None = None
    codec: Codec | None = "lz4"
    level: int = 1
    shuffle: Shuffle = "auto"
    tolerance: float | None = None

    def __post_init__(self) -> None:
        _check("codec", self.codec, (None, *get_args(Codec)))
        _check("shuffle", self.shuffle, get_args(Shuffle))
        _check("coding", self.coding, (None, *ERRORS))
        if type(self.level) is not int or not 1 <= self.level <= 9:
            raise InvalidValueError("level", self.level, "is an integer from 1 to 9", "use level=1, the fastest")
        if self.tolerance is not None and not (_is_number(self.tolerance) and 0.0 < self.tolerance < 1.0):
            raise InvalidValueError("tolerance", self.tolerance, "is a number between 0 and 1", "use tolerance=0.01")
        if self.coding is None:
            object.__setattr__(self, "coding", _chosen(self.tolerance))
        if self.tolerance is not None and ERRORS[self.quantiser] > self.tolerance:
            rule = f"is below what {self.coding} guarantees, {ERRORS[self.quantiser]:g}"
            raise InvalidValueError("tolerance", self.tolerance, rule, "leave out coding, so that it is chosen")
        if self.coding == "none" and self.codec is None:
            raise InvalidValueError("codec", self.codec, "is needed where values are not quantised", 'use codec="lz4"')

    @classmethod
    def of(cls, value: Any) -> Compression | None:
        """What the argument ``storage_compression`` asks for.

        Parameters
        ----------
        value : bool, "lossless", "bf16", "int8" or Compression
            True for 8 bits as they are; the names for codings with LZ4 behind them.

        Returns
        -------
        Compression or None
            None for False.

        Raises
        ------
        InvalidValueError
        """
        if value is None or value is False:
            return None
        if isinstance(value, cls):
            return value
        if value is True:
            return cls("int8", None)
        names: dict[str, Coding] = {"lossless": "none", "bf16": "bf16", "int8": "int8"}
        if not isinstance(value, str) or value not in names:
            rule = f"is False, True, a Compression or one of {', '.join(names)}"
            raise InvalidValueError("storage_compression", value, rule, "use True for the usual lossy code")
        return cls(names[value])

    @property
    def quantiser(self) -> Coding:
        """The coding, which is chosen by now."""
        assert self.coding is not None
        return self.coding

    @property
    def lossless(self) -> bool:
        """Whether values come back bit by bit, whatever their dtype."""
        return self.coding == "none" and self.tolerance is None

    def mantissa_bits(self, dtype: DTypeLike) -> int | None:
        """Bits of the mantissa that the host keeps of values of this dtype, or None for all."""
        if self.coding != "none" or self.tolerance is None:
            return None
        bits = 1 - math.frexp(self.tolerance)[1]  # the least b with 2**-b <= tolerance
        return bits if bits < np.finfo(dtype).nmant else None

    def relative_error(self, dtype: DTypeLike) -> float:
        """The relative L2 error that values of this dtype do not exceed."""
        bits = self.mantissa_bits(dtype)
        return ERRORS[self.quantiser] if bits is None else 2.0**-bits

    @property
    def error(self) -> str:
        """The guaranteed error, as a sentence."""
        if self.lossless:
            return "no error: values come back bit by bit"
        if self.coding == "int8":
            return "each value errs by at most 1/254 of the largest in its block of 64, a slot by 2**-5 in relative L2"
        if self.coding == "bf16":
            return "each value errs by at most 2**-8 of itself"
        return f"each value errs by less than {self.relative_error(np.float64):.2g} of itself"


def _check(argument: str, value: Any, allowed: tuple[Any, ...]) -> None:
    if not (value is None or isinstance(value, str)) or value not in allowed:
        rule = f"is one of {', '.join(repr(name) for name in allowed)}"
        raise InvalidValueError(argument, value, rule, f"use {argument}={allowed[1]!r}, for one")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.floating) and not isinstance(value, bool)


def _chosen(tolerance: float | None) -> Coding:
    """The smallest coding that is sure to meet a tolerance."""
    order: tuple[Coding, ...] = ("int8", "bf16", "none")
    return next(coding for coding in order if tolerance is None or ERRORS[coding] <= tolerance)


def coded_bytes(compression: Compression | None, values: int, real: str) -> int:
    """What so many values take at most; what blosc2 saves of it is not known beforehand."""
    each = np.dtype(real).itemsize
    coding = compression.quantiser if compression else "none"
    codes = np.dtype(CODES[coding]).itemsize if coding in CODES else each
    return values * codes + scale_count(coding, values) * each
