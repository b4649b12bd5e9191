"""The three families: for each, how a cell is planned and how its two arms are run.

A module has `plan(cell, config) -> Plan` and `run(plan, pool, deadline) -> Arms`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from vllm_parity.families import batch_invariance, spec_decode, streaming
from vllm_parity.families.config import load_config
from vllm_parity.families.plan import Config, Plan
from vllm_parity.matrix import Family

if TYPE_CHECKING:
    from vllm_parity.engine.pool import Pool
    from vllm_parity.families.arms import Outcome
    from vllm_parity.matrix import Cell

__all__ = ["Config", "Plan", "load_config", "make_plan", "run_arms"]


class _Module(Protocol):
    def plan(self, cell: Cell, config: Config) -> Plan: ...

    def run(self, plan: Plan, pool: Pool, *, deadline: float) -> Outcome: ...


_MODULES: dict[Family, _Module] = {
    Family.BATCH_INVARIANCE: batch_invariance,
    Family.SPEC_DECODE: spec_decode,
    Family.STREAMING: streaming,
}


def make_plan(cell: Cell, config: Config) -> Plan:
    """Return the plan of a cell."""
    return _MODULES[cell.family].plan(cell, config)


def run_arms(plan: Plan, pool: Pool, *, deadline: float) -> Outcome:
    """Run both arms and the control.

    Raises:
        EngineError: where an engine or server does not start, dies or takes too long.

    """
    return _MODULES[plan.cell.family].run(plan, pool, deadline=deadline)
