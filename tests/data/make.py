"""Write the good examples beside this file: ``python tests/data/make.py``.

They are small and complete: every field that the format knows is in one of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ENVIRONMENT = {"vllm": "0.32.0", "torch": "2.13.0", "device": "NVIDIA H200", "arch": "sm_90"}


def rows(ids: list[int], start: float) -> list[dict[str, float]]:
    """Return logprobs in which the generated token is sometimes first and sometimes last."""
    made = []
    for place, token in enumerate(ids):
        own = start - place / 8
        others = {str(100 + place): own - 0.5, str(200 + place): own - 1.25}
        if place % 2:
            made.append({**{k: v + 1.0 for k, v in others.items()}, str(token): own - 0.75})
        else:
            made.append({str(token): own, **others})
    return made


def output(index: int, ids: list[int], start: float, text: str) -> dict[str, Any]:
    """Return one output."""
    return {
        "index": index,
        "token_ids": ids,
        "text": text,
        "finish_reason": "length",
        "logprobs": rows(ids, start),
    }


def document(cell: str, family: str, contract: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return what all examples share."""
    made = {
        "schema": "vllm-parity.observation/1",
        "cell": cell,
        "family": family,
        "platform": "cuda",
        "contrast": more.pop("contrast"),
        "follows": more.pop("follows", []),
        "contract": contract,
        "require": more.pop("require"),
        "environment": ENVIRONMENT,
        "arms": more.pop("arms"),
        "error": None,
        "not_run": None,
    }
    # The arms are made of the same parts; in a file each has its own.
    copied: dict[str, Any] = json.loads(json.dumps(made))
    return copied


def batch_invariance() -> dict[str, Any]:
    """Return two requests, alone and in one batch, bit for bit the same."""

    def requests(order: list[int]) -> list[dict[str, Any]]:
        made = [
            {
                "id": "image-0",
                "expect_tokens": 5,
                "prompt_tokens": 83,
                "prompt_tail": "What is in this picture?",
                "outputs": [output(0, [5, 9, 7, 7, 2], -0.25, "a cat on a mat")],
            },
            {
                "id": "video-0",
                "expect_tokens": 3,
                "prompt_tokens": 120,
                "outputs": [
                    output(0, [11, 12, 13], -0.125, "two dogs"),
                    output(1, [11, 14, 15], -0.375, "two cats"),
                ],
            },
        ]
        return [made[place] for place in order]

    knobs = {"enforce_eager": False, "dtype": "bfloat16", "env.VLLM_BATCH_INVARIANT": "1"}
    return document(
        "cuda-batch_invariance-image-graph",
        "batch_invariance",
        {"kind": "bitwise"},
        contrast=["batch_size"],
        require=["graph_replays", "max_running_requests>=2", "reference.graph_replays>=3"],
        arms={
            "reference": {
                "knobs": {"batch_size": 1, **knobs},
                "witness": {"graph_replays": 8, "max_running_requests": 1},
                "requests": requests([0, 1]),
            },
            "candidate": {
                "knobs": {"batch_size": 2, **knobs},
                "witness": {"graph_replays": 4, "max_running_requests": 2},
                "requests": requests([1, 0]),
            },
            "control": None,
        },
    )


def spec_decode() -> dict[str, Any]:
    """Return one request with and without drafts, equal but for one tie at the last token."""
    reference = output(0, [21, 22, 23, 24], -0.5, "one two three four")
    candidate = json.loads(json.dumps(reference))
    for row in candidate["logprobs"]:
        for token in row:
            row[token] += 2.0**-12
    # The last token is a tie: both are listed in both arms, closer than the gap allows.
    last = {"24": -1.0, "25": -1.0 - 2.0**-12, "26": -3.0}
    reference["logprobs"][3] = last
    candidate["logprobs"][3] = {"25": -1.0, "24": -1.0 - 2.0**-12, "26": -3.0}
    candidate["token_ids"][3] = 25
    candidate["text"] = "one two three for"

    def request(made: dict[str, Any]) -> list[dict[str, Any]]:
        return [{"id": "text-0", "expect_tokens": 4, "prompt_tokens": 16, "outputs": [made]}]

    def knobs(method: str | None, *, scheduling: bool) -> dict[str, Any]:
        return {
            "speculative_config": None if method is None else {"method": method, "tokens": 3},
            "async_scheduling": scheduling,
            "seed": 42,
        }

    return document(
        "cuda-spec_decode-ngram",
        "spec_decode",
        {"kind": "close", "atol": 0.001, "rtol": 0.0, "tie_gap": 0.0005, "min_compared": 1.0},
        contrast=["speculative_config"],
        follows=["async_scheduling"],
        require=["spec_accepted_tokens>=2", "runner==V1", "control.steps<=9"],
        arms={
            "reference": {
                "knobs": knobs(None, scheduling=True),
                "witness": {"runner": "V1"},
                "requests": request(reference),
            },
            "candidate": {
                "knobs": knobs("ngram", scheduling=False),
                "witness": {"runner": "V1", "spec_draft_tokens": 6, "spec_accepted_tokens": 2},
                "requests": request(candidate),
            },
            "control": {
                "knobs": knobs(None, scheduling=True),
                "witness": {"steps": 4},
                "requests": request(reference),
            },
        },
    )


