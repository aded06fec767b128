"""Where a run's arrays live, and the few things done to them outside a backend."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from numbawave.history.media import Copier

Copy = tuple[Any, NDArray[Any], int]
"""A flat array of the run's, memory of the host as ``Lane.staged`` gives it, and where in that its copy begins."""


class Ticket(Protocol):
    """Something that was queued on a device."""

    def wait(self) -> None:
        """Block this thread until it is done."""


class Lane(Protocol):
    """Copies between the run's arrays and the host's memory; what is queued on it runs in order."""

    def staged(self, array: Any, times: int) -> NDArray[Any]:
        """Memory of the host for so many copies of a flat array; where the array lies there itself, its own, for one."""

    def out(self, copies: Sequence[Copy]) -> Ticket:
        """Copy to the host when all is done that the caller's stream was given."""

    def back(self, copies: Sequence[Copy], after: Ticket | None) -> Ticket:
        """Copy from the host, after a mark."""

    def mark(self) -> Ticket:
        """All that the caller's stream was given until now."""

    def follow(self, ticket: Ticket) -> None:
        """Let the caller's stream go on after this only."""


class Space(Protocol):
    """Makes arrays of the run's dtype."""

    @property
    def device(self) -> int | None:
        """Ordinal of a CUDA device, None for the host's memory."""

    @property
    def copier(self) -> Copier:
        """How bytes are copied on the host."""

    @property
    def stream(self) -> int:
        """Address of the caller's current stream; 0 is the default one."""

    def zeros(self, *shape: int) -> Any:
        """An array of zeros."""

    def empty(self, *shape: int) -> Any:
        """An array of anything."""

    def buffer(self, size: int, dtype: str) -> Any:
        """A flat array of anything, of a NumPy dtype."""

    def lane(self) -> Lane:
        """A way to the host's memory and back, beside what the caller's stream does."""

    def own(self, values: Any) -> Any:
        """A contiguous copy."""

    def contiguous(self, values: Any) -> Any:
        """The same array, or a contiguous copy if it is not; of the run's dtype."""

    def upload(self, values: NDArray[Any]) -> Any:
        """An array of the host's, of its own dtype if that is one of integers."""

    def divide(self, values: Any, by: Any) -> Any:
        """Divide in place where the divisor is not zero."""

    def view(self, value: Any) -> Any:
        """The caller's tensor as an array of the run."""

    def tensor(self, array: Any) -> Any:
        """An array of the run as the caller's tensor."""


class Done:
    """A ticket, and a lane, where nothing is ever queued."""

    def wait(self) -> None:
        """See ``Ticket``."""

    def staged(self, array: NDArray[Any], times: int) -> NDArray[Any]:
        """See ``Lane``."""
        return array

    def out(self, copies: Sequence[Copy]) -> Ticket:
        """See ``Lane``."""
        return self

    def back(self, copies: Sequence[Copy], after: Ticket | None) -> Ticket:
        """See ``Lane``."""
        return self

    def mark(self) -> Ticket:
        """See ``Lane``."""
        return self

    def follow(self, ticket: Ticket) -> None:
        """See ``Lane``."""


@dataclass(frozen=True)
class HostMemory:
    """NumPy arrays."""

    dtype: np.dtype[Any]
    device: int | None = None
    stream: int = 0
    copier: ClassVar[Copier] = Copier()

    def zeros(self, *shape: int) -> NDArray[Any]:
        """See ``Space``."""
        return np.zeros(shape, self.dtype)

    def empty(self, *shape: int) -> NDArray[Any]:
        """See ``Space``."""
        return np.empty(shape, self.dtype)

    def buffer(self, size: int, dtype: str) -> NDArray[Any]:
        """See ``Space``."""
        return np.empty(size, dtype)

    def lane(self) -> Lane:
        """See ``Space``."""
        return Done()

    def own(self, values: Any) -> NDArray[Any]:
        """See ``Space``."""
        return np.array(values, self.dtype, order="C")

    def contiguous(self, values: Any) -> NDArray[Any]:
        """See ``Space``."""
        return np.ascontiguousarray(values, self.dtype)

    def upload(self, values: NDArray[Any]) -> NDArray[Any]:
        """See ``Space``."""
        return values if values.dtype.kind in "iu" else values.astype(self.dtype)

    def divide(self, values: NDArray[Any], by: NDArray[Any]) -> NDArray[Any]:
        """See ``Space``."""
        np.divide(values, by, out=values, where=np.broadcast_to(by != 0, values.shape))
        return values

    def view(self, value: Any) -> Any:
        """See ``Space``."""
        return value

    def tensor(self, array: Any) -> Any:
        """See ``Space``."""
        return array
