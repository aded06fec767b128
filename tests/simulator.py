"""Numba's CUDA simulator, quick enough for a test suite: a block's threads follow one another in one Python thread.

The simulator starts a Python thread for every CUDA thread, and in doing so spends nearly all of its time. Threads that
never wait for each other may as well run one by one, in any order: in the reverse one too, which shows whether a thread
relies on what another one wrote.
"""

import importlib
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import numpy as np

TILES = {1: (4,), 2: (3, 4), 3: (3, 3, 4)}
"""By axes: see ``cuda_tiles.SHAPES``. A thread that has no cell costs as much as one that has."""


@contextmanager
def serial(backwards: bool = False) -> Iterator[None]:
    """Run the threads of a block one after another; ``backwards`` runs blocks and threads from the last to the first."""
    from numbawave.backends.cuda import cuda

    simulator = importlib.import_module(f"{cuda.__name__}.simulator.kernel")
    parallel = simulator.BlockManager.run

    def run(block: Any, grid_point: tuple[int, ...], *arguments: Any) -> None:
        if "syncthreads" in block._f.__code__.co_names:
            return parallel(block, grid_point, *arguments)
        order = list(np.ndindex(*block._block_dim))
        if backwards:
            order.reverse()
            grid_point = tuple(n - 1 - at for n, at in zip(block._grid_dim, grid_point, strict=True))

        def every() -> None:
            for point in order:
                threading.current_thread().threadIdx = simulator.Dim3(*point)
                block._f(*arguments)

        thread = simulator.BlockThread(every, block, grid_point, order[0], False)
        thread.start()
        thread.join()
        if thread.exception:
            raise thread.exception[0].with_traceback(thread.exception[1])

    with mock.patch.object(simulator.BlockManager, "run", run), warnings.catch_warnings():
        # Kernels count in unsigned integers, which wrap on purpose.
        warnings.filterwarnings("ignore", "overflow encountered in scalar", RuntimeWarning)
        yield
