"""Streams: chunks are transport, and everything that is not must hold."""

from __future__ import annotations

import copy
import functools
import json
from typing import Any

import msgspec
import pytest
from making import (
    BITWISE,
    CLOSE,
    TEXT,
    TOKENS,
    choice,
    chunk,
    delta,
    entry,
    good,
    judged,
    response,
    stream,
    verdict,
)

from vllm_parity.errors import FormatError
from vllm_parity.judge import explain, judge
from vllm_parity.observation import decode_observation
from vllm_parity.schema import Packed

USAGE = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}


def two_tokens(first: Any = -0.25, second: Any = -0.5) -> list[Any]:
    return [
        entry("a", first, ("a", first), ("b", -1.5)),
        entry("c", second, ("c", second), ("d", -1.5)),
    ]


def whole(**more: Any) -> Any:
    return response(choice("ac", ids=[1, 2], entries=two_tokens(), **more), usage=USAGE)


def chunks(first: Any = -0.25, second: Any = -0.5) -> list[Any]:
    one, two = two_tokens(first, second)
    return [
        chunk(delta(role="assistant", content="")),
        chunk(delta("a", ids=[1], entries=[one])),
        chunk(delta("c", ids=[2], entries=[two], finish="length")),
        chunk(usage=USAGE),
    ]


@pytest.mark.parametrize("contract", [BITWISE, CLOSE, TOKENS, TEXT])
def test_the_same_in_chunks_passes(contract: Any) -> None:
    assert verdict(stream(whole(), *chunks(), contract=contract, expect=2)) == ("pass", set())


def test_counts() -> None:
    judgement = judged(stream(whole(), *chunks(), contract=BITWISE))
    counts = judgement.compared
    # Two own values, and two alternatives at each position: the list repeats the own token.
    assert (counts.requests, counts.positions, counts.logprobs) == (1, 2, 6)


def test_values_are_compared_under_the_contract() -> None:
    other = chunks(second=-0.5005)
    assert verdict(stream(whole(), *other, contract=BITWISE))[1] == {"logprob", "alternatives"}
    assert verdict(stream(whole(), *other, contract=CLOSE)) == ("pass", set())
    assert verdict(stream(whole(), *other, contract=TEXT)) == ("pass", set())


def test_worst_names_a_token_only_where_there_is_an_id() -> None:
    other = chunks()
    other[2]["choices"][0]["logprobs"]["content"][0]["logprob"] = -0.75
    worst = judged(stream(whole(), *other, contract=BITWISE)).worst
    assert worst is not None
    assert (worst.abs, worst.position, worst.token_id) == (0.25, 1, 2)
    other = chunks()
    other[2]["choices"][0]["logprobs"]["content"][0]["top_logprobs"][1]["logprob"] = -2.0
    worst = judged(stream(whole(), *other, contract=BITWISE)).worst
    assert worst is not None
    assert (worst.abs, worst.token_id) == (0.5, None)


# Text


def test_text_reasoning_and_tool_calls_are_all_text() -> None:
    call = {"index": 0, "id": "x", "function": {"name": "f", "arguments": "{}"}}
    made = response(choice("ac", reasoning="hm", refusal="no", tool_calls=[call]))

    def found(**fields: Any) -> tuple[str, set[str]]:
        given = {"reasoning": "hm", "refusal": "no", "tool_calls": [call], **fields}
        return verdict(stream(made, chunk(delta("ac", finish="length", **given))))

    other = {**call, "id": "y"}
    assert found(tool_calls=[other]) == ("pass", set())
    assert found(reasoning=None, reasoning_content="hm") == ("pass", set())
    for fields in (
        {"reasoning": "hm!"},
        {"reasoning": None},
        {"refusal": None},
        {"tool_calls": None},
        {"tool_calls": [{**call, "index": 1}]},
        {"tool_calls": [{**call, "function": {"name": "g", "arguments": "{}"}}]},
        {"tool_calls": [{**call, "function": {"name": "f", "arguments": "{ }"}}]},
        {"tool_calls": [call, {"function": {"name": "g"}}]},
        {"tool_calls": [{**call, "function": None}]},
    ):
        assert found(**fields) == ("diverged", {"text"})


def test_tool_calls_pair_by_place_where_they_have_no_index() -> None:
    calls = [{"function": {"name": name, "arguments": "1"}} for name in "fg"]
    made = response(choice(None, tool_calls=calls))
    pieces = [
        chunk(delta(tool_calls=[{"index": 1, "function": {"name": "g"}}])),
        chunk(delta(tool_calls=[{"index": 0, "function": {"name": "f", "arguments": "1"}}])),
        chunk(delta(tool_calls=[{"index": 1, "function": {"arguments": "1"}}], finish="length")),
    ]
    assert verdict(stream(made, *pieces)) == ("pass", set())


