"""Running one cell: plan, arms, observation."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vllm_parity.errors import EngineError, StartError
from vllm_parity.errors import Failure as Kind
from vllm_parity.families import run_arms
from vllm_parity.families.arms import Outcome
from vllm_parity.observation import Arms, Contract, Failure, Observation, Platform

if TYPE_CHECKING:
    from vllm_parity.engine.pool import Pool
    from vllm_parity.families import Config, Plan
    from vllm_parity.matrix import Cell


@dataclass(frozen=True, kw_only=True)
class Run:
    """One cell's observation, and how long it took in seconds.

    `not_started` says that an engine or server did not start, which is worth another attempt.
    """

    observation: Observation
    seconds: float
    not_started: bool = False


def observe(plan: Plan, pool: Pool, *, project: dict[str, str]) -> Run:
    """Run a planned cell. An engine that fails makes an observation with an error, no exception.

    Args:
        plan: what to run.
        pool: where engines come from, and stay warm.
        project: what to add to the environment: versions of this project itself.

    """
    started = time.monotonic()
    not_started = False
    try:
        outcome = run_arms(plan, pool, deadline=started + plan.cell.timeout_s)
        failure = None
    except EngineError as error:
        outcome = Outcome(arms=Arms(), environment={})
        failure = Failure(arm=None, kind=error.kind, message=str(error))
        not_started = isinstance(error, StartError)
    return Run(
        observation=_observation(plan, outcome, failure, project),
        seconds=time.monotonic() - started,
        not_started=not_started,
    )


def lost(plan: Plan, reason: str, *, project: dict[str, str]) -> Observation:
    """Return the record of a cell whose process ended before it had written one."""
    failure = Failure(arm=None, kind=Kind.DIED, message=reason)
    return _observation(plan, Outcome(arms=Arms(), environment={}), failure, project)


def not_run(cell: Cell, config: Config, reason: str, *, project: dict[str, str]) -> Run:
    """Return the record of a cell that was planned and cannot run here."""
    contract = config.contracts.of(cell)
    observation = Observation(
        cell=cell.id,
        family=cell.family,
        platform=Platform(cell.platform),
        contrast=[cell.contrast.value],
        contract=Contract(**contract.as_fields()),
        environment=project,
        arms=Arms(),
        not_run=reason,
    )
    return Run(observation=observation, seconds=0.0)


def _observation(
    plan: Plan, outcome: Outcome, failure: Failure | None, project: dict[str, str]
) -> Observation:
    cell = plan.cell
    return Observation(
        cell=cell.id,
        family=cell.family,
        platform=Platform(cell.platform),
        contrast=list(plan.contrast),
        follows=list(plan.follows),
        contract=Contract(**plan.contract.as_fields()),
        require=list(plan.require),
        environment={**outcome.environment, **project},
        arms=outcome.arms,
        error=failure,
        recorded_at=_now(),
    )


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
