"""What a backend is."""

from typing import Any, Protocol

from numpy.typing import NDArray


class Backend(Protocol):
    """Runs programs over named arrays.

    The arrays are those of the printed text: fields and their ``_next`` buffers, parameters, profiles, points,
    amplitudes, records, history. A backend leaves the newest value of each field under the field's own name.
    """

    name: str

    def forward(self, run: Any, arrays: dict[str, NDArray[Any]], first: int, last: int, history: bool) -> None:
        """Steps ``first`` to ``last - 1``, forward; ``history`` says whether they are kept."""

    def adjoint(self, run: Any, arrays: dict[str, NDArray[Any]], first: int, last: int, history: bool) -> None:
        """Steps ``last - 1`` down to ``first``, backward; ``history`` says whether they are imaged."""
