"""A public function says what goes in and what comes out."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "numbawave"
PUBLIC = (
    "grid",
    "survey",
    "apps",
    "engine/setup.py",
    *(
        f"torch_bridge/{name}.py"
        for name in ("binding", "checkpointing", "estimate", "plan", "propagators", "snapshot", "wavelets")
    ),
)
"""Where users call functions; inside the calculus and the printer a sentence is enough, and ruff asks for that."""
FILES = sorted(path for part in PUBLIC for path in [PACKAGE / part, *(PACKAGE / part).rglob("*.py")] if path.is_file())


def public_functions(tree: ast.Module) -> Iterator[ast.FunctionDef]:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            yield node


def missing_sections(function: ast.FunctionDef) -> list[str]:
    docstring = ast.get_docstring(function) or ""
    arguments = function.args
    takes = [
        *arguments.posonlyargs,
        *arguments.args,
        *arguments.kwonlyargs,
        arguments.vararg,
        arguments.kwarg,
    ]
    gives = function.returns is not None and ast.unparse(function.returns) not in {"None", "NoReturn"}
    needed = {"Parameters": any(takes), "Returns": gives and "Yields\n" not in docstring}
    return [section for section, is_needed in needed.items() if is_needed and f"{section}\n---" not in docstring]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_public_functions_have_their_sections(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    missing = {function.name: missing_sections(function) for function in public_functions(tree)}
    assert not {function: sections for function, sections in missing.items() if sections}


def test_the_rule_sees_a_missing_section() -> None:
    (function,) = public_functions(ast.parse('def f(a) -> int:\n    """Do.\n\n    Returns\n    -------\n    """'))
    assert missing_sections(function) == ["Parameters"]