def test_null_and_absent_text_are_empty() -> None:
    bare = {"object": "chat.completion.chunk", "choices": [{"index": 0, "finish_reason": "stop"}]}
    for content in (None, ""):
        assert verdict(stream(response(choice(content, finish="stop")), bare)) == ("pass", set())


def test_a_text_difference_is_named_by_the_ids() -> None:
    other = chunks()
    other[2]["choices"][0]["delta"]["content"] = "x"
    assert verdict(stream(whole(), *other, contract=BITWISE)) == ("diverged", {"detokenize"})
    assert verdict(stream(whole(), *other, contract=TEXT)) == ("diverged", {"detokenize"})
    bare = stream(response(choice("ac")), chunk(delta("ax", finish="length")))
    assert verdict(bare) == ("diverged", {"text"})


def test_a_replacement_character_is_a_difference_of_text() -> None:
    made = response(choice("世"))
    assert verdict(stream(made, chunk(delta("世", finish="length")))) == ("pass", set())
    pieces = [chunk(delta("\ufffd")), chunk(delta("\ufffd", finish="length"))]
    assert verdict(stream(made, *pieces)) == ("diverged", {"text"})


def test_texts_are_compared_whatever_the_lengths() -> None:
    other = chunks()[:2]
    other.append(chunk(delta(finish="length")))
    found = verdict(stream(whole(), *other, contract=BITWISE))
    assert found == ("diverged", {"length", "text"})


# Ids and logprobs


def test_ids_are_missing_only_where_no_chunk_gives_any() -> None:
    other = chunks()
    for piece in other:
        for made in piece["choices"]:
            made.pop("token_ids", None)
    found = verdict(stream(whole(), *other, contract=BITWISE))
    assert found == ("unverified", {"missing_tokens"})
    other[0]["choices"][0]["token_ids"] = []
    assert verdict(stream(whole(), *other, contract=BITWISE))[1] == {"missing_tokens"}
    other[2]["choices"][0]["token_ids"] = [1, 2]
    assert verdict(stream(whole(), *other, contract=BITWISE)) == ("pass", set())


def test_no_ids_for_no_text_is_nothing_missing() -> None:
    made = response(choice("", ids=[]))
    pieces = [chunk(delta(ids=[], finish="length"))]
    assert verdict(stream(made, *pieces, contract=TOKENS)) == ("unverified", {"empty"})


def test_missing_logprobs() -> None:
    other = chunks()
    del other[2]["choices"][0]["logprobs"]
    assert verdict(stream(whole(), *other, contract=BITWISE))[1] == {"missing_logprobs"}
    del other[1]["choices"][0]["logprobs"]
    assert verdict(stream(whole(), *other, contract=BITWISE))[1] == {"missing_logprobs"}
    assert verdict(stream(whole(), *other, contract=TOKENS)) == ("pass", set())
    other = chunks()
    other[1]["choices"][0]["logprobs"] = {"content": None}
    judgement = judged(stream(whole(), *other, contract=BITWISE))
    assert (judgement.reasons[0].position, judgement.compared.positions) == (0, 1)
    assert verdict(stream(whole(), *other, contract=BITWISE))[1] == {"missing_logprobs"}


def test_null_is_how_some_servers_write_nothing() -> None:
    other = chunks()
    made = other[1]["choices"][0]["logprobs"]["content"][0]
    made["logprob"] = None
    assert verdict(stream(whole(), *other, contract=BITWISE))[1] == {"missing_logprobs"}
    made["logprob"] = -0.25
    made["top_logprobs"][1]["logprob"] = None
    assert verdict(stream(whole(), *other, contract=BITWISE))[1] == {"alternatives"}
    made["top_logprobs"] = None
    assert verdict(stream(whole(), *other, contract=BITWISE))[1] == {"alternatives"}


def test_more_logprobs_than_ids() -> None:
    other = chunks()
    other[2]["choices"][0]["logprobs"]["content"] *= 2
    found = verdict(stream(whole(), *other, contract=BITWISE))
    assert found == ("unverified", {"missing_tokens"})
    assert verdict(stream(whole(), *other, contract=TOKENS)) == ("pass", set())


