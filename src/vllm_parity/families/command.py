"""``vllm-parity plan``: what would run, without running it."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from vllm_parity.families import load_config, make_plan
from vllm_parity.matrix import Family, Platform, Selection, Tier, select

if TYPE_CHECKING:
    import argparse

    from vllm_parity.families.plan import ArmPlan, Config, Plan
    from vllm_parity.matrix import Cell


def add_plan_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``vllm-parity plan``."""
    parser.add_argument("--tier", type=Tier, choices=list(Tier))
    parser.add_argument("--platform", type=Platform, choices=list(Platform))
    parser.add_argument("--family", type=Family, choices=list(Family))
    parser.add_argument("--cell", action="append", default=[], metavar="PATTERN")
    parser.add_argument("--matrix", type=Path, help="a matrix.toml other than the project's own")
    parser.add_argument(
        "--explain", metavar="CELL", help="show both arms of one cell: settings, variables and why"
    )


def run_plan(args: argparse.Namespace) -> int:
    """Run ``vllm-parity plan``."""
    config = load_config(args.matrix)
    if args.explain:
        (cell, *_) = select(config.matrix, Selection(cells=(args.explain,)))
        _say(_explain(make_plan(cell, config), config))
        return 0
    wanted = Selection(
        tier=args.tier, platform=args.platform, family=args.family, cells=tuple(args.cell)
    )
    for cell in select(config.matrix, wanted):
        _say(_row(cell, make_plan(cell, config)))
    return 0


def _row(cell: Cell, plan: Plan) -> str:
    return f"{cell.id:<62} {cell.model:<18} {'+'.join(plan.contrast):<32} {plan.contract.name}"


def _explain(plan: Plan, config: Config) -> str:
    platform = config.platforms[plan.cell.platform]
    known = platform.variables | platform.host_variables | platform.server_variables
    contract = ", ".join(f"{key}={value}" for key, value in plan.contract.as_fields().items())
    lines = [
        f"cell       {plan.cell.id}",
        f"family     {config.matrix.families[plan.cell.family].summary}",
        f"contrast   {', '.join(plan.contrast)}",
        f"contract   {contract}",
        f"           {plan.contract.why}",
        f"requests   {len(plan.requests)}: {', '.join(one.id for one in plan.requests)}",
        f"require    {', '.join(plan.require)}",
        "variables",
        *(f"  {name}={value}  {known[name].why}" for name, value in plan.variables.items()),
    ]
    for name, arm in (("reference", plan.reference), ("candidate", plan.candidate)):
        lines += [name, *_arm_lines(arm)]
    if plan.nudge:
        lines.append(f"nudge      {asdict(plan.nudge)}")
    return "\n".join(lines)


def _arm_lines(arm: ArmPlan) -> list[str]:
    return [f"  {key} = {json.dumps(value)}" for key, value in (arm.engine | arm.run).items()]


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
