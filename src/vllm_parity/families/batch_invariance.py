"""Batch invariance: a request's numbers must not depend on what else is in the batch.

Two contrasts. `batch_size`: each request alone, against all in one batch. `prefix_cache_state`:
each request alone with an empty prefix cache, against the same with its prefix cached.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vllm_parity.engine.offline import joined
from vllm_parity.families import workload
from vllm_parity.families.arms import Outcome, nudged, offline_arm
from vllm_parity.families.plan import ArmPlan, Plan, make, meets_caches_warm, offline_settings
from vllm_parity.matrix import Contrast
from vllm_parity.observation import Arms

if TYPE_CHECKING:
    from vllm_parity.engine.offline import Generated, OfflineEngine
    from vllm_parity.engine.pool import Pool
    from vllm_parity.engine.request import Request
    from vllm_parity.families.plan import Config
    from vllm_parity.matrix import Cell


def plan(cell: Cell, config: Config) -> Plan:
    """Return the plan of a cell."""
    settings = offline_settings(cell, config)
    warm = cell.contrast is Contrast.PREFIX_CACHE_STATE
    requests = workload.requests(cell, config)
    if warm:
        values: tuple[Any, Any] = ("cold", "warm")
        require = ["prefix_cache_hits", "reference.prefix_cache_hits<=0"]
    else:
        values = (1, len(requests))
        require = [
            f"max_running_requests>={len(requests)}",
            "reference.max_running_requests<=1",
        ]
    reference, candidate = (
        ArmPlan(engine=settings, run={cell.contrast.value: value}) for value in values
    )
    return make(cell, config, reference, candidate, requests=requests, require=require)


def run(plan: Plan, pool: Pool, *, deadline: float) -> Outcome:
    """Run both arms and the control on one engine."""
    engine = pool.engine(plan.variables, plan.reference.engine, deadline=deadline)
    pool.stage("generating")
    if plan.cell.contrast is Contrast.PREFIX_CACHE_STATE:
        reference, control = (_one_by_one(engine, plan.requests) for _ in range(2))
        with nudged(engine, plan):
            candidate = _one_by_one(engine, plan.requests, warm=True)
    else:
        if meets_caches_warm(plan.cell):
            engine.generate(plan.requests, together=True)
        reference, control = (engine.generate(plan.requests, together=False) for _ in range(2))
        with nudged(engine, plan):
            candidate = engine.generate(plan.requests, together=True)
    arms = Arms(
        reference=offline_arm(plan, plan.reference, engine, reference),
        candidate=offline_arm(plan, plan.candidate, engine, candidate),
        control=offline_arm(plan, plan.reference, engine, control),
    )
    return Outcome(arms=arms, environment=engine.environment)


def _one_by_one(
    engine: OfflineEngine, requests: tuple[Request, ...], *, warm: bool = False
) -> Generated:
    """Run each request alone, its prefix uncached, or cached by a run that does not count."""
    parts = []
    for request in requests:
        engine.reset_prefix_cache()
        if warm:
            engine.generate([request], together=True)
        parts.append(engine.generate([request], together=True))
    return joined(parts)
