"""Observations made by hand, as the JSON that a file would hold."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

from vllm_parity.judge import Judgement, judge
from vllm_parity.observation import decode_observation

DATA = Path(__file__).parents[2] / "data"
FAMILIES = ("batch_invariance", "spec_decode", "streaming")
BITWISE = {"kind": "bitwise"}
CLOSE = {"kind": "close", "atol": 1e-3, "rtol": 0.0}
TOKENS = {"kind": "tokens"}
TEXT = {"kind": "text"}

Json = Any


def good(family: str) -> Json:
    """Return a good example, fresh."""
    return json.loads((DATA / f"good-{family}.json").read_bytes())


def judged(document: Json) -> Judgement:
    """Judge a document by way of the bytes of a file."""
    return judge(decode_observation(json.dumps(document).encode(), "test.json"))


def verdict(document: Json) -> tuple[str, set[str]]:
    """Return the verdict and the reason codes."""
    judgement = judged(document)
    return str(judgement.verdict), {str(code) for code in judgement.codes}


def output(
    ids: list[int] | None,
    rows: list[dict[int, Any]] | None = None,
    *,
    index: int = 0,
    text: str | None = "text",
    finish: str | None = "length",
) -> Json:
    """Return an output; without rows each token gets two entries of its own."""
    if rows is None and ids is not None:
        rows = [{token: -0.25 - place / 64, 900 + place: -2.0} for place, token in enumerate(ids)]
    return {
        "index": index,
        "token_ids": ids,
        "text": text,
        "finish_reason": finish,
        "logprobs": None if rows is None else [{str(k): v for k, v in r.items()} for r in rows],
    }


def request(*outputs: Json, name: str = "r0", expect: int | None = None, **more: Any) -> Json:
    """Return a plain request."""
    return {"id": name, "expect_tokens": expect, "outputs": list(outputs), **more}


def observation(
    reference: list[Json] | None,
    candidate: list[Json] | None,
    *,
    contract: Json = BITWISE,
    control: list[Json] | None = None,
    family: str = "batch_invariance",
    require: tuple[str, ...] = (),
) -> Json:
    """Return an observation of three arms with the contrast `batch_size`."""

    def arm(requests: list[Json] | None, batch: int) -> Json:
        if requests is None:
            return None
        return {"knobs": {"batch_size": batch}, "witness": {"steps": 8}, "requests": requests}

    return copy.deepcopy(
        {
            "schema": "vllm-parity.observation/1",
            "cell": "cpu-test",
            "family": family,
            "platform": "cpu",
            "contrast": ["batch_size"],
            "contract": contract,
            "require": list(require),
            "environment": {"vllm": "0.32.0"},
            "arms": {
                "reference": arm(reference, 1),
                "candidate": arm(candidate, 4),
                "control": arm(control, 1),
            },
        }
    )


def pair(
    a: Json, b: Json, contract: Json = BITWISE, *, expect: int | None = None, control: Json = None
) -> tuple[str, set[str]]:
    """Return the verdict on one output against another."""
    document = observation(
        [request(a, expect=expect)],
        [request(b, expect=expect)],
        contract=contract,
        control=None if control is None else [request(control, expect=expect)],
    )
    return verdict(document)


# Streams


def entry(token: str, logprob: Any, *top: tuple[str, Any], raw: bool = True) -> Json:
    """Return the logprobs of one position, as they come over the wire."""

    def one(text: str, value: Any) -> Json:
        return {
            "token": text,
            "logprob": value,
            "bytes": list(text.encode()) if raw else None,
        }

    return {**one(token, logprob), "top_logprobs": [one(*item) for item in top]}


def response(*choices: Json, usage: Json = None) -> Json:
    """Return a whole chat completion."""
    return {"object": "chat.completion", "choices": list(choices), "usage": usage}


def choice(
    content: str | None,
    *,
    index: int = 0,
    ids: list[int] | None = None,
    entries: list[Json] | None = None,
    finish: str | None = "length",
    **message: Any,
) -> Json:
    """Return a choice of a whole chat completion."""
    return {
        "index": index,
        "message": {"role": "assistant", "content": content, **message},
        "finish_reason": finish,
        "token_ids": ids,
        "logprobs": None if entries is None else {"content": entries},
    }


def chunk(*choices: Json, usage: Json = None) -> Json:
    """Return one event of a stream."""
    return {"object": "chat.completion.chunk", "choices": list(choices), "usage": usage}


def delta(
    content: str | None = None,
    *,
    index: int = 0,
    ids: list[int] | None = None,
    entries: list[Json] | None = None,
    finish: str | None = None,
    **more: Any,
) -> Json:
    """Return a choice of a chunk."""
    made: Json = {"index": index, "delta": {"content": content, **more}, "finish_reason": finish}
    if ids is not None:
        made["token_ids"] = ids
    if entries is not None:
        made["logprobs"] = {"content": entries}
    return made


def stream(
    whole: Json,
    *events: Json,
    contract: Json = TEXT,
    done: bool = True,
    after_done: int = 0,
    expect: int | None = None,
    control: Json = None,
) -> Json:
    """Return a streaming observation of one request."""
    name = {"id": "r0", "expect_tokens": expect}
    return observation(
        [{**name, "response": whole}],
        [{**name, "events": list(events), "done": done, "after_done": after_done}],
        contract=contract,
        family="streaming",
        control=None if control is None else [{**name, "response": control}],
    )
