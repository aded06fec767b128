"""What a plan says is what the process takes: twenty random calls, in a process of their own."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "plans.py"


@pytest.mark.slow
@pytest.mark.skipif(not os.access("/proc/self/clear_refs", os.W_OK), reason="the system does not forget a process's peak")
def test_planned_bytes_are_those_taken() -> None:
    # Memory that is given back at once, or the process would hold some for the next call.
    environment = os.environ | {"MALLOC_MMAP_THRESHOLD_": "65536", "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, str(SCRIPT), "--device", "cpu", "--count", "20", "--within", "0.15"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"host: 20 calls", done.stdout), done.stdout