def test_alternatives_pair_by_bytes_else_by_token() -> None:
    def made(*top: tuple[str, Any], raw: bool = True) -> Any:
        return entry("a", -0.25, *top, raw=raw)

    def found(a: Any, b: Any) -> set[str]:
        first = response(choice("a", ids=[1], entries=[a]))
        second = chunk(delta("a", ids=[1], entries=[b], finish="length"))
        return verdict(stream(first, second, contract=BITWISE))[1]

    top = [("a", -0.25), ("b", -1.0), ("c", -2.0)]
    for raw in (True, False):
        assert found(made(*top, raw=raw), made(*reversed(top), raw=raw)) == set()
        swapped = made(("a", -0.25), ("b", -2.0), ("c", -1.0), raw=raw)
        assert found(made(*top, raw=raw), swapped) & {"alternatives"}
    named = made(*top)
    named["top_logprobs"][1]["token"] = "<b>"  # bytes are what counts
    assert found(made(*top), named) == set()
    twins = [("\ufffd", -1.0), ("\ufffd", -2.0)]
    assert found(made(*twins), made(*reversed(twins))) == set()
    assert found(made(*twins), made(("\ufffd", -1.0), ("\ufffd", -2.5))) == {"alternatives"}
    assert found(made(("b", "nan"), ("b", -1.0)), made(("b", -1.0), ("b", "nan"))) == {"nonfinite"}
    masked = made(("a", -0.25), ("b", "-inf"))
    assert found(masked, masked) == set()


def test_flips_and_ties_on_the_wire() -> None:
    def side(own: str, other: str, token: int) -> list[Any]:
        return [entry(own, -1.0, (own, -1.0), (other, -1.0)), entry("z", -0.5)], [token, 9]  # type: ignore[return-value]

    entries, ids = side("a", "b", 1)
    made = response(choice("az", ids=ids, entries=entries), usage=USAGE)
    entries, ids = side("b", "a", 2)
    event = chunk(delta("bz!", ids=ids, entries=entries, finish="stop"), usage={"total_tokens": 9})
    assert verdict(stream(made, event, contract=BITWISE)) == ("diverged", {"token_flip"})
    loose = {**CLOSE, "min_compared": 0.5}
    assert verdict(stream(made, event, contract=loose)) == ("pass", set())
    entries, ids = side("b", "c", 2)
    event = chunk(delta("bz", ids=ids, entries=entries, finish="length"))
    assert verdict(stream(made, event, contract={**TOKENS, "tie_gap": 9.0}))[1] == {
        "token_flip",
        "min_compared",
    }


# Usage


def test_usage_is_compared_where_both_give_it() -> None:
    other = chunks()
    other[3]["usage"] = {**USAGE, "total_tokens": 6}
    assert verdict(stream(whole(), *other)) == ("diverged", {"usage"})
    other[3]["usage"] = {"prompt_tokens": 3, "details": {"cached": 2}}
    assert verdict(stream(whole(), *other)) == ("pass", set())
    other[3]["usage"] = None
    assert verdict(stream(whole(), *other)) == ("pass", set())
    assert verdict(stream(response(choice("ac")), *chunks())) == ("pass", set())


def test_the_last_usage_counts() -> None:
    other = chunks()
    other[1]["usage"] = {"completion_tokens": 1}
    assert verdict(stream(whole(), *other)) == ("pass", set())
    other.append(chunk(usage={**USAGE, "completion_tokens": 1}))
    assert verdict(stream(whole(), *other)) == ("diverged", {"usage"})


# Protocol


