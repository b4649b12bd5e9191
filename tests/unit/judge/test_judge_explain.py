"""Explanations: one screen, and the cause on it."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from making import (
    BITWISE,
    CLOSE,
    TOKENS,
    choice,
    chunk,
    delta,
    entry,
    good,
    observation,
    output,
    request,
    response,
    stream,
)
from test_judge_properties import pairs

from vllm_parity.judge import explain, judge
from vllm_parity.judge.pairing import shown
from vllm_parity.judge.witness import as_text
from vllm_parity.observation import decode_observation


def explained(document: Any, command: str | None = None) -> str:
    made = decode_observation(json.dumps(document).encode())
    text = explain(made, judge(made), command=command)
    lines = text.splitlines()
    assert len(lines) <= 45
    assert max(map(len, lines)) <= 120
    return text


def rows(count: int, changed: dict[int, float] | None = None) -> list[dict[int, Any]]:
    made: list[dict[int, Any]] = [
        {token: -0.25 - token / 1024, 9000: -2.0} for token in range(count)
    ]
    for position, value in (changed or {}).items():
        made[position][position] = value
    return made


def big(contract: Any, **more: Any) -> Any:
    ids = list(range(300))
    words = [f"w{token}" for token in ids]
    other = [*ids[:200], 777, *ids[201:]]
    changed = rows(300, {20: -0.26954, 90: -0.3379, 91: -0.5})
    changed[200] = {777: -0.25, 200: -0.5, 9000: -2.0}
    a = output(ids, rows(300), text=" ".join(words))
    b = output(other, changed, text=" ".join([*words[:200], "X", *words[201:]]))
    tail = {"prompt_tail": "Tell me a story about numbers.", "prompt_tokens": 12}
    return observation(
        [request(a, name="text-0", expect=300, **tail)],
        [request(b, name="text-0", expect=300, **tail)],
        contract=contract,
        **more,
    )


def test_a_divergence_has_all_that_ends_an_argument() -> None:
    command = "nox -s 'cpu_batch_invariance(text)' -- --cell cpu-test"
    text = explained(big({**CLOSE, "name": "cpu-batch-float32"}), command)
    for expected in (
        "DIVERGED  cpu-test  (batch_invariance on cpu)\n",
        "batch_size: 1 in the reference, 4 in the candidate",
        "close: abs(a - b) <= 0.001 + 0.0 * abs(a), ties within 0.001  (named cpu-batch-float32",
        "request text-0, output 0, position 200: token 200 in the reference is 777",
        "...'Tell me a story about numbers.'",
        "w199 w200 w201",
        "w199 X w201",
        "token 200: -0.4453125",
        "0xbee40000",
        "-0x1.c800000000000p-2",
        "token 200: -0.5",
        "abs 0.0546875, rel 0.123 (abs / |reference|), 1835008 float32 ULP",
        "allowed 0.001, headroom -5369%",
        "reference: token 200 -0.4453125, token 9000 -2.0; gap 1.55469",
        "candidate: token 777 -0.25, token 200 -0.5; gap 0.25",
        "comparable positions differ",
        "99 more are not comparable",
        "1 requests, 201 positions",
        "run again",
        command,
    ):
        assert expected in text or expected in " ".join(text.split())
    assert re.search(r"\n> +200 200 +-0.4453125 +777 ", text)
    (drawn,) = re.findall(r"\n +([.+#x]+)\n", text)
    assert drawn.endswith("x")
    assert "+" in drawn
    assert "#" in drawn


def test_bitwise_has_no_headroom() -> None:
    assert "allowed 0, headroom none" in explained(big(BITWISE))


def test_a_value_alone() -> None:
    made = observation(
        [request(output([1, 2], [{1: 0.0}, {2: -0.5}]))],
        [request(output([1, 2], [{1: -0.5}, {2: -0.5}]))],
    )
    text = explained(made)
    assert "rel inf" in text
    assert "token 1 0.0; no second one listed" in text
    made["arms"]["candidate"]["requests"][0]["outputs"][0]["logprobs"][0]["1"] = "nan"
    assert "nan" in explained(made)


def test_without_logprobs_there_are_still_tokens() -> None:
    a, b = output([1, 2]), output([1, 3])
    a["logprobs"] = b["logprobs"] = None
    text = explained(observation([request(a)], [request(b)], contract=TOKENS))
    assert "nothing listed" in text
    assert "no logprob" in text


def test_a_length() -> None:
    text = explained(observation([request(output([1, 2]))], [request(output([1]))]))
    assert re.search(r"\n> +1 2 +-0.265625 +-\n", text)


def test_texts_alone() -> None:
    made = observation(
        [request(output(None, text="a" * 100 + "b"))],
        [request(output(None, text="a" * 100 + "c"))],
        contract={"kind": "text"},
    )
    text = explained(made)
    assert "differs from character 100" in text
    assert "aab'" in text
    assert "aac'" in text


def test_streams() -> None:
    whole = response(
        choice("ab", reasoning="x", ids=[1, 2], entries=[entry("a", -0.5), entry("b", -0.25)])
    )
    event = chunk(
        delta("ab", reasoning="y", ids=[1, 2], entries=[entry("a", -0.5, ("c", -1.0))] * 2),
        delta("", index=7, finish="stop"),
    )
    text = explained(stream(whole, event, contract=BITWISE, done=False))
    assert "an alternative" in text
    assert "truncated_stream" in text
    assert "reasoning 'x'" in text
    assert "reasoning 'y'" in text


def test_many_findings_hide_none() -> None:
    a = [request(output([1, 2, 3, 4]), name=f"r{n:02}") for n in range(40)]
    b = [request(output([1, 2, 3, 5], text="x"), name=f"r{n:02}") for n in range(40)]
    b[39] = request(output([1, 2, 3, 4], text="x"), name="r39")
    text = explained(observation(a, b, require=("nothing",)))
    for code in ("token_flip", "detokenize", "witness"):
        assert f"\n{code} " in text
    assert "more; --json lists them all" in text


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"not_run": "no GPU here", "arms": None}, "reason            no GPU here"),
        ({"not_run": "", "arms": None}, "reason            none was given"),
        ({"error": {"arm": "candidate", "kind": "crash", "message": "x" * 999}}, "crash: xxx"),
        ({"contrast": ["dtype"]}, "name what the engine itself moves"),
        ({"require": ["nothing>=3"]}, "nothing>=3 is required of the candidate"),
    ],
)
def test_the_other_verdicts(change: Any, expected: str) -> None:
    text = explained({**good("batch_invariance"), **change})
    assert expected in text or expected in " ".join(text.split())
    assert "what now" in text


def test_noise() -> None:
    made = good("spec_decode")
    made["arms"]["control"]["requests"][0]["outputs"][0]["logprobs"][0]["21"] = -0.75
    text = explained(made)
    assert text.startswith("NOISY")
    assert "the reference run once more differs (logprob)" in text
    assert "in the control" in text


def test_an_arm_that_is_missing() -> None:
    made = good("spec_decode")
    made["arms"]["candidate"] = None
    assert "contrast          speculative_config\n" in explained(made)


def test_a_divergence_without_a_partner() -> None:
    whole = response(choice("a"))
    made = stream(whole, {"error": "boom"})
    assert "an error: 'boom'" in explained(made)
    made["arms"]["reference"]["requests"] = []
    assert "an error: 'boom'" in explained(made)


def test_nothing_moves_the_cursor_of_a_terminal() -> None:
    name = "evil\x1b[2J\r\nname\u202e"
    a, b = (request(output([1], text=f"\x1b[31m{n}"), name=name) for n in "ab")
    text = explained(observation([a], [b]))
    assert "\x1b" not in text
    assert "\r" not in text
    assert "\u202e" not in text


@settings(max_examples=200)
@given(pairs())
def test_every_verdict_fits_a_screen(document: Any) -> None:
    explained(document)


def test_a_finding_about_an_output_that_one_arm_alone_has() -> None:
    fake = request(output([1], [{1: -9999.0}]), name="fake")
    fine = request(output([1]), name="fine")
    assert "a stand-in" in explained(observation([fine, fake], [fine]))
    two = request(output([1]), output([1], [{1: -9999.0}], index=1), name="fine")
    assert "a stand-in" in explained(observation([two], [fine]))


def test_values_nested_too_deeply_to_show() -> None:
    deep: Any = 1
    for _ in range(100_000):
        deep = [deep]
    assert shown(deep) == as_text(deep) == "something nested very deeply"


def test_an_error_is_shown_with_the_last_lines_of_its_log() -> None:
    document = big(CLOSE)
    log = "\n".join(f"log line {number}" for number in range(40))
    document["error"] = {"arm": None, "kind": "died", "message": f"the host is gone\n{log}"}
    document["arms"] = {"reference": None, "candidate": None}
    shown_lines = [line.strip() for line in explained(document).splitlines()]
    assert "engine            died: the host is gone" in shown_lines
    assert shown_lines[-2] == "log line 39"
    assert "log line 0" not in shown_lines