def entry(token: str, logprob: float, *others: tuple[str, float]) -> dict[str, Any]:
    """Return the logprobs of one position, as they come over the wire."""

    def one(text: str, value: float) -> dict[str, Any]:
        return {"token": text, "logprob": value, "bytes": list(text.encode())}

    top = [one(token, logprob), *(one(*other) for other in others)]
    return {**one(token, logprob), "top_logprobs": top}


def streaming() -> dict[str, Any]:
    """Return one request of two choices, whole and in interleaved chunks."""
    entries = [
        [entry("so", -0.25, ("no", -1.5)), entry(" 世", -0.5, ("a", -0.75)), entry("!", -0.125)],
        [entry("ab", -0.5, ("cd", -0.625)), entry(" c", -0.25, ("d", -3.0))],
    ]
    ids = [[31, 32, 33], [41, 42]]
    call = {"name": "look", "arguments": '{"at": 1}'}
    usage = {"prompt_tokens": 20, "completion_tokens": 5, "total_tokens": 25}
    whole = {
        "object": "chat.completion",
        "model": "m",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "so 世!", "reasoning": "hm, well"},
                "logprobs": {"content": entries[0]},
                "finish_reason": "length",
                "token_ids": ids[0],
            },
            {
                "index": 1,
                "message": {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [{"id": "call-1", "type": "function", "function": call}],
                },
                "logprobs": {"content": entries[1]},
                "finish_reason": "tool_calls",
                "token_ids": ids[1],
            },
        ],
        "usage": usage,
    }

    def event(
        index: int,
        delta: dict[str, Any],
        part: slice | None = None,
        finish: str | None = None,
    ) -> dict[str, Any]:
        made: dict[str, Any] = {"index": index, "delta": delta, "finish_reason": finish}
        if part is not None:
            made["logprobs"] = {"content": entries[index][part]}
            made["token_ids"] = ids[index][part]
        return {"object": "chat.completion.chunk", "model": "m", "choices": [made]}

    def called(function: dict[str, str]) -> dict[str, Any]:
        return {"tool_calls": [{"index": 0, "function": function}]}

    events = [
        event(0, {"role": "assistant", "content": ""}),
        event(1, {"role": "assistant"}),
        event(0, {"reasoning_content": "hm,"}, slice(0, 1)),
        event(1, called({"name": "look", "arguments": ""}), slice(0, 1)),
        event(0, {"reasoning_content": " well", "content": "so"}),
        event(0, {"content": " 世"}, slice(1, 2)),
        event(1, called({"arguments": '{"at":'})),
        event(1, called({"arguments": " 1}"}), slice(1, 2), "tool_calls"),
        event(0, {"content": "!"}, slice(2, 3), "length"),
        {"object": "chat.completion.chunk", "model": "m", "choices": [], "usage": usage},
    ]
    name = {"id": "audio-0", "expect_tokens": 2, "prompt_tokens": 20}
    knobs = {"enable_prefix_caching": False}
    return document(
        "cuda-streaming-audio-graph",
        "streaming",
        {"kind": "bitwise"},
        contrast=["stream"],
        require=["graph_replays"],
        arms={
            "reference": {
                "knobs": {"stream": False, **knobs},
                "witness": {"graph_replays": 4},
                "requests": [{**name, "response": whole}],
            },
            "candidate": {
                "knobs": {"stream": True, **knobs},
                "witness": {"graph_replays": 4},
                "requests": [{**name, "events": events, "done": True, "after_done": 0}],
            },
            "control": {
                "knobs": {"stream": False, **knobs},
                "witness": {},
                "requests": [{**name, "response": whole}],
            },
        },
    )


def examples() -> dict[str, dict[str, Any]]:
    """Return every good example by its family."""
    made = [batch_invariance(), spec_decode(), streaming()]
    return {example["family"]: example for example in made}


