"""How the arms of each family are run: in which order, on which engine, and what is made of it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from vllm_parity.engine.offline import Generated
from vllm_parity.engine.stats import counted, traced
from vllm_parity.families import Plan, load_config, make_plan, run_arms
from vllm_parity.families.arms import nudged, offline_arm
from vllm_parity.schema import unpacked

if TYPE_CHECKING:
    from vllm_parity.observation import Arm

CONFIG = load_config()
PLANS = {cell.id: make_plan(cell, CONFIG) for cell in CONFIG.matrix.cells}
BATCH = PLANS["cpu-batch_invariance-text-eager-apc_off"]
NUDGED_BATCH = PLANS["cpu-batch_invariance-text-eager-apc_off-nudged"]
WARM = PLANS["cpu-batch_invariance-text-eager-apc_on-warm"]
NUDGED_NGRAM = PLANS["cpu-spec_decode-ngram-raw_logprobs-eager-apc_off-nudged"]
CHAT = PLANS["cpu-streaming-text-eager-apc_off"]
WARM_CHAT = PLANS["cpu-streaming-text-eager-apc_on"]
NUDGED_CHAT = PLANS["cpu-streaming-audio_url-eager-apc_off-nudged"]

OUTPUT: dict[str, Any] = {
    "index": 0,
    "token_ids": [5, 9],
    "text": "ab",
    "finish_reason": "length",
    "logprobs": [{"5": -0.25, "7": -1.5}, {"9": -0.125}],
}
USAGE = {"prompt_tokens": 20}
STEPS = [
    {
        "requests": 1,
        "prefill_requests": prefill,
        "tokens": 1 + 6 * prefill,
        "prefix_cache_hits": 16 * prefill,
        "replays": {} if prefill else {"FULL:1": 1},
    }
    for prefill in (1, 0)
]
EVENTS: list[Any] = [
    {"choices": [{"delta": {"role": "assistant"}}]},
    {"choices": [{"token_ids": [5]}]},
    {"choices": [{"token_ids": [9]}]},
    "no chunk",
    {"choices": [], "usage": USAGE},
]


class Engine:
    """An engine and a server that write down what is asked of them."""

    def __init__(self, log: list[str], name: str = "") -> None:
        self.log = log
        self.name = name
        self.knobs = {"seed": 1}
        self.witness = {"compiled_graphs": 0}
        self.environment = {"vllm": f"of {name or 'it'}"}
        self.deadline = 0.0
        self.bodies: list[dict[str, Any]] = []

    def say(self, what: str) -> None:
        self.log.append(f"{self.name}{what}")

    def generate(self, requests: Any, *, together: bool) -> Generated:
        self.say(f"{len(requests)} {'together' if together else 'alone'}")
        outputs = [{"prompt_tokens": 3, "outputs": [OUTPUT]} for _ in requests]
        return Generated(outputs=outputs, counts=[], steps=STEPS)

    def reset_prefix_cache(self) -> bool:
        self.say("reset")
        return True

    def steps(self) -> list[Any]:
        return STEPS

    def set_weight(self, _name: str, _index: int, **change: float) -> dict[str, float]:
        self.say("moved" if "delta" in change else f"back to {change['value']}")
        return {"before": 0.5, "after": 0.51}

    def chat(self, body: dict[str, Any]) -> dict[str, Any]:
        self.say("plain")
        self.bodies.append(body)
        return {"object": "chat.completion", "usage": USAGE}

    def chat_stream(self, body: dict[str, Any]) -> tuple[list[Any], bool, int]:
        self.say("streamed")
        self.bodies.append(body)
        return EVENTS, True, 0


class Pool:
    """A pool of such engines: one for the reference's settings, another with drafts."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.engines: list[Engine] = []

    def engine(self, _variables: object, settings: dict[str, Any], **_: object) -> Engine:
        drafting = "speculative_config" in settings
        self.engines.append(Engine(self.log, "drafting: " if drafting else ""))
        return self.engines[-1]

    def server(self, _variables: object, _settings: object) -> Engine:
        self.engines.append(Engine(self.log))
        return self.engines[-1]

    def stage(self, words: str) -> None:
        pass


def ran(plan: Plan) -> tuple[list[str], dict[str, Arm], Pool]:
    pool = Pool()
    arms = run_arms(plan, pool, deadline=7.0).arms  # type: ignore[arg-type]
    found = {name: getattr(arms, name) for name in ("reference", "candidate", "control")}
    assert all(found.values())
    return pool.log, found, pool


# Nudging


def test_weight_is_moved_and_put_back() -> None:
    log: list[str] = []
    with nudged(Engine(log), NUDGED_BATCH):  # type: ignore[arg-type]
        log.append("run")
    assert log == ["moved", "run", "back to 0.5"]


def test_weight_is_put_back_although_the_run_failed() -> None:
    def crash(engine: Engine) -> None:
        with nudged(engine, NUDGED_BATCH):  # type: ignore[arg-type]
            raise RuntimeError

    log: list[str] = []
    with pytest.raises(RuntimeError):
        crash(Engine(log))
    assert log == ["moved", "back to 0.5"]


def test_no_weight_is_moved_where_nothing_is_to_be_nudged() -> None:
    log: list[str] = []
    with nudged(Engine(log), BATCH):  # type: ignore[arg-type]
        pass
    assert log == []


# Offline arms


