"""The judge: pure code that reads observations and gives verdicts.

No clock, no network, no vLLM: the same observation gets the same verdict on any machine.
"""

from __future__ import annotations

from vllm_parity.judge.explain import explain
from vllm_parity.judge.findings import Code, Compared, Judgement, Reason, Worst
from vllm_parity.judge.verdicts import judge

__all__ = ["Code", "Compared", "Judgement", "Reason", "Worst", "explain", "judge"]
