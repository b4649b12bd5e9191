"""Properties that hold for every pair: what may not matter, and what must be symmetric."""

from __future__ import annotations

import copy
import itertools
import json
import random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from making import (
    BITWISE,
    CLOSE,
    TEXT,
    TOKENS,
    Json,
    choice,
    delta,
    entry,
    good,
    judged,
    observation,
    output,
    request,
    response,
    stream,
    verdict,
)

from vllm_parity.judge import judge
from vllm_parity.judge.transcript import parse_events
from vllm_parity.observation import decode_observation, encode_observation

CONTRACTS = st.sampled_from([BITWISE, CLOSE, TOKENS, TEXT, {**CLOSE, "min_compared": 0.25}])
# Few tokens and few values, so that ties, flips and equal values are common.
VALUES = st.sampled_from([-0.25, -0.2500001, -0.5, -0.5004, -1.0, 0.0, -9999.0, "nan", "-inf"])
TOKEN = st.integers(min_value=1, max_value=4)


@st.composite
def outputs(draw: st.DrawFn, index: int = 0) -> Json:
    ids = draw(st.lists(TOKEN, max_size=5))
    rows = []
    for token in ids:
        row = draw(st.dictionaries(st.integers(1, 7), VALUES, max_size=4))
        if draw(st.integers(0, 9)):
            row.setdefault(token, draw(VALUES))
        rows.append(row)
    made = output(
        ids,
        rows,
        index=index,
        text=draw(st.sampled_from(["a", "b", None])),
        finish=draw(st.sampled_from(["stop", "length"])),
    )
    if not draw(st.integers(0, 9)):
        made[draw(st.sampled_from(["logprobs", "token_ids"]))] = None
        made["logprobs"] = None
    return made


@st.composite
def requests(draw: st.DrawFn) -> list[Json]:
    names = draw(st.lists(st.sampled_from(["a", "b", "c"]), unique=True, max_size=3))
    made = []
    for name in names:
        indices = draw(st.lists(st.integers(0, 2), unique=True, max_size=2))
        made.append(
            request(*(draw(outputs(index)) for index in indices), name=name, expect=draw(EXPECT))
        )
    return made


EXPECT = st.sampled_from([None, 0, 2, 4])


@st.composite
def pairs(draw: st.DrawFn) -> Json:
    """Return a reference and a candidate that is often much the same."""
    a = draw(requests())
    b = draw(st.one_of(requests(), st.just(copy.deepcopy(a))))
    if b and b == a and draw(st.booleans()):
        b[0]["outputs"] = [draw(outputs(made["index"])) for made in b[0]["outputs"]]
    return observation(a, b, contract=draw(CONTRACTS))


def shuffled(document: Json, seed: int) -> Json:
    """Return the same with requests, outputs and keys in another order."""
    dice = random.Random(seed)  # noqa: S311

    def mix(value: Json, name: str = "") -> Json:
        if isinstance(value, dict):
            items = list(value.items())
            dice.shuffle(items)
            return {key: mix(item, key) for key, item in items}
        if isinstance(value, list):
            made = [mix(item) for item in value]
            if name in {"requests", "outputs", "choices", "top_logprobs"}:
                dice.shuffle(made)
            return made
        return value

    return mix(document)


def shape(document: Json) -> Any:
    """Return all of a judgement that order may not change."""
    judgement = judged(document).as_dict()
    reasons = [{**reason, "message": ""} for reason in judgement["reasons"]]
    for reason in reasons:
        if reason["code"] in {"degenerate", "no_signal"}:
            # About a whole arm: the first of its sentinels is only an example.
            reason.update(request=None, output=None, position=None)
    reasons = sorted(reasons, key=json.dumps)
    worst = judgement["worst"] and judgement["worst"]["abs"]
    return judgement["verdict"], reasons, judgement["compared"], worst


@given(pairs(), st.integers(0, 2**16))
def test_no_order_matters(document: Json, seed: int) -> None:
    assert shape(shuffled(document, seed)) == shape(document)


@given(st.integers(0, 2**16))
def test_no_order_matters_on_the_wire(seed: int) -> None:
    document = good("streaming")
    assert shape(shuffled(document, seed)) == shape(document)


@given(requests(), CONTRACTS)
def test_an_arm_differs_from_itself_in_no_way(made: list[Json], contract: Json) -> None:
    _, codes = verdict(observation(made, copy.deepcopy(made), contract=contract))
    assert not codes & {
        "token_flip",
        "logprob",
        "alternatives",
        "length",
        "text",
        "detokenize",
        "finish_reason",
        "degenerate",
        "missing_request",
    } - ({"missing_request"} if any(not r["outputs"] for r in made) else set())


@given(pairs())
def test_bitwise_is_symmetric(document: Json) -> None:
    document["contract"] = BITWISE
    mirrored = copy.deepcopy(document)
    arms, back = document["arms"], mirrored["arms"]
    for name, other in (("reference", "candidate"), ("candidate", "reference")):
        back[name]["requests"] = arms[other]["requests"]
    assert verdict(mirrored)[0] == verdict(document)[0]


