"""``numbawave`` as torchrun starts it, but rank 1 is killed once, amid its second iteration."""

import os
import signal
import sys
from types import SimpleNamespace
from typing import Any

from numbawave.apps import cli, crew

KILLED_AT = 4
"""Of the calls for a gradient: after those of a whole iteration of this job."""

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
    sys.exit(cli.main())
