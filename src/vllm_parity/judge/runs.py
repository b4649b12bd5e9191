"""``vllm-parity compare A B``: two runs of the same cells, on two machines or of two versions."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from vllm_parity.errors import FormatError
from vllm_parity.judge.arms import compare_arms
from vllm_parity.judge.command import expand
from vllm_parity.judge.findings import DIVERGED
from vllm_parity.judge.layout import row
from vllm_parity.judge.pairing import differing
from vllm_parity.judge.verdicts import judge
from vllm_parity.observation import Contract, Kind, Observation, load_observation

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

BITWISE = Contract(kind=Kind.BITWISE)
ARMS = ("reference", "candidate")


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """What became of one cell between two runs."""

    cell: str
    verdicts: tuple[str | None, str | None]
    """None where the cell is not in that run."""
    arms: dict[str, str] = field(default_factory=dict)
    """For each arm `bitwise`, how it differs, or why that cannot be told."""
    knobs: list[str] = field(default_factory=list)

    @property
    def same(self) -> bool:
        """Whether nothing changed at all."""
        left, right = self.verdicts
        return left == right and set(self.arms.values()) <= {"bitwise"} and not self.knobs

    def as_dict(self) -> dict[str, Any]:
        """Return what `compare --json` prints for this cell."""
        return {
            "cell": self.cell,
            "verdicts": list(self.verdicts),
            "arms": self.arms,
            "knobs": self.knobs,
            "same": self.same,
        }


def add_compare_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `vllm-parity compare`."""
    parser.description = (
        "Compare two runs cell by cell: which verdicts changed, and whether each arm gives the "
        "same bits in both. The exit code is 0 where nothing changed, 1 where something did."
    )
    parser.add_argument("first", metavar="A", help="an observation file or a folder of them")
    parser.add_argument("second", metavar="B", help="the same cells, run elsewhere or later")
    parser.add_argument("--json", action="store_true", help="print one JSON object, nothing else")
    parser.set_defaults(run=run_compare)


def run_compare(args: argparse.Namespace) -> int:
    """Run `vllm-parity compare` and return its exit code."""
    first, second = _load(args.first), _load(args.second)
    environment = compare_environments(first.values(), second.values())
    changes = [
        compare_cells(cell, first.get(cell), second.get(cell)) for cell in sorted({*first, *second})
    ]
    if args.json:
        document = {
            "environment": environment,
            "cells": [change.as_dict() for change in changes],
        }
        text = msgspec.json.format(msgspec.json.encode(document)).decode()
    else:
        text = "\n".join([*_environment_lines(environment), *_cell_lines(changes)])
    sys.stdout.write(f"{text}\n")
    return 0 if all(change.same for change in changes) else 1


def _load(name: str) -> dict[str, Observation]:
    cells: dict[str, Observation] = {}
    for file in expand([name]):
        observation = load_observation(file)
        if observation.cell in cells:
            msg = f"{file}: expected each cell once in {name}, got {observation.cell} again"
            raise FormatError(msg)
        cells[observation.cell] = observation
    return cells


def compare_environments(
    first: Iterable[Observation], second: Iterable[Observation]
) -> dict[str, list[str]]:
    """Return the environment values that differ, each as text for both runs."""
    runs = [_environment(run) for run in (first, second)]
    names = sorted({*runs[0], *runs[1]})
    values = {name: [run.get(name, "not recorded") for run in runs] for name in names}
    return {name: pair for name, pair in values.items() if pair[0] != pair[1]}


def _environment(run: Iterable[Observation]) -> dict[str, str]:
    """Return the values of a run; where its cells do not agree, all of them."""
    values: dict[str, dict[str, None]] = {}
    for observation in run:
        for name, value in observation.environment.items():
            values.setdefault(name, {})[value] = None
    return {name: " | ".join(sorted(found)) for name, found in values.items()}


def compare_cells(cell: str, a: Observation | None, b: Observation | None) -> Change:
    """Compare one cell of two runs."""
    verdicts = (
        None if a is None else str(judge(a).verdict),
        None if b is None else str(judge(b).verdict),
    )
    if a is None or b is None:
        return Change(cell=cell, verdicts=verdicts)
    arms, knobs = {}, []
    for name in ARMS:
        arms[name] = _compare_arm(name, a, b)
        left, right = getattr(a.arms, name), getattr(b.arms, name)
        if left is not None and right is not None:
            knobs += [f"{name}.{knob}" for knob in differing(left.knobs, right.knobs)]
    return Change(cell=cell, verdicts=verdicts, arms=arms, knobs=knobs)


def _compare_arm(name: str, a: Observation, b: Observation) -> str:
    """Say whether an arm gives the same bits in both runs."""
    left, right = getattr(a.arms, name), getattr(b.arms, name)
    if left is None and right is None:
        return "in neither run"
    if left is None or right is None:
        return f"not in the {'first' if left is None else 'second'} run"
    if a.family is not b.family:
        return "of another family"
    strict = msgspec.structs.replace(a, contract=BITWISE)
    tally = compare_arms(strict, left, right, streamed=(name == "candidate",) * 2)
    found = tally.found()
    if not found:
        return "bitwise"
    wrong = [reason for reason in found if reason.code in DIVERGED]
    codes = ", ".join(dict.fromkeys(str(reason.code) for reason in wrong or found))
    apart = f", by at most {tally.worst.abs:.6g}" if tally.worst is not None else ""
    return f"differs ({codes}{apart})" if wrong else f"cannot tell ({codes})"


def _environment_lines(environment: dict[str, list[str]]) -> list[str]:
    if not environment:
        return ["The environments are the same."]
    lines = ["The environments differ:"]
    for name, (left, right) in environment.items():
        lines.append(row(f"  {name}", f"{left}  ->  {right}"))
    return lines


def _cell_lines(changes: list[Change]) -> list[str]:
    lines = []
    for change in changes:
        if change.same:
            continue
        left, right = (verdict or "not there" for verdict in change.verdicts)
        moved = left if left == right else f"{left}  ->  {right}"
        lines.append(f"{change.cell}: {moved}")
        lines += [row(f"  {arm}", text) for arm, text in change.arms.items()]
        if change.knobs:
            lines.append(row("  knobs differ", ", ".join(change.knobs)))
    same = sum(change.same for change in changes)
    lines.append(f"{same} of {len(changes)} cells are the same to the bit.")
    return lines