@pytest.mark.parametrize(
    "event",
    [
        None,
        7,
        "text",
        [],
        {},
        {"error": {"message": "out of memory"}},
        {"object": "chat.completion", "choices": []},
        {"object": "chat.completion.chunk", "choices": {}},
        {"object": "chat.completion.chunk", "choices": [7]},
        {"object": "chat.completion.chunk", "choices": [{"delta": {}}]},
        {"object": "chat.completion.chunk", "choices": [{"index": True}]},
        {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": 7}]},
        {"object": "chat.completion.chunk", "choices": [{"index": 0, "finish_reason": 7}]},
        {"object": "chat.completion.chunk", "choices": [{"index": 0, "token_ids": [1.5]}]},
        {"object": "chat.completion.chunk", "choices": [{"index": 0, "token_ids": [2**70]}]},
        {"object": "chat.completion.chunk", "choices": [{"index": 0, "token_ids": 1}]},
        {"object": "chat.completion.chunk", "choices": [], "usage": 7},
        chunk(delta(7)),  # type: ignore[arg-type]
        chunk(delta(role=7)),
        chunk(delta(tool_calls=7)),
        chunk(delta(tool_calls=[7])),
        chunk(delta(tool_calls=[{"index": "0"}])),
        chunk(delta(tool_calls=[{"function": {"name": 7}}])),
        chunk(delta(entries=[7])),
        chunk(delta(entries=[{"token": 7, "logprob": -1.0}])),
        chunk(delta(entries=[{"token": "a", "logprob": "low"}])),
        chunk(delta(entries=[{"token": "a", "logprob": True}])),
        chunk(delta(entries=[{"token": "a", "logprob": -(10**400)}])),
        chunk(delta(entries=[{"token": "a", "bytes": [256], "logprob": -1.0}])),
        chunk(delta(entries=[{"token": "a", "bytes": ["a"], "logprob": -1.0}])),
        chunk(delta(entries=[{"token": "a", "bytes": "a", "logprob": -1.0}])),
    ],
    ids=[f"event-{number}" for number in range(31)],
)
def test_an_event_that_is_no_chunk(event: Any) -> None:
    document = stream(whole(), *chunks())
    document["arms"]["candidate"]["requests"][0]["events"].insert(1, event)
    assert verdict(document) == ("diverged", {"protocol"})


def test_breaks_of_the_protocol() -> None:
    twice = [*chunks(), chunk(delta(finish="length"))]
    assert verdict(stream(whole(), *twice)) == ("diverged", {"protocol"})
    strange = [chunk(delta(role="user")), *chunks()[1:]]
    assert verdict(stream(whole(), *strange)) == ("diverged", {"protocol"})
    assert verdict(stream(whole(), *chunks(), after_done=1)) == ("diverged", {"protocol"})


def test_an_error_beside_a_chunk_takes_no_text_away() -> None:
    other = chunks()
    other[1]["error"] = {"message": "slow"}
    assert verdict(stream(whole(), *other)) == ("diverged", {"protocol"})


def test_fine_ways_to_send_a_stream() -> None:
    unfinished = chunks()
    unfinished[1]["choices"][0]["finish_reason"] = ""
    assert verdict(stream(whole(), *unfinished)) == ("pass", set())
    repeated = chunks()
    for event in repeated[:3]:
        event["choices"][0]["delta"]["role"] = "assistant"
    assert verdict(stream(whole(), *repeated)) == ("pass", set())
    assert verdict(stream(whole(), *chunks()[1:])) == ("pass", set())
    alone = chunks()
    alone[2]["choices"][0]["finish_reason"] = None
    alone.insert(3, chunk(delta("", finish="length")))
    assert verdict(stream(whole(), *alone)) == ("pass", set())
    no_choices = [*chunks()[:3], {"object": "chat.completion.chunk", "usage": USAGE}]
    assert verdict(stream(whole(), *no_choices)) == ("pass", set())
    no_role = whole()
    del no_role["choices"][0]["message"]["role"]
    assert verdict(stream(no_role, *chunks())) == ("pass", set())


# Truncation


def test_no_done_is_truncated() -> None:
    assert verdict(stream(whole(), *chunks(), done=False)) == ("unverified", {"truncated_stream"})


def test_a_choice_that_did_not_end_must_be_a_prefix() -> None:
    cut = chunks()[:2]
    for contract in (BITWISE, TEXT):
        found = verdict(stream(whole(), *cut, contract=contract, done=False, expect=2))
        assert found == ("unverified", {"truncated_stream"})
    found = verdict(stream(whole(), *cut, contract=CLOSE, expect=2))
    assert found == ("unverified", {"truncated_stream", "min_compared"})


def test_a_choice_that_did_not_end_and_is_no_prefix() -> None:
    cut = chunks()[:2]
    cut[1]["choices"][0]["delta"]["content"] = "b"
    assert verdict(stream(whole(), *cut))[1] == {"truncated_stream", "detokenize"}
    cut = chunks()[:2]
    cut[1]["choices"][0]["token_ids"] = [7]
    assert verdict(stream(whole(), *cut, contract=TOKENS))[0] == "diverged"
    cut = [*chunks()[:2], chunk(delta(ids=[2, 3]))]
    found = verdict(stream(whole(), *cut, contract={**TOKENS, "tie_gap": 9.0}))
    assert found == ("diverged", {"truncated_stream", "token_flip"})


def test_a_choice_that_never_appears_is_missing_alone() -> None:
    made = response(choice("ac"), choice("x", index=1), usage=USAGE)
    event = chunk(delta("ac", finish="length"), usage={"total_tokens": 1})
    assert verdict(stream(made, event)) == ("unverified", {"missing_request"})
    extra = [event, chunk(delta("x", index=2, finish="length"))]
    assert verdict(stream(made, *extra)) == ("unverified", {"missing_request"})


def test_no_events_at_all() -> None:
    found = verdict(stream(whole(), done=False))
    assert found == ("unverified", {"truncated_stream", "missing_request"})


def test_nothing_in_both_arms() -> None:
    assert verdict(stream(response())) == ("unverified", {"empty", "missing_request"})


def test_a_finished_choice_is_compared_whole_without_done() -> None:
    cut = chunks()
    cut[2]["choices"][0]["delta"]["content"] = "x"
    found = verdict(stream(whole(), *cut, done=False))
    assert found == ("diverged", {"detokenize", "truncated_stream"})


def test_a_response_that_ends_otherwise() -> None:
    assert verdict(stream(whole(finish="stop"), *chunks())) == ("diverged", {"finish_reason"})
    assert verdict(stream(whole(finish=None), *chunks())) == ("diverged", {"finish_reason"})


# Requests and controls


def test_requests_pair_by_id() -> None:
    document = stream(whole(), *chunks())
    document["arms"]["candidate"]["requests"][0]["id"] = "other"
    assert verdict(document) == ("unverified", {"missing_request"})


def test_a_missing_stream_may_break_the_protocol_too() -> None:
    document = stream(whole(), *chunks(), {"error": "x"})
    document["arms"]["reference"]["requests"] = []
    assert verdict(document) == ("diverged", {"missing_request", "protocol"})


def test_controls_have_responses() -> None:
    other = chunks()
    other[1]["choices"][0]["delta"]["content"] = "x"
    changed = whole()
    changed["choices"][0]["message"]["content"] = "yc"
    assert verdict(stream(whole(), *other, control=whole())) == ("diverged", {"detokenize"})
    assert verdict(stream(whole(), *other, control=changed)) == (
        "noisy",
        {"detokenize", "control"},
    )


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda made: made.update(object="error"), "expected an object of chat.completion"),
        (lambda made: made.update(choices=7), "choices: expected a list"),
        (lambda made: made.update(choices=made["choices"] * 2), "each index once, got 0 again"),
        (lambda made: made["choices"][0].update(message=None), "message: expected an object"),
        (lambda made: made.update(usage=[]), "usage: expected an object"),
    ],
    ids=["object", "choices", "twins", "message", "usage"],
)
def test_a_response_that_is_none(change: Any, expected: str) -> None:
    made = copy.deepcopy(whole())
    change(made)
    with pytest.raises(FormatError, match=f"the response of request 'r0': .*{expected}"):
        judged(stream(made, *chunks()))


