"""What runs programs: NumPy as the oracle, Numba on the CPU. A backend is imported when it is asked for."""

from collections.abc import Callable

from numbawave.backends.base import Backend


def _reference() -> Backend:
    from numbawave.backends.reference import Reference

    return Reference()


def _cpu() -> Backend:
    from numbawave.backends.cpu import Cpu

    return Cpu()


BACKENDS: dict[str, Callable[[], Backend]] = {"cpu": _cpu, "reference": _reference}
"""Every backend by name, sorted."""
