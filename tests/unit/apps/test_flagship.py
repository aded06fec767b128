"""The lesson in 3-D: two ranks find what one process finds, the loss falls, and what is printed and drawn is there."""

import importlib.util
import math
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from matplotlib.image import imread

from numbawave.apps import ddp
from tests.tolerance import rounding
from tests.unit.apps.test_ddp import DISTRIBUTED, ENVIRONMENT, ROOT

SCRIPT = ROOT / "docs" / "examples" / "flagship_3d_fwi.py"
TRIAL = ("--quick", "--shots", "5", "--output")  # five shots: two and three on two ranks, in three batches or two and one


def torchrun(*words: str) -> str:
    """What two ranks print."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", *words]
    done = subprocess.run(command, env=os.environ | ENVIRONMENT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def lesson() -> ModuleType:
    spec = importlib.util.spec_from_file_location("flagship_3d_fwi", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def phase_error(module: ModuleType, loss: float) -> float:
    """How far apart two losses may be, relative to them, where models differ by rounding.

    Ranks add float32 gradients in another order, so after an epoch a speed may round to its neighbour, eps off. If all do,
    a wave of at most three times the peak frequency has its phase shifted by eps of what it turned in the record, and the
    record, of energy 1, is off by so much. A squared residual r of energy ``loss`` then changes by twice that over |r|.
    """
    turned = 2 * math.pi * 3 * module.FREQUENCY * module.DURATION
    return 2 * rounding(np.float32, turned) / math.sqrt(loss)


@DISTRIBUTED
def test_two_ranks_and_one_process_find_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = lesson()
    monkeypatch.setattr(module, "own_device", lambda name: torch.device("cpu"))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")

    alone = module.invert(module.options_of([*TRIAL, str(tmp_path / "alone.png")]), ddp.Ranks())
    printed = torchrun(str(SCRIPT), *TRIAL, str(tmp_path / "two.png"))

    two = [float(word) for word in re.findall(r"^epoch \d: loss (\S+)", printed, re.MULTILINE)]
    allowed = phase_error(module, alone[-1])
    assert two == pytest.approx(alone, rel=allowed)
    assert two[1] < two[0] * (1 - 10 * allowed)
    assert printed.startswith("scalar in 3-D, shots: 2, float32, backend cpu on cpu\n")
    assert [printed.count(f"  rank {rank}, {n} shots on cpu: RSS ") for rank, n in enumerate((2, 3))] == [2, 2]
    pictures = [imread(tmp_path / name) for name in ("alone.png", "two.png")]
    assert pictures[0].shape == pictures[1].shape
    assert pictures[0].std() > 0
