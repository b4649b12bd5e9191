"""Streaming: a chat completion says the same in one piece and in many.

With the prefix cache on, a first request fills it, so that both arms meet it warm: a cold
reference against a warm candidate would differ in two things. A cell that starts cold has just
that, as a user's first two requests do: its control, plain and warm, tells the two apart.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from vllm_parity.engine.server import MODEL_NAME
from vllm_parity.engine.stats import traced
from vllm_parity.families import workload
from vllm_parity.families.arms import Outcome, arm_knobs, nudged
from vllm_parity.families.plan import (
    ArmPlan,
    Plan,
    engine_settings,
    make,
    meets_caches_warm,
)
from vllm_parity.matrix import CacheStart, Transport
from vllm_parity.observation import Arm, Arms, Request
from vllm_parity.schema import unpacked

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vllm_parity.engine.pool import Pool
    from vllm_parity.engine.request import ChatRequest
    from vllm_parity.engine.server import Server
    from vllm_parity.families.plan import Config
    from vllm_parity.matrix import Cell


def plan(cell: Cell, config: Config) -> Plan:
    """Return the plan of a cell."""
    settings = engine_settings(cell, config)
    require = ["chunks>=2"]
    requests = workload.chats(cell, config)
    if cell.transport is Transport.TOOLS:
        require += [f"{arm}tool_calls>={len(requests)}" for arm in ("", "reference.")]
    return make(
        cell,
        config,
        ArmPlan(engine=settings, run={"stream": False}),
        ArmPlan(engine=settings, run={"stream": True}),
        requests=requests,
        require=require,
    )


def run(plan: Plan, pool: Pool, *, deadline: float) -> Outcome:
    """Send each request plain, streamed, and plain once more, to one server."""
    server = pool.server(plan.variables, plan.reference.engine)
    # Its boot is no part of the cell's time: it serves many.
    server.deadline = time.monotonic() + plan.cell.timeout_s
    pool.stage("asking")
    if plan.cell.cache_start is CacheStart.COLD:
        server.reset_prefix_cache()
    elif meets_caches_warm(plan.cell):
        for request in plan.requests:
            server.chat(_body(request))
    server.steps()
    reference, control = (
        _arm(
            plan.reference,
            server,
            [_plain(request, server.chat(_body(request))) for request in plan.requests],
        )
        for _ in range(2)
    )
    pool.stage("streaming")
    with nudged(server, plan):
        streamed = [_streamed(request, server) for request in plan.requests]
        candidate = _arm(plan.candidate, server, streamed)
    arms = Arms(reference=reference, candidate=candidate, control=control)
    return Outcome(arms=arms, environment=server.environment)


def _body(request: ChatRequest) -> dict[str, Any]:
    return {
        "model": MODEL_NAME,
        "messages": request.messages,
        "return_token_ids": True,
        **request.sampling,
    }


def _plain(request: ChatRequest, response: dict[str, Any]) -> Request:
    return Request(
        id=request.id,
        expect_tokens=request.expect_tokens,
        prompt_tokens=(response.get("usage") or {}).get("prompt_tokens"),
        response=response,
    )


def _streamed(request: ChatRequest, server: Server) -> Request:
    body = _body(request) | {"stream_options": {"include_usage": True}}
    events, done, after_done = server.chat_stream(body)
    return Request(
        id=request.id,
        expect_tokens=request.expect_tokens,
        prompt_tokens=_usage(events).get("prompt_tokens"),
        events=events,
        done=done,
        after_done=after_done,
    )


def _arm(side: ArmPlan, server: Server, requests: list[Request]) -> Arm:
    """Return an arm whose requests were the last that the server has answered."""
    answers = [unpacked(one.events) or [unpacked(one.response)] for one in requests]
    witness: dict[str, Any] = {
        **server.witness,
        **traced(server.steps()),
        "tool_calls": sum(map(_tool_calls, answers)),
    }
    if side.run["stream"]:
        witness["chunks"] = min(map(_chunks, answers), default=0)
    return Arm(knobs=arm_knobs(side, server), witness=witness, requests=requests)


def _usage(events: Iterable[Any]) -> dict[str, Any]:
    found = [event["usage"] for event in events if isinstance(event, dict) and event.get("usage")]
    return found[-1] if found else {}


def _chunks(events: Iterable[Any]) -> int:
    """Count the events that carry tokens: an answer in one such event was not streamed."""
    return sum(
        isinstance(event, dict)
        and any(choice.get("token_ids") for choice in event.get("choices") or [])
        for event in events
    )


def _tool_calls(events: Iterable[Any]) -> int:
    """Count the tool calls of an answer: one that came in pieces has one index in all of them."""
    calls = {
        (choice.get("index"), call.get("index", place))
        for event in events
        if isinstance(event, dict)
        for choice in event.get("choices") or []
        for place, call in enumerate(
            (choice.get("message") or choice.get("delta") or {}).get("tool_calls") or []
        )
    }
    return len(calls)
