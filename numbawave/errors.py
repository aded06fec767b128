"""One family of exceptions: each says the argument, its value, the rule it breaks and the remedy."""

from typing import Any


class NumbawaveError(Exception):
    """Base of every error that numbawave raises on purpose.

    Parameters
    ----------
    argument : str
        The argument (or option, or file) at fault, with shot and point where there are such.
    value : object
        What was given; shown with ``repr`` and shortened when long.
    rule : str
        What holds for this argument, as a phrase.
    remedy : str
        What the caller can do, as a phrase.
    """

    def __init__(self, argument: str, value: Any, rule: str, remedy: str) -> None:
        self.argument, self.value, self.rule, self.remedy = argument, value, rule, remedy
        shown = value if isinstance(value, str) else repr(value)
        if len(shown) > 120:
            shown = shown[:117] + "..."
        super().__init__(f"{argument} = {shown}: {rule}. Remedy: {remedy}.")

    def __str__(self) -> str:
        return str(self.args[0])

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.argument, self.value, self.rule, self.remedy)


class InvalidValueError(NumbawaveError, ValueError):
    """The value is outside what the argument allows."""


class InvalidTypeError(NumbawaveError, TypeError):
    """The type, dtype or device is not one that the argument takes."""


class EquationError(NumbawaveError, ValueError):
    """An equation's text breaks a rule of the stencil calculus (linearity, position, race, halo)."""


class BackendError(NumbawaveError, RuntimeError):
    """The chosen backend cannot run here."""


class NonFiniteError(NumbawaveError, FloatingPointError):
    """A result holds NaN or infinity."""


class InsufficientMemoryError(NumbawaveError, MemoryError, RuntimeError):
    """A run does not fit into the memory that there is, or that it may take."""


class DeviceMemoryError(InsufficientMemoryError):
    """A device has too little memory for a run."""


class StorageError(NumbawaveError, OSError):
    """A file or folder cannot be read or written."""


class RankError(NumbawaveError, RuntimeError):
    """Another of the processes that work together failed."""