def first(example: dict[str, Any], arm: str) -> Any:
    """Return the first request of an arm."""
    return example["arms"][arm]["requests"][0]


Made = Iterator[tuple[str, dict[str, Any], str, list[str]]]


def mutated_batch_invariance() -> Made:
    """Return examples of this family with one thing wrong."""
    example = batch_invariance()
    first(example, "candidate")["outputs"][0]["logprobs"][2]["13"] -= 2.0**-24
    yield "one-bit", example, "diverged", ["logprob"]

    example = batch_invariance()
    rows_ = first(example, "candidate")["outputs"][1]["logprobs"]
    rows_[0]["101"] = rows_[0].pop("100")
    yield "other-member", example, "diverged", ["alternatives"]

    example = batch_invariance()
    first(example, "candidate")["outputs"][0]["logprobs"] = None
    yield "no-logprobs", example, "unverified", ["missing_logprobs"]

    example = batch_invariance()
    del example["arms"]["candidate"]["witness"]["graph_replays"]
    yield "no-graphs", example, "unverified", ["witness"]

    example = batch_invariance()
    example["arms"]["candidate"]["knobs"]["dtype"] = "float16"
    yield "two-knobs", example, "invalid_pair", ["extra_knob"]

    example = batch_invariance()
    for name in ("reference", "candidate"):
        for request in example["arms"][name]["requests"]:
            for output_ in request["outputs"]:
                for token, row in zip(output_["token_ids"], output_["logprobs"], strict=True):
                    row[str(token)] = 0.0
    yield "no-signal", example, "unverified", ["no_signal"]


def mutated_spec_decode() -> Made:
    """Return examples of this family with one thing wrong."""
    example = spec_decode()
    example["contract"]["tie_gap"] = 0.0
    yield "no-tie", example, "diverged", ["token_flip"]

    example = spec_decode()
    for name in ("reference", "candidate", "control"):
        request = first(example, name)
        request["expect_tokens"] = 5
    yield "short", example, "unverified", ["short", "min_compared"]

    example = spec_decode()
    for name in ("candidate", "control"):
        first(example, name)["outputs"][0]["logprobs"][0]["21"] = -0.75
    yield "noise", example, "noisy", ["logprob", "control"]

    example = spec_decode()
    first(example, "candidate")["outputs"][0]["logprobs"][1]["22"] = "nan"
    yield "nan", example, "diverged", ["nonfinite"]

    example = spec_decode()
    example["error"] = {"arm": "candidate", "kind": "timeout", "message": "no step for 600 s"}
    example["arms"]["candidate"] = None
    yield "hang", example, "error", ["engine"]

    example = spec_decode()
    example["not_run"] = "needs a GPU with 24 GiB"
    example["arms"] = None
    yield "no-gpu", example, "not_run", []


def mutated_streaming() -> Made:
    """Return examples of this family with one thing wrong."""
    example = streaming()
    events = first(example, "candidate")["events"]
    events[5]["choices"][0]["delta"]["content"] = " \ufffd"
    yield "split-character", example, "diverged", ["detokenize"]

    example = streaming()
    del first(example, "candidate")["events"][8:]
    first(example, "candidate")["done"] = False
    yield "cut-off", example, "unverified", ["truncated_stream"]

    example = streaming()
    first(example, "candidate")["events"].insert(4, {"error": {"message": "out of memory"}})
    yield "error-event", example, "diverged", ["protocol"]

    example = streaming()
    first(example, "candidate")["events"][9]["usage"]["completion_tokens"] = 6
    yield "usage", example, "diverged", ["usage"]


def mutated() -> dict[str, tuple[dict[str, Any], str, list[str]]]:
    """Return every mutated example by name: document, verdict and reason codes."""
    made = (mutated_batch_invariance(), mutated_spec_decode(), mutated_streaming())
    return {
        name: (example, verdict, sorted(codes))
        for family in made
        for name, example, verdict, codes in family
    }


if __name__ == "__main__":
    for stem, document_ in {f"good-{family}": made for family, made in examples().items()}.items():
        text = json.dumps(document_, indent=1, ensure_ascii=False)
        (HERE / f"{stem}.json").write_text(text + "\n", encoding="utf-8")
    verdicts = {}
    for stem, (document_, verdict_, codes_) in mutated().items():
        text = json.dumps(document_, ensure_ascii=False)
        (HERE / f"mutated-{stem}.json").write_text(text + "\n", encoding="utf-8")
        verdicts[stem] = [verdict_, codes_]
    (HERE / "verdicts.json").write_text(json.dumps(verdicts, indent=1) + "\n", encoding="utf-8")
