"""The judge: pure code that reads observations and gives verdicts.

No clock, no network, no vLLM: the same observation gets the same verdict on any machine.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING

from vllm_parity.judge.explain import explain
from vllm_parity.judge.findings import Code, Compared, Judgement, Reason, Worst
from vllm_parity.judge.verdicts import judge

if TYPE_CHECKING:
    from vllm_parity.schema import Observation

__all__ = ["Code", "Compared", "Judgement", "Reason", "Worst", "explain", "judge"]


class _CallableModule(ModuleType):
    """A module that is also the function it is named after.

    `from vllm_parity import judge` finds this package, whatever else was imported before, so what
    it finds must work as the function does.
    """

    def __call__(self, observation: Observation) -> Judgement:
        """Judge one cell."""
        return judge(observation)


sys.modules[__name__].__class__ = _CallableModule
