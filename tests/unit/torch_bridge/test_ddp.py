"""Shots spread over processes give the gradient of one process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.unit.torch_bridge import ddp_worker

ROOT = Path(__file__).parents[3]


@pytest.mark.skipif(not torch.distributed.is_available(), reason="torch is built without distributed")
def test_two_uneven_ranks_give_the_gradient_of_one_process(tmp_path: Path) -> None:
    expected = ddp_worker.gradient(0, 1, wrap=False)
    environment = os.environ | {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "PYTHONPATH": str(ROOT)}
    start = [sys.executable, ddp_worker.__file__]

    ranks = [
        subprocess.Popen([*start, str(rank), "2", str(tmp_path / "meeting"), str(tmp_path / "gradient")], env=environment)
        for rank in range(2)
    ]
    codes = [rank.wait(timeout=120) for rank in ranks]

    assert codes == [0, 0]
    found = [torch.load(tmp_path / f"gradient.{rank}") for rank in range(2)]
    assert torch.equal(*found)
    torch.testing.assert_close(found[0], expected, rtol=1e-12, atol=1e-12 * float(expected.abs().max()))
