"""How good ``memory="auto"`` is: ``make budgets``, on a GPU where there is one.

One problem, forward and backward, within budgets for the device's memory. What each budget's search finds to fit is run,
if it is expected to take less than ``--within`` times the chosen call's time, and so is the call with the budget itself, in
a process that may have no more of the device. The table has the seconds of second calls, the peak of PyTorch's memory, and
how much longer the chosen call takes than the fastest one that was tried and stayed inside the budget. Without a GPU the
budgets are parts of what the call takes with no lever pulled, and the bytes are those that were planned.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch
from decision_table import Case, limit
from gradient_call import measured

import numbawave
from numbawave import Budget

LARGE, SMALL = Case(100, 600, 8), Case(32, 120, 4)
GIGABYTES, PARTS = (1, 2, 4, 8, 16), (0.25, 0.4, 0.7)
ROOM = {"host": "100 GB", "disk": "40 GB"}
"""What the other places may hold."""

COLUMNS = ("budget, GB", "peak, GB", "chosen", "s", "expected", "fastest tried", "s", "chosen / fastest", "tried")


class Tried(NamedTuple):
    """A way that was run: its bytes where the budget is, and its seconds."""

    levers: str
    size: float
    seconds: float


class Found(NamedTuple):
    """A budget, the call that was chosen for it, the seconds that were expected of it, and all that was tried."""

    budget: int
    chosen: Tried
    expected: float
    others: list[Tried]

    @property
    def best(self) -> Tried:
        """The fastest way that stayed inside the budget."""
        inside = [each for each in (self.chosen, *self.others) if each.size <= self.budget]
        return min(inside or [self.chosen], key=lambda each: each.seconds)


def budgets(case: Case, device: str) -> list[int]:
    """The budgets of a problem, in bytes."""
    if device == "cuda":
        return [size * 10**9 for size in GIGABYTES]
    whole = numbawave.plan(numbawave.scalar, **case.arguments(device)).memory.host_bytes
    return [int(part * whole) for part in PARTS]


def budget_of(size: int, device: str) -> Budget:
    """So many bytes, on the device if there is one."""
    return Budget(device=size, **ROOM) if device == "cuda" else Budget(host=size, disk=ROOM["disk"])


def tried(arguments: dict[str, Any], levers: dict[str, Any], words: str, planned: int) -> Tried:
    """Run a way twice."""
    found = measured(numbawave.scalar, arguments, levers)
    return Tried(words, found.gpu or planned, found.seconds)


def compare(case: Case, device: str, within: float) -> Iterator[Found]:
    """What is found for each budget; a way that several allow is run once."""
    arguments, known = case.arguments(device), dict[str, Tried]()
    place = "device" if device == "cuda" else "host"
    for size in budgets(case, device):
        budget = budget_of(size, device)
        plan = numbawave.plan(numbawave.scalar, **arguments, budget=budget)
        fitting = [each for each in plan.candidates if each.fits]
        expected = plan.seconds.total
        near = [each for each in fitting if each.seconds is None or each.seconds.total <= within * expected]
        for each in near:
            if each.words not in known:
                levers = {name: value for name, value in each.levers.items() if name != "storage_path"}
                known[each.words] = tried(arguments, levers, each.words, each.memory[place])
                print(*known[each.words], flush=True)
        if device == "cuda":
            limit(size)
        chosen = tried(arguments, {"memory": budget}, fitting[0].words, fitting[0].memory[place])
        if device == "cuda":
            limit(torch.cuda.get_device_properties(0).total_memory)
        yield Found(size, chosen, expected, [known[each.words] for each in near])


def table(found: list[Found]) -> str:
    """The Markdown table."""
    lines = [COLUMNS, ("---",) * len(COLUMNS)]
    for each in found:
        chosen, best = each.chosen, each.best
        lines.append((f"{each.budget / 1e9:.3g}", f"{chosen.size / 1e9:.3g}", chosen.levers, f"{chosen.seconds:.3g}",
                      f"{each.expected:.3g}", best.levers, f"{best.seconds:.3g}",
                      f"{chosen.seconds / best.seconds:.2f}", str(len(each.others))))  # fmt: skip
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def main(words: list[str] | None = None) -> None:
    """Compare, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--within", type=float, default=2.0, help="times the expected seconds of the chosen call")
    parser.add_argument("--output", type=Path, help="a file for the table as well")
    options = parser.parse_args(words)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    found: list[Found] = []
    for each in compare(LARGE if device == "cuda" else SMALL, device, options.within):
        found.append(each)
        if options.output:  # whole after every budget: a long run may be stopped
            options.output.write_text(table(found), encoding="utf-8")
    print(table(found))


if __name__ == "__main__":
    main()
