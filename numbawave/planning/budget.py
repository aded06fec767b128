"""What a call may take, place by place."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from numbawave.errors import InvalidTypeError, InvalidValueError

INEXACT = ("interior", "reconstruct", "bf16", "int8")
"""Values of levers that change the gradient by more than rounding."""

_UNITS = {"": 1, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12, "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}


@dataclass(frozen=True)
class Budget:
    """Bytes that a call and its backward pass may take, and what they may do to the gradient.

    Parameters
    ----------
    device, host, disk : int or str, optional
        Bytes, or text such as "4 GB" or "512 MiB". None for what is free when the call is planned, less a tenth: on the
        device what the driver and PyTorch's cache have left; of the host's memory and of the disk of ``storage_path`` this
        process's share among those that ``LOCAL_WORLD_SIZE`` says run on the node. Where models lie on the host, both
        ``device`` and ``host`` bound its memory.
    inexact : sequence of str
        Of ``"interior"`` and ``"reconstruct"`` (values of ``history``) and ``"bf16"`` and ``"int8"`` (of
        ``storage_compression``) those that may be chosen. All other levers leave the gradient as it is.

    Raises
    ------
    InvalidValueError, InvalidTypeError
        For what is no number of bytes, or no such value.
    """

    device: int | str | None = None
    host: int | str | None = None
    disk: int | str | None = None
    inexact: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("device", "host", "disk"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, bytes_of(name, getattr(self, name)))
        names = (self.inexact,) if isinstance(self.inexact, str) else self.inexact
        if not isinstance(names, Iterable) or isinstance(names, dict):
            raise InvalidTypeError("inexact", self.inexact, f"holds some of {', '.join(INEXACT)}", 'give ("int8",)')
        for name in names:
            if name not in INEXACT:
                raise InvalidValueError("inexact", name, f"holds some of {', '.join(INEXACT)}", "choose from these")
        object.__setattr__(self, "inexact", tuple(name for name in INEXACT if name in names))

    @classmethod
    def of(cls, value: Any) -> Budget:
        """What the option ``memory`` asks for: "auto" is all that is free.

        Raises
        ------
        InvalidTypeError
            For what is neither "auto" nor a budget.
        """
        if isinstance(value, cls):
            return value
        if not isinstance(value, str) or value != "auto":
            raise InvalidTypeError("memory", value, 'is "auto" or a Budget', 'give memory=Budget(device="4 GB")')
        return cls()


def bytes_of(argument: str, value: Any) -> int:
    """A number of bytes from a number or a text with a unit."""
    rule, remedy = "is a number of bytes, 0 or more, or text with a unit", f'give {argument}="4 GB"'
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise InvalidTypeError(argument, value, rule, remedy)
    found = re.fullmatch(r"\s*([0-9.]+(?:e[0-9]+)?)\s*([kmgt]?i?)b?\s*", str(value).lower())
    try:
        assert found is not None
        return int(float(found[1]) * _UNITS[found[2]])
    except (AssertionError, ValueError, KeyError) as error:
        raise InvalidValueError(argument, value, rule, remedy) from error
