"""A tiny inversion that the tests of the apps share."""

from pathlib import Path
from typing import Any

import pytest
import torch

from numbawave.apps import plots
from numbawave.apps.job import QUICK, Job
from numbawave.apps.job_file import read_job


@pytest.fixture
def no_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the picture out, which takes longer than a tiny inversion."""
    monkeypatch.setattr(plots, "draw_result", lambda arrays: b"")


@pytest.fixture
def random() -> torch.Generator:
    return torch.Generator().manual_seed(7)


@pytest.fixture
def quick_options(tmp_path: Path) -> dict[str, Any]:
    return {**QUICK, "batch_shots": 2, "output": str(tmp_path / "out")}


@pytest.fixture
def quick_job(quick_options: dict[str, Any]) -> Job:
    return read_job(None, quick_options)
