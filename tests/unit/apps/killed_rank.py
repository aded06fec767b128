"""A job twice as torchrun starts it; rank 1 is killed once, amid the second iteration. Arguments: job file, two folders."""

import os
import runpy
import signal
import sys
from types import SimpleNamespace
from typing import Any

from numbawave.apps import crew

KILLED_AT = 4
"""Of the calls for a gradient: after those of a whole iteration of this job."""


def numbawave(*words: str) -> None:
    """``python -m numbawave``, in this process."""
    sys.argv[1:] = words
    try:
        runpy.run_module("numbawave", run_name="__main__")
    except SystemExit as ended:
        if ended.code:
            raise


if __name__ == "__main__":
    no_picture: Any = SimpleNamespace(draw_result=lambda arrays: b"")
    sys.modules["numbawave.apps.plots"] = no_picture
    calls: list[int] = []
    whole = crew.misfit_and_gradient

    def failing(*arguments: Any) -> Any:
        calls.append(1)
        if len(calls) == KILLED_AT and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0" and os.environ["RANK"] == "1":
            os.kill(os.getpid(), signal.SIGKILL)
        return whole(*arguments)

    crew.misfit_and_gradient = failing
    job, *outputs = sys.argv[1:]
    for output in outputs:
        # this begins anew, but not again when torchrun starts the ranks again
        numbawave("fwi", job, "--output", output, "--no-progress", "--restart")
