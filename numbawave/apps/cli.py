"""The command line: ``numbawave demo``, ``numbawave fwi`` and whatever else the table of commands holds."""

import argparse
import dataclasses
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import __version__
from ..errors import NumbawaveError
from .job import DEMO, QUICK, Job


@dataclass(frozen=True)
class Command:
    """A word after ``numbawave``: what it is for, its options, and what it does (returns the exit status)."""

    name: str
    about: str
    add_options: Callable[[argparse.ArgumentParser], None]
    execute: Callable[[argparse.Namespace], int]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    argv : sequence of str, optional
        The words after ``numbawave``; by default those of the process.

    Returns
    -------
    int
        0; 1 where ``doctor`` finds things to mend; 2 for wrong input, with one line on standard error; 130 after
        Ctrl-C.
    """
    parser = argparse.ArgumentParser(prog="numbawave", description="Wave propagation and full-waveform inversion.")
    parser.add_argument("--version", action="version", version=f"numbawave {__version__}")
    words = parser.add_subparsers(dest="command", metavar="command", required=True)
    for command in COMMANDS:
        sub = words.add_parser(command.name, help=command.about, description=command.about)
        command.add_options(sub)
        sub.set_defaults(execute=command.execute)
    options = parser.parse_args(argv)
    try:
        return int(options.execute(options))
    except NumbawaveError as error:
        if int(os.environ.get("LOCAL_RANK", 0)) == 0:  # under torchrun, all ranks of a machine say the same
            print(f"numbawave: {error}", file=sys.stderr)
        return 2


def _add_run_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--restart", action="store_true", help="begin anew instead of going on from a checkpoint")
    parser.add_argument(
        "--progress", action=argparse.BooleanOptionalAction, help="the progress bar; by default on a terminal"
    )


def _add_demo_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--output", default=DEMO["output"], help="folder for the results (default: %(default)s)")
    parser.add_argument("--quick", action="store_true", help="a tiny model and a few iterations, in seconds")
    _add_run_options(parser)


def _add_fwi_options(parser: argparse.ArgumentParser) -> None:
    _add_job_options(parser)
    _add_run_options(parser)


def _add_job_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", nargs="?", help="a TOML file; its keys are the options, with _ for -")
    for field in dataclasses.fields(Job):
        about = f"{field.metadata['about']} (default: {_shown(field.default)})"
        flag = "--" + field.name.replace("_", "-")
        parser.add_argument(flag, default=argparse.SUPPRESS, metavar="...", help=about.replace("%", "%%"))


def _add_no_options(parser: argparse.ArgumentParser) -> None:
    """What takes none."""


def _shown(value: Any) -> str:
    """A default as it would be typed."""
    if not isinstance(value, tuple):
        return str(value)
    return ",".join(":".join(map(str, item)) if isinstance(item, tuple) else str(item) for item in value) or "()"


def _demo(options: argparse.Namespace) -> int:
    chosen = {**DEMO, **(QUICK if options.quick else {}), "output": options.output}
    return _invert(None, chosen, options)


def _fwi(options: argparse.Namespace) -> int:
    return _invert(options.job, _chosen(options), options)


def _plan(options: argparse.Namespace) -> int:
    from .job_file import read_job

    job = read_job(options.job, _chosen(options))
    from .batch_plan import plan_batch  # torch is loaded only once the job is known to be sound

    print(plan_batch(job).summary())
    return 0


def _chosen(options: argparse.Namespace) -> dict[str, Any]:
    """The keys of a job that options give."""
    given = vars(options)
    return {field.name: given[field.name] for field in dataclasses.fields(Job) if field.name in given}


def _doctor(options: argparse.Namespace) -> int:
    from .doctor import examine

    return min(1, examine(print))


def _invert(path: str | None, chosen: dict[str, Any], options: argparse.Namespace) -> int:
    from .job_file import read_job

    job = read_job(path, chosen)
    from tqdm import tqdm

    from .fwi import CHECKPOINT, run  # torch is loaded only once the job is known to be sound

    try:
        summary = run(job, restart=options.restart, progress=options.progress, say=tqdm.write)
    except KeyboardInterrupt:
        print(f"\nnumbawave: stopped. {_how_to_go_on(Path(job.output) / CHECKPOINT)}", file=sys.stderr)
        return 130
    if int(os.environ.get("RANK", 0)) == 0:
        print(summary.table())
    return 0


def _how_to_go_on(checkpoint: Path) -> str:
    if not checkpoint.exists():
        return "No iteration was finished, so nothing is kept."
    return f"The last iteration is kept in {checkpoint}; to go on run the same command again (no --restart)."


COMMANDS: tuple[Command, ...] = (
    Command("demo", "invert the built-in 2-D model", _add_demo_options, _demo),
    Command("fwi", "invert a model or data given by a file or options", _add_fwi_options, _fwi),
    Command("plan", "say what a batch of an inversion's shots would take, and run nothing", _add_job_options, _plan),
    Command("doctor", "check what this machine has, and say what mends the rest", _add_no_options, _doctor),
)
