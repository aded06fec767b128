"""How a run is laid out on a CUDA device; known without one, and without the package that provides CUDA."""

from typing import Any

COPIED_CELLS = 1_000_000
"""Cells of all copies of a gradient, at most."""


class CudaLayout:
    """What of the backend ``"cuda"`` decides how large its arrays are; see ``Backend``."""

    name = "cuda"
    align = 32
    lanes = 1

    def workers(self, run: Any) -> int:
        """See ``Backend``."""
        return 1

    def copies(self, run: Any) -> int:
        """See ``Backend``."""
        groups = 0 if run.batched else min(run.shots, COPIED_CELLS // run.grid.cells)
        return groups if groups > 1 else 0
