"""The reference is made from the package, and making it starts no GPU."""

import dataclasses
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import numbawave
from numbawave.torch_bridge.options import Options

DOCS = Path(__file__).parents[3] / "docs"
STARTS_NOTHING = """
import sys
sys.path[:0] = [{root!r}, {docs!r}]
import reference
reference.filled(open({page!r}).read())
import torch
assert not torch.cuda.is_initialized()
assert "numba.cuda" not in sys.modules
"""


@pytest.fixture
def reference(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(DOCS))
    import reference

    return reference


def test_every_option_stands_in_the_table_with_its_default_and_meaning(reference: ModuleType) -> None:
    rows = [line.strip("| ").split(" | ") for line in reference.options().splitlines()[2:]]
    titles = [title for row in rows for title in row[0].replace("`", "").split(", ")]
    assert titles == [field.name for field in dataclasses.fields(Options)]
    assert all(len(row) == 4 and all(row) for row in rows)
    assert next(row for row in rows if row[0] == "`history`")[2] == "`'full'`"


def test_every_public_name_and_mark_is_filled_in(reference: ModuleType) -> None:
    page = (DOCS / "reference.md").read_text()
    assert all(page.count(f"<!-- {mark} -->") == 1 for mark in reference.MARKS)
    text = reference.filled(page)
    assert "<!--" not in text
    assert all(f":: numbawave.{name}\n" in text for name in numbawave.__all__)
    assert all(f"| `{name}` |" in text for name in numbawave.equations.EQUATIONS)


def test_making_the_reference_starts_no_gpu() -> None:
    script = STARTS_NOTHING.format(root=str(DOCS.parent), docs=str(DOCS), page=str(DOCS / "reference.md"))
    subprocess.run([sys.executable, "-c", script], check=True, timeout=100)