def test_nesting_that_fits_a_file_and_not_the_judge(monkeypatch: pytest.MonkeyPatch) -> None:
    def too_deep(_: Packed) -> None:
        raise RecursionError

    made = decode_observation(json.dumps(good("streaming")).encode())
    monkeypatch.setattr(Packed, "unpack", too_deep)
    with pytest.raises(FormatError, match="the response of request 'audio-0': expected less nest"):
        judge(made)


@functools.cache
def deepest() -> int:
    """Return how deep JSON may be nested here: Pythons differ by a factor of ten."""
    low, high = 1, 1_000_000
    while high - low > 1:
        middle = (low + high) // 2
        try:
            msgspec.json.decode(b"[" * middle + b"]" * middle)
            low = middle
        except RecursionError:
            high = middle
    return low


@pytest.mark.parametrize("place", ["knob", "witness", "error", "usage"])
def test_no_depth_of_nesting_is_a_traceback(place: str) -> None:
    document = good("streaming")
    candidate = document["arms"]["candidate"]
    if place == "knob":
        candidate["knobs"]["deep"] = "@"
    elif place == "witness":
        candidate["witness"]["deep"] = "@"
        document["require"] = ["deep==1"]
    elif place == "error":
        candidate["requests"][0]["events"][1]["error"] = "@"
    else:
        candidate["requests"][0]["events"][-1]["usage"]["total_tokens"] = "@"
    text = json.dumps(document)
    seen = set()
    for depth in [1, *range(deepest() - 140, deepest() + 1, 10)]:
        try:
            made = decode_observation(text.replace('"@"', "[" * depth + "]" * depth).encode())
            judgement = judge(made)
        except FormatError:
            seen.add("format error")
        else:
            seen.add(str(judgement.verdict))
            assert explain(made, judgement)
    assert "format error" in seen
    assert len(seen) == 2


def test_the_candidate_is_judged_by_its_events() -> None:
    document = good("streaming")
    request = document["arms"]["candidate"]["requests"][0]
    request["response"] = document["arms"]["reference"]["requests"][0]["response"]
    request["events"] = request["events"][:4]
    assert verdict(document)[0] != "pass"