@given(pairs())
def test_a_looser_contract_never_finds_other_values(document: Json) -> None:
    document["contract"] = {"kind": "close", "atol": 0.0, "rtol": 0.0}
    strict = verdict(document)[1]
    document["contract"] = {"kind": "close", "atol": 100.0, "rtol": 0.0, "tie_gap": 0.0}
    loose = verdict(document)[1]
    assert loose - {"min_compared"} <= strict


@given(pairs())
def test_a_pass_compared_everything(document: Json) -> None:
    judgement = judged(document)
    if judgement.verdict == "pass" and document["contract"] != TEXT:
        assert judgement.compared.positions > 0


@given(pairs())
def test_files_keep_what_was_in_them(document: Json) -> None:
    first = decode_observation(json.dumps(document).encode())
    data = encode_observation(first)
    second = decode_observation(data)
    assert encode_observation(second) == data
    assert judge(second) == judge(first) or judge(first).worst is not None


@given(pairs(), requests())
def test_a_control_never_turns_anything_into_a_pass(document: Json, control: list[Json]) -> None:
    without = verdict(document)[0]
    document["arms"]["control"] = {**document["arms"]["reference"], "requests": control}
    with_control = verdict(document)[0]
    assert with_control in {without, "noisy"}


# Streams


def sse(events: list[Json], end: str = "\n\n") -> bytes:
    lines = [f"data: {json.dumps(event, ensure_ascii=False)}" for event in events]
    return end.join([*lines, "data: [DONE]", ""]).encode()


def whole_and_pieces(cuts: list[int]) -> Json:
    """Return a response, and the same cut into chunks at any places of its text and tokens."""
    text = "so 世界 \U0001f600 e\u0301 end"
    entries = [entry(c, -0.25 - n / 8, ("x", -3.0)) for n, c in enumerate(text)]
    ids = list(range(10, 10 + len(text)))
    made = response(choice(text, ids=ids, entries=entries, reasoning=text[::-1]))
    bounds = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    events = []
    for start, stop in itertools.pairwise(bounds):
        part = slice(start, stop)
        events.append(
            {
                "object": "chat.completion.chunk",
                "choices": [
                    delta(
                        text[part],
                        ids=ids[part],
                        entries=entries[part],
                        reasoning=text[::-1][part],
                    )
                ],
            }
        )
    events[-1]["choices"][0]["finish_reason"] = "length"
    return stream(made, *events, contract=BITWISE)


@given(st.lists(st.integers(0, 20), max_size=8))
def test_where_chunks_split_does_not_matter(cuts: list[int]) -> None:
    document = whole_and_pieces(cuts)
    assert verdict(document) == ("pass", set())
    assert shape(document)[2:] == shape(whole_and_pieces([]))[2:]


def test_every_single_split_passes() -> None:
    for cut in range(20):
        assert verdict(whole_and_pieces([cut])) == ("pass", set())
    assert verdict(whole_and_pieces(list(range(20)))) == ("pass", set())


@given(st.lists(st.integers(0, 20), max_size=6), st.lists(st.integers(0, 20), max_size=6))
def test_fields_may_split_at_different_places(texts: list[int], tokens: list[int]) -> None:
    document = whole_and_pieces(texts)
    other = whole_and_pieces(tokens)["arms"]["candidate"]["requests"][0]["events"]
    events = document["arms"]["candidate"]["requests"][0]["events"]
    for event in events:
        event["choices"][0].pop("token_ids")
        event["choices"][0].pop("logprobs")
    for event in other:
        event["choices"][0]["delta"] = {}
        event["choices"][0]["finish_reason"] = None
    document["arms"]["candidate"]["requests"][0]["events"] = other + events
    assert verdict(document) == ("pass", set())


def test_a_transcript_reads_the_same_however_it_is_cut() -> None:
    events = whole_and_pieces([3, 5, 9])["arms"]["candidate"]["requests"][0]["events"]
    expected = (events, True, 0)
    for end in ("\n\n", "\r\n\r\n", "\r\r"):
        assert parse_events(sse(events, end), "x") == expected
    data = sse(events)
    for cut in range(len(data)):
        # Wherever a stream was cut, what came before is read, or its last event is no JSON.
        try:
            found, done, after = parse_events(data[:cut], "x")
        except Exception as error:  # noqa: BLE001
            assert type(error).__name__ == "FormatError"  # noqa: PT017
            continue
        assert found == events[: len(found)]
        assert not after
        assert not done or len(found) == len(events)


@settings(max_examples=30)
@given(st.integers(0, 2**32))
def test_json_key_order_does_not_matter(seed: int) -> None:
    for family in ("batch_invariance", "spec_decode", "streaming"):
        document = shuffled(good(family), seed)
        assert verdict(document) == ("pass", set())
