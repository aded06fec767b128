"""The pages are true: their Python runs, and the commands that they name are there."""

import importlib
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

import numbawave
from numbawave.apps import cli

ROOT = Path(__file__).parents[3]
WRITTEN = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
PAGES = [*WRITTEN, *sorted((ROOT / "docs" / "measured").glob("*.md"))]
BLOCK = re.compile(r"^(?:<!-- needs: (\w+) -->\n)?```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INDENTED = re.compile(r"\n\n((?:    .+\n)+)")
COMMANDS = ("make", "numbawave", "python", "torchrun", "srun")


def page_name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path, language: str) -> list[str]:
    """A page's blocks in a language, but for those about a name that this version does not have."""
    found = BLOCK.findall(page.read_text(encoding="utf-8"))
    return [text for needs, kind, text in found if kind == language and (not needs or needs in numbawave.__all__)]


def command_lines(page: Path) -> Iterator[list[str]]:
    """The words of each command line that a page names, comments left out."""
    text = page.read_text(encoding="utf-8")
    for block in [*blocks(page, "sh"), *INDENTED.findall(text), *(f"{x}\n" for x in re.findall(r"`(make [a-z-]+)`", text))]:
        for line in block.replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True)
            if words and words[0] in COMMANDS:
                yield words[1:] if words[0] == "srun" else words


@pytest.mark.parametrize("page", [page for page in WRITTEN if blocks(page, "python")], ids=page_name)
def test_python_on_a_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    variables = {"__name__": "page"}
    for number, block in enumerate(blocks(page, "python")):
        exec(compile(block, f"{page_name(page)}, block {number}", "exec"), variables)


@pytest.mark.parametrize("page", [page for page in PAGES if list(command_lines(page))], ids=page_name)
def test_commands_on_a_page_exist(page: Path) -> None:
    for words in command_lines(page):
        check(words)


def test_a_command_that_is_not_there_is_seen() -> None:
    for line in (
        "make no-such-target",
        "python docs/examples/no_such_file.py",
        "python docs/examples/rtm.py --no-such-option 3",
        "numbawave no-such-command",
        "numbawave fwi job.toml --no-such-option",
        "torchrun --no-such-option 2 docs/examples/rtm.py",
    ):
        with pytest.raises(AssertionError):
            check(line.split())


def check(words: list[str]) -> None:
    """Assert that a command line would be understood."""
    first, *rest = words
    if first == "make":
        made = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
        assert set(rest) <= set(made), words
    elif first == "numbawave":
        check_numbawave(rest)
    elif first == "python":
        check_script(rest)
    else:
        check_torchrun(rest)


def check_numbawave(words: list[str]) -> None:
    found = {command.name: command for command in cli.COMMANDS}
    assert words[0] in found or words[0].startswith("--"), words
    parser = cli.argparse.ArgumentParser()
    if words[0] in found:
        found[words[0]].add_options(parser)
    allowed = {option for action in parser._actions for option in action.option_strings} | {"--version", "--help"}
    assert {word for word in words if word.startswith("--")} <= allowed, words


def check_script(words: list[str]) -> None:
    """A script's options stand in its text."""
    script = ROOT / words[0]
    assert script.is_file(), words
    text = script.read_text(encoding="utf-8")
    assert all(f'"{word}"' in text for word in words[1:] if word.startswith("--")), words


def check_torchrun(words: list[str]) -> None:
    distributed = pytest.importorskip("torch.distributed")
    if not distributed.is_available():
        pytest.skip("torch is built without distributed")
    parser = importlib.import_module("torch.distributed.run").get_args_parser()
    known = {option.replace("_", "-"): action for action in parser._actions for option in action.option_strings}
    while words[0].startswith("-") and words[0] != "-m":
        option = words.pop(0)
        assert option in known, option
        if known[option].nargs != 0:
            words.pop(0)
    check(words[1:] if words[0] == "-m" else ["python", *words])
