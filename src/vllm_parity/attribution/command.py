"""``vllm-parity attribute``: name the cause of a divergence."""

from __future__ import annotations

import glob
import json
import math
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from vllm_parity.attribution.grid import name_cause
from vllm_parity.attribution.points import load_points
from vllm_parity.attribution.progress import Progress, chosen, plan_of_search
from vllm_parity.attribution.search import OutOfBudgetError
from vllm_parity.attribution.suspects import load_suspects, suspects_of
from vllm_parity.errors import ConfigError
from vllm_parity.judge.command import expand
from vllm_parity.observation import write_whole

if TYPE_CHECKING:
    import argparse


def add_attribute_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `vllm-parity attribute`."""
    from vllm_parity.target import add_target_options  # noqa: PLC0415 - as below

    parser.description = (
        "Name the cause of a divergence: of a CELL, by a search on real vLLM, or from FILEs, "
        "observations of one cell under different settings. The exit code is 0 where an answer is "
        "given, be it that the cause cannot be told; 2 for wrong input, 4 for missing hardware."
    )
    parser.add_argument(
        "targets",
        nargs="+",
        metavar="CELL | FILE",
        help="a cell's id, or how it begins; or observation files, globs, folders",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object, nothing else")
    parser.add_argument(
        "--budget", type=float, metavar="MINUTES", help="begin no probe that would end after this"
    )
    parser.add_argument(
        "--suspect",
        action="append",
        default=[],
        metavar="NAME",
        help="suspect this one alone; may be given several times",
    )
    parser.add_argument(
        "--suspects", type=Path, metavar="FILE", help="a suspects.toml other than the project's own"
    )
    parser.add_argument(
        "--plan", action="store_true", help="show the suspects and the estimated time, run nothing"
    )
    add_target_options(parser)


def run_attribute(args: argparse.Namespace) -> int:
    """Run `vllm-parity attribute` and return its exit code."""
    if any(_is_file(target) for target in args.targets):
        suspects = load_suspects(args.suspects)
        moves = dict.fromkeys(one.moves for one in suspects)
        answer = name_cause(load_points(expand(args.targets), moves))
        if args.json:
            _write(json.dumps(answer.as_dict(), indent=2))
        else:
            culprits = "; ".join(" and ".join(knobs) for knobs in answer.culprits)
            _write(f"{answer.kind}{': ' if culprits else ''}{culprits}\n{answer.evidence}")
            if answer.next:
                _write("run next: " + ", ".join(f"{k}={v}" for k, v in answer.next.items()))
        return 0
    if len(args.targets) > 1:
        msg = f"expected one cell, or files, and got {' '.join(args.targets)}"
        raise ConfigError(msg)
    return _search(args)


def _is_file(target: str) -> bool:
    return (
        target == "-" or target.endswith(".json") or glob.has_magic(target) or Path(target).exists()
    )


def _search(args: argparse.Namespace) -> int:
    """Search for the cause of a cell's divergence on real vLLM."""
    # What a search needs is imported for it alone: from files a cause is named in a moment.
    from vllm_parity.attribution.live import Bench, LiveLab, ask  # noqa: PLC0415
    from vllm_parity.attribution.note import Note  # noqa: PLC0415
    from vllm_parity.attribution.search import CONTROLS, Search  # noqa: PLC0415
    from vllm_parity.results import Results  # noqa: PLC0415
    from vllm_parity.target import open_target  # noqa: PLC0415

    began = time.monotonic()
    target = open_target(args, args.targets[0])
    cell = target.plan.cell
    suspects = chosen(suspects_of(cell, load_suspects(args.suspects)), args.suspect)
    out = sys.stderr if args.json else sys.stdout
    out.write(plan_of_search(target.plan, suspects, target.config))
    if args.plan:
        return 0
    results = Results(args.results / "attribute", run_id=cell.id)
    bench = Bench(
        target=target,
        results=results,
        deadline=math.inf if args.budget is None else began + 60 * args.budget,
        tell=Progress(out),
    )
    try:
        question = ask(bench, suspects)
        lab = LiveLab(bench, question, controls=CONTROLS)
        finding = Search(suspects=[one.name for one in question.suspects], lab=lab).find()
    except OutOfBudgetError:
        msg = f"--budget {args.budget:g}: the cell itself does not run in this time; give it more"
        raise ConfigError(msg) from None
    finally:
        bench.engines.close()
    note = Note(
        question=question, finding=finding, settings=lab.settings, folder=str(results.folder)
    )
    text = note.text()
    write_whole(results.folder / "note.txt", text.encode())
    out.write("\n\n")
    _write(json.dumps(note.as_dict(), indent=2) if args.json else text)
    return 0


def _write(text: str) -> None:
    sys.stdout.write(f"{text}\n")
