"""Where a run's arrays live, and the few things done to them outside a backend."""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray


class Space(Protocol):
    """Makes arrays of the run's dtype."""

    @property
    def device(self) -> int | None:
        """Ordinal of a CUDA device, None for the host's memory."""

    @property
    def stream(self) -> int:
        """Address of the caller's current stream; 0 is the default one."""

    def zeros(self, *shape: int) -> Any:
        """An array of zeros."""

    def empty(self, *shape: int) -> Any:
        """An array of anything."""

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


@dataclass(frozen=True)
class HostMemory:
    """NumPy arrays."""

    dtype: np.dtype[Any]
    device: int | None = None
    stream: int = 0

    def zeros(self, *shape: int) -> NDArray[Any]:
        """See ``Space``."""
        return np.zeros(shape, self.dtype)

    def empty(self, *shape: int) -> NDArray[Any]:
        """See ``Space``."""
        return np.empty(shape, self.dtype)

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
