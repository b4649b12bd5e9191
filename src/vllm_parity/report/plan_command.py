"""``vllm-parity plan``: what would run, without running it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from vllm_parity.errors import ConfigError
from vllm_parity.families import load_config, make_plan
from vllm_parity.gate import Gate
from vllm_parity.hardware import load_machine
from vllm_parity.jobs import check_sessions, make_jobs, options_of
from vllm_parity.matrix import Models, Platform, Selection, select
from vllm_parity.matrix.options import add_selection_options, read_axis, read_selection
from vllm_parity.report import ci, plan

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from vllm_parity.families import Config
    from vllm_parity.matrix import Cell


def add_plan_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``vllm-parity plan``."""
    add_selection_options(parser.add_argument)
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--list", action="store_true", help="one line a cell")
    form.add_argument(
        "--explain", metavar="CELL", help="all about one cell: settings, variables and why"
    )
    form.add_argument("--tiers", action="store_true", help="what the tiers are for, and take")
    form.add_argument("--excluded", action="store_true", help="what is no cell, and why")
    form.add_argument(
        "--format",
        choices=("text", "json", "github", "buildkite"),
        default="text",
        help="text: both arms of each cell; else the jobs that run the cells: all of them in JSON,"
        " a matrix for GitHub, or a pipeline for Buildkite",
    )
    parser.add_argument(
        "--sessions",
        metavar="FILE",
        help="check the jobs against this list of `nox -l --json -t TIER`; - is standard input",
    )
    parser.add_argument("--vllm", metavar="WHICH", help="the vLLM that Buildkite's jobs install")


def run_plan(args: argparse.Namespace) -> int:
    """Run ``vllm-parity plan``."""
    config = load_config(args.matrix, read_axis("--models", args.models, Models))
    wanted = read_selection(args)
    if args.sessions and args.format == "text":
        msg = "--sessions is for jobs: give --format github, buildkite or json as well"
        raise ConfigError(msg)
    if args.tiers:
        _say(plan.tiers(config))
    elif args.excluded:
        _say(plan.exclusions(config.matrix))
    elif args.explain:
        (cell, *_) = select(config.matrix, Selection(cells=(args.explain,)))
        missing = _missing(args.machine, config, [cell])
        _say(plan.explained(make_plan(cell, config), config, missing.get(cell)))
    elif args.format == "text":
        cells = select(config.matrix, wanted)
        missing = _missing(args.machine, config, cells)
        for number, cell in enumerate(cells):
            if args.list:
                _say(plan.row(make_plan(cell, config), missing.get(cell)))
            else:
                text = plan.both_arms(make_plan(cell, config), missing.get(cell))
                _say(f"\n{text}" if number else text)
    else:
        _say(_jobs(args, config, wanted))
    return 0


def _missing(record: Path | None, config: Config, cells: Sequence[Cell]) -> dict[Cell, str]:
    """Return the cells that a machine cannot run; nothing where none is given."""
    if record is None:
        return {}
    machine = load_machine(record)
    return (
        Gate(matrix=config.matrix, platforms=config.platforms, machine=machine).sort(cells).missing
    )


def _jobs(args: argparse.Namespace, config: Config, wanted: Selection) -> str:
    jobs = make_jobs(select(config.matrix, wanted), config)
    if args.sessions:
        check_sessions(jobs, _read(args.sessions), wanted, where=f"--sessions {args.sessions}")
    if args.format == "github":
        return ci.github(jobs, wanted.tier)
    if args.format == "json":
        return ci.as_json(jobs, wanted.tier)
    light = config.platforms.get(Platform.CPU, jobs[0].settings)
    return ci.buildkite(
        jobs,
        [*options_of(wanted), "--models", args.models],
        passed=["--vllm", args.vllm] if args.vllm else [],
        queue=light.ci.queue,
    )


def _read(name: str) -> str:
    if name == "-":
        return sys.stdin.read()
    try:
        return Path(name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        msg = f"--sessions {name}: cannot be read: {error}"
        raise ConfigError(msg) from None


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
