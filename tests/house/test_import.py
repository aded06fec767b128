"""A bare import starts nothing."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import numbawave

ROOT = Path(__file__).parents[2]
LIMIT_SECONDS = 0.3
PROBE = """
import json, sys, time
import numpy
start = time.perf_counter()
import numbawave
dir(numbawave)
print(json.dumps({"seconds": time.perf_counter() - start, "modules": sorted(sys.modules)}))
"""


def probe(folder: Path) -> dict:
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROBE],
        cwd=folder,
        env={"PYTHONPATH": str(ROOT), "HOME": str(folder), "XDG_CACHE_HOME": str(folder)},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return json.loads(result.stdout)


def test_a_bare_import_is_quick_and_loads_no_heavy_package(tmp_path: Path) -> None:
    # The best of three: the first one may compile the files, and the machine may be busy.
    runs = [probe(tmp_path) for _ in range(3)]
    loaded = {name.partition(".")[0] for run in runs for name in run["modules"]}
    assert not loaded & {"torch", "numba", "llvmlite", "matplotlib", "scipy", "tqdm", "blosc2"}
    assert min(run["seconds"] for run in runs) < LIMIT_SECONDS


def test_a_bare_import_makes_no_folder(tmp_path: Path) -> None:
    probe(tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", numbawave.__all__)
def test_every_public_name_is_there(name: str) -> None:
    value = getattr(numbawave, name)
    assert name in dir(numbawave)
    assert getattr(value, "__doc__", None)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'scalr'"):
        _ = numbawave.scalr
