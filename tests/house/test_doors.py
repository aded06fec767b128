"""Each third party comes in through its own rooms; a room that is missing here lets nothing in."""

import ast
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "numbawave"
FILES = sorted(PACKAGE.rglob("*.py"))
EVERYWHERE = {"numpy", "numbawave", *sys.stdlib_module_names}
DOORS = {
    "blosc2": {"history"},
    "cuda": {"backends"},
    "matplotlib": {"apps"},
    "numba": {"backends"},
    "llvmlite": {"backends"},
    "segyio": {"apps"},
    "torch": {"torch_bridge", "apps"},
    "tqdm": {"torch_bridge", "apps"},
}


def imported(tree: ast.AST) -> set[str]:
    """First parts of the names that a file imports, wherever in it they stand."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names.add(node.module or "")
    return {name.partition(".")[0] for name in names}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_third_parties_come_in_through_their_doors(path: Path) -> None:
    room = path.relative_to(PACKAGE).parts[0]
    third_parties = imported(ast.parse(path.read_text(encoding="utf-8"))) - EVERYWHERE
    strangers = {name for name in third_parties if room not in DOORS.get(name, set())}
    assert not strangers


def test_the_rule_sees_an_import_inside_a_function() -> None:
    assert imported(ast.parse("def f():\n    from torch.fft import rfft\n    import numba.cuda")) == {
        "torch",
        "numba",
    }
