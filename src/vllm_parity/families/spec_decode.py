"""Speculative decoding: drafting tokens may change the speed, never the numbers.

Both arms have the same settings, scheduling included, but for `speculative_config`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vllm_parity.families import workload
from vllm_parity.families.arms import Outcome, nudged, offline_arm
from vllm_parity.families.plan import (
    ArmPlan,
    Plan,
    draft_of,
    make,
    meets_caches_warm,
    offline_settings,
)
from vllm_parity.matrix import CacheStart, Method
from vllm_parity.observation import Arms

if TYPE_CHECKING:
    from vllm_parity.engine.offline import Generated, OfflineEngine
    from vllm_parity.engine.pool import Pool
    from vllm_parity.families.plan import Config
    from vllm_parity.matrix import Cell


def plan(cell: Cell, config: Config) -> Plan:
    """Return the plan of a cell."""
    settings = offline_settings(cell, config) | {"logprobs_mode": str(cell.logprobs_mode)}
    speculative = dict(config.matrix.families[cell.family].methods[str(cell.method)])
    if cell.method is not Method.NGRAM:
        speculative["model"] = draft_of(cell, config)
    return make(
        cell,
        config,
        ArmPlan(engine=settings, run={}),
        ArmPlan(engine={**settings, "speculative_config": speculative}, run={}),
        requests=workload.requests(cell, config),
        require=[
            "spec_draft_tokens",
            "spec_accepted_tokens",
            # A draft that is never wrong would leave the rejection of tokens untested.
            "spec_rejected_tokens",
            "reference.spec_draft_tokens<=0",
        ],
    )


def run(plan: Plan, pool: Pool, *, deadline: float) -> Outcome:
    """Run the reference and its control on one engine, the candidate on another."""
    base = pool.engine(plan.variables, plan.reference.engine, deadline=deadline)
    pool.stage("generating")
    reference, control = (_generate(plan, base) for _ in range(2))
    arms = {
        "reference": offline_arm(plan, plan.reference, base, reference),
        "control": offline_arm(plan, plan.reference, base, control),
    }
    drafting = pool.engine(plan.variables, plan.candidate.engine, deadline=deadline)
    pool.stage("generating with drafts")
    with nudged(drafting, plan):
        candidate = _generate(plan, drafting)
    arms["candidate"] = offline_arm(plan, plan.candidate, drafting, candidate)
    return Outcome(arms=Arms(**arms), environment=base.environment)


def _generate(plan: Plan, engine: OfflineEngine) -> Generated:
    """Run all requests, with the engine's cache filled or emptied before where the cell has one."""
    if plan.cell.cache_start is CacheStart.COLD:
        engine.reset_prefix_cache()
    elif meets_caches_warm(plan.cell):
        engine.generate(plan.requests, together=True)
    return engine.generate(plan.requests, together=True)
