"""From what an engine returned to the arms of an observation."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vllm_parity.observation import Arm, Arms, Output, Request

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vllm_parity.engine.offline import Generated, OfflineEngine
    from vllm_parity.engine.server import Server
    from vllm_parity.families.plan import ArmPlan, Plan

_PROMPT_TAIL = 60


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The arms of a cell, and the environment in which they ran."""

    arms: Arms
    environment: dict[str, str]


def offline_arm(plan: Plan, side: ArmPlan, engine: OfflineEngine, generated: Generated) -> Arm:
    """Return an arm of an offline engine."""
    requests = [
        Request(
            id=request.id,
            expect_tokens=request.expect_tokens,
            prompt_tokens=output["prompt_tokens"],
            prompt_tail=request.prompt[-_PROMPT_TAIL:] if isinstance(request.prompt, str) else None,
            outputs=[_output(one) for one in output["outputs"]],
        )
        for request, output in zip(plan.requests, generated.outputs, strict=True)
    ]
    return Arm(
        knobs=arm_knobs(side, engine),
        witness={**engine.witness, **generated.witness},
        requests=requests,
    )


def arm_knobs(side: ArmPlan, engine: OfflineEngine | Server) -> dict[str, Any]:
    """Return an arm's effective settings: the engine's own word, and how requests were sent."""
    return {"model": side.engine["model"], **engine.knobs, **side.run}


@contextmanager
def nudged(engine: OfflineEngine | Server, plan: Plan) -> Iterator[None]:
    """Have one weight nudged, where the plan is a negative control's."""
    nudge = plan.nudge
    if nudge is None:
        yield
        return
    moved = engine.set_weight(nudge.parameter, nudge.index, delta=nudge.delta)
    try:
        yield
    finally:
        engine.set_weight(nudge.parameter, nudge.index, value=moved["before"])


def _output(one: dict[str, Any]) -> Output:
    rows = one["logprobs"]
    return Output(
        index=one["index"],
        token_ids=one["token_ids"],
        text=one["text"],
        finish_reason=one["finish_reason"],
        logprobs=rows and [{int(token): value for token, value in row.items()} for row in rows],
    )
