"""One screen that ends the argument."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vllm_parity.judge.findings import Judgement
    from vllm_parity.schema import Observation


def explain(observation: Observation, judgement: Judgement, *, command: str | None = None) -> str:
    """Return a text of at most one screen that says why the verdict is what it is."""
    lines = [f"{observation.cell}: {judgement.verdict}"]
    lines += [f"  {reason.code}: {reason.message}" for reason in judgement.reasons[:20]]
    if command:
        lines.append(f"  reproduce: {command}")
    return "\n".join(lines)
