"""What people read of a plan: both arms of cells, all about one cell, tiers, exclusions."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from vllm_parity.jobs import make_jobs
from vllm_parity.matrix import Platform, Selection, select
from vllm_parity.matrix.rules import rules_for

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from vllm_parity.families import Config, Plan
    from vllm_parity.families.plan import ArmPlan
    from vllm_parity.jobs import Job
    from vllm_parity.matrix import Matrix

_NO_VALUE = "(not set)"


def row(plan: Plan, missing: str | None = None) -> str:
    """Return a cell on one line; `missing` is why it cannot run here."""
    cell = plan.cell
    words = f"{cell.id:<74} {cell.model:<26} {'+'.join(plan.contrast):<32} {plan.contract.name}"
    return f"{words}  not_run: {missing}" if missing else words


def both_arms(plan: Plan, missing: str | None = None) -> str:
    """Return a cell's settings: once what both arms have, then what each has for itself."""
    reference, candidate = _settings(plan.reference), _settings(plan.candidate)
    shared = {
        key: value
        for key, value in reference.items()
        if key in candidate and candidate[key] == value
    }
    own = [key for key in reference | candidate if key not in shared]
    lines = [
        plan.cell.id,
        *([f"  not_run    {missing}"] if missing else []),
        f"  model      {plan.cell.model}",
        f"  contrast   {', '.join(plan.contrast)}",
        f"  contract   {plan.contract.name}",
        "  variables",
        *(f"    {name}={value}" for name, value in plan.variables.items()),
        "  both arms",
        *_lines(shared, shared, indent=4),
        "  reference",
        *_lines(reference, own, indent=4),
        "  candidate",
        *_lines(candidate, own, indent=4),
    ]
    return "\n".join(lines)


def _required(plan: Plan, config: Config) -> list[str]:
    """Return what a cell must witness, with the reasons of those that matrix.toml names."""
    rules = rules_for(plan.cell, config.matrix.witnesses)
    named = {requirement for rule in rules for requirement in rule.require}
    usual = [requirement for requirement in plan.require if requirement not in named]
    return [
        f"require    {', '.join(usual)}",
        *(f"           {', '.join(rule.require)}  {rule.why}" for rule in rules),
    ]


def explained(plan: Plan, config: Config, missing: str | None = None) -> str:
    """Return all that is known of a cell before it runs, and why it is so."""
    cell = plan.cell
    contract = ", ".join(f"{key}={value}" for key, value in plan.contract.as_fields().items())
    lines = [
        f"cell       {cell.id}",
        *([f"not_run    {missing}"] if missing else []),
        f"family     {config.matrix.families[cell.family].summary}",
        f"tier       {cell.tier}",
        f"session    {cell.session}",
        f"contrast   {', '.join(plan.contrast)}",
        f"contract   {contract}",
        f"           {plan.contract.why}",
        *([f"ungated    {cell.ungated}"] if cell.ungated else []),
        f"requests   {len(plan.requests)}: {', '.join(one.id for one in plan.requests)}",
        *_required(plan, config),
        *([f"follows    {', '.join(plan.follows)}"] if plan.follows else []),
        f"timeout    {cell.timeout_s:g} s",
        "variables",
        *(f"  {name}={value}  {plan.reasons[name]}" for name, value in plan.variables.items()),
    ]
    for name, arm in (("reference", plan.reference), ("candidate", plan.candidate)):
        settings = _settings(arm)
        lines += [name, *_lines(settings, settings, indent=2)]
    if plan.nudge:
        lines.append(f"nudge      {asdict(plan.nudge)}")
    return "\n".join(lines)


def _settings(arm: ArmPlan) -> dict[str, Any]:
    return arm.engine | arm.run


def _lines(settings: Mapping[str, Any], keys: Iterable[str], *, indent: int) -> Iterator[str]:
    for key in keys:
        value = json.dumps(settings[key]) if key in settings else _NO_VALUE
        yield f"{' ' * indent}{key} = {value}"


def tiers(config: Config) -> str:
    """Return each tier's purpose, and what it is stated and estimated to take where."""
    lines = []
    for tier, settings in config.matrix.tiers.items():
        lines.append(f"{tier:<8} {settings.purpose}")
        for platform, stated in settings.minutes.items():
            cells = select(config.matrix, Selection(tier=tier, platform=platform))
            jobs = make_jobs(cells, config)
            lines.append(
                f"  {platform:<6} {len(cells):>3} cells in {len(jobs):>2} sessions:"
                f" {run_minutes(jobs):>3} minutes estimated, {stated:>3} stated"
            )
    install = ", ".join(
        f"{platform} {config.platforms[platform].ci.install_minutes}"
        for platform in Platform
        if platform in config.platforms
    )
    return "\n".join([*lines, f"The first installation comes on top, in minutes: {install}."])


def run_minutes(jobs: Sequence[Job]) -> int:
    """Return what jobs are estimated to take one after another, without the installation."""
    return math.ceil(sum(job.seconds for job in jobs) / 60)


def exclusions(matrix: Matrix) -> str:
    """Return how many combinations are no cells, and why."""
    return "\n".join(f"{one.count:>4}  {one.when}\n      {one.why}" for one in matrix.exclusions)