def test_arm_holds_what_came_back_with_the_requests_it_was_for() -> None:
    _, arms, _ = ran(BATCH)
    arm = arms["candidate"]
    assert [one.id for one in arm.requests] == ["greedy-0", "greedy-1", "greedy-2", "greedy-3"]
    first = arm.requests[0]
    assert (first.expect_tokens, first.prompt_tokens, first.prompt_tail) == (8, 3, "Hello")
    (output,) = first.outputs or ()
    assert (output.token_ids, output.text, output.finish_reason) == ([5, 9], "ab", "length")
    assert output.logprobs == [{5: -0.25, 7: -1.5}, {9: -0.125}]


def test_arm_knows_engine_and_run() -> None:
    _, arms, _ = ran(BATCH)
    assert arms["reference"].knobs == {"model": "tiny-qwen3", "seed": 1, "batch_size": 1}
    assert arms["candidate"].knobs == {"model": "tiny-qwen3", "seed": 1, "batch_size": 4}
    assert arms["control"].knobs == arms["reference"].knobs
    assert arms["candidate"].witness == {"compiled_graphs": 0, **counted([]), **traced(STEPS)}


def test_answer_too_few_is_no_arm() -> None:
    few = Generated(outputs=[], counts=[], steps=[])
    with pytest.raises(ValueError, match="shorter"):
        offline_arm(BATCH, BATCH.reference, Engine([]), few)  # type: ignore[arg-type]


# The families


def test_each_alone_twice_then_all_together() -> None:
    log, *_ = ran(BATCH)
    assert log == ["4 alone", "4 alone", "4 together"]


def test_only_the_candidate_of_a_batch_is_nudged() -> None:
    log, arms, _ = ran(NUDGED_BATCH)
    assert log == ["4 alone", "4 alone", "moved", "4 together", "back to 0.5"]
    assert "nudged_weight" in arms["candidate"].knobs
    assert "nudged_weight" not in arms["reference"].knobs


def test_cold_means_an_empty_cache_and_warm_the_same_prompt_before() -> None:
    log, arms, _ = ran(WARM)
    cold, warm = ["reset", "1 together"], ["reset", "1 together", "1 together"]
    assert log == cold * 4 + cold * 4 + warm * 4
    # What fills the cache is not counted as the candidate's.
    assert arms["candidate"].witness["steps"] == arms["reference"].witness["steps"] == 8


def test_drafts_run_on_an_engine_of_their_own_which_alone_is_nudged() -> None:
    log, _, _ = ran(NUDGED_NGRAM)
    assert log == [
        *("8 together", "8 together"),
        *("drafting: moved", "drafting: 8 together", "drafting: back to 0.5"),
    ]


def test_chat_is_plain_twice_then_streamed() -> None:
    log, arms, pool = ran(CHAT)
    assert log == ["plain"] * 8 + ["streamed"] * 4
    (server,) = pool.engines
    assert server.deadline > time.monotonic() + 200
    assert {body["model"] for body in server.bodies} == {"model"}
    assert all(body["return_token_ids"] and body["logprobs"] for body in server.bodies)
    asked = [body.get("stream_options") for body in server.bodies]
    assert asked == [None] * 8 + [{"include_usage": True}] * 4
    reference, candidate = arms["reference"].requests[0], arms["candidate"].requests[0]
    assert unpacked(reference.response)["object"] == "chat.completion"
    assert (candidate.events, candidate.done, candidate.after_done) == (EVENTS, True, 0)
    assert reference.prompt_tokens == candidate.prompt_tokens == 20


def test_chat_counts_its_chunks_with_tokens_and_its_hits() -> None:
    _, arms, _ = ran(CHAT)
    plain = {"compiled_graphs": 0, **traced(STEPS), "tool_calls": 0}
    assert plain["prefix_cache_hits"] == 16
    assert arms["reference"].witness == plain
    assert arms["candidate"].witness == {**plain, "chunks": 2}


def test_chat_counts_a_call_once_however_many_pieces_it_came_in(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pieces = [{"index": 0}, {"index": 0}, {"index": 1}]
    events = [{"choices": [{"index": 0, "delta": {"tool_calls": [one]}}]} for one in pieces]
    whole = {"choices": [{"index": 0, "message": {"tool_calls": [{}, {}]}}]}
    monkeypatch.setattr(Engine, "chat", lambda *_: whole)
    monkeypatch.setattr(Engine, "chat_stream", lambda *_: (events, True, 0))
    _, arms, _ = ran(CHAT)
    assert [arm.witness["tool_calls"] for arm in arms.values()] == [8, 8, 8]


def test_warm_chat_fills_the_cache_first() -> None:
    log, *_ = ran(WARM_CHAT)
    assert log == ["plain"] * 4 + ["plain"] * 8 + ["streamed"] * 4


def test_only_the_stream_of_a_chat_is_nudged() -> None:
    log, *_ = ran(NUDGED_CHAT)
    assert log == ["plain"] * 8 + ["moved"] + ["streamed"] * 4 + ["back to 0.5"]


def test_answers_without_usage_have_no_prompt_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Engine, "chat", lambda *_: {"object": "chat.completion"})
    monkeypatch.setattr(Engine, "chat_stream", lambda *_: ([], False, 0))
    _, arms, _ = ran(CHAT)
    assert arms["candidate"].witness["chunks"] == 0
    assert arms["candidate"].requests[0].prompt_tokens is None
