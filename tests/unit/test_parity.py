"""`assert_parity` on what vLLM returns, and on plain data."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import vllm_parity
from vllm_parity import Contract, assert_parity
from vllm_parity.judge import judge

EXAMPLE = Path(__file__).parents[1] / "data" / "good-batch_invariance.json"


@dataclass
class Logprob:
    logprob: float
    rank: int = 1


@dataclass
class CompletionOutput:
    token_ids: list[int]
    logprobs: Any = None
    index: int = 0
    text: str = "text"
    finish_reason: str | None = "length"


@dataclass
class RequestOutput:
    request_id: str
    outputs: list[CompletionOutput]
    prompt_token_ids: list[int] | None = field(default_factory=lambda: [1, 2])


def run(*names: str, value: float = -0.25, ids: tuple[int, ...] = (7, 8)) -> list[RequestOutput]:
    return [
        RequestOutput(
            name,
            [CompletionOutput(list(ids), [{i: Logprob(value), 99: Logprob(-2.0)} for i in ids])],
        )
        for name in names
    ]


def test_the_same_twice() -> None:
    judgement = assert_parity(run("0", "1"), run("0", "1"))
    assert judgement.compared.logprobs == 8
    assert assert_parity(run("0")[0], run("0")[0]).compared.requests == 1


def test_ids_pair_where_they_are_the_same_and_places_where_not() -> None:
    a, b = run("0"), run("1", value=-0.5)
    assert_parity([*a, *b], [*b, *a])
    assert_parity(run("0", "1"), run("2", "3"))


def test_a_divergence_is_readable() -> None:
    with pytest.raises(AssertionError) as raised:
        assert_parity(run("0"), run("0", value=-0.2500001))
    text = str(raised.value)
    assert text.startswith("DIVERGED  assert_parity")
    assert "3 float32 ULP" in text
    assert "request 0, output 0, position 0" in text


def test_a_contract_by_kind_by_fields_and_as_such() -> None:
    other = run("0", value=-0.2500001)
    close = {"kind": "close", "atol": 1e-6, "rtol": 0.0}
    for contract in ("tokens", close, Contract(**close)):  # type: ignore[arg-type]
        assert_parity(run("0"), other, contract)
    with pytest.raises(ValueError, match="both atol and rtol"):
        assert_parity(run("0"), other, "close")


def test_what_is_incomplete_is_no_parity() -> None:
    bare = [RequestOutput("0", [CompletionOutput([7])])]
    with pytest.raises(AssertionError, match="UNVERIFIED"):
        assert_parity(bare, bare)
    with pytest.raises(AssertionError, match="missing_request"):
        assert_parity(run("0", "1"), run("0"))
    with pytest.raises(AssertionError, match="empty"):
        assert_parity([], [])
    with pytest.raises(AssertionError, match="short"):
        assert_parity(run("0"), run("0"), expect_tokens=3)
    holes = run("0")
    holes[0].outputs[0].logprobs[1] = None
    with pytest.raises(AssertionError, match="missing_logprobs"):
        assert_parity(run("0"), holes)
    with pytest.raises(AssertionError, match="missing_request"):
        assert_parity([{"outputs": None}], [{"outputs": None}])


def test_prompts_are_compared_where_both_are_given() -> None:
    other = run("0")
    other[0].prompt_token_ids = list(range(40))
    with pytest.raises(AssertionError, match=r"prompts of 0 differ: \[1, 2\] \(2 tokens\) and \[0"):
        assert_parity(run("0"), other)
    other[0].prompt_token_ids = None
    assert_parity(run("0"), other)


def test_plain_data() -> None:
    plain = {"id": "a", "outputs": [{"index": 1, "token_ids": [7], "logprobs": [{"7": -0.25}]}]}
    assert assert_parity(plain, [plain]).compared.positions == 1


def test_importing_is_cheap_and_complete() -> None:
    code = (
        "import sys, vllm_parity;"
        "assert 'numpy' not in sys.modules and 'msgspec' not in sys.modules;"
        "from vllm_parity import judge, load_observation, load_contracts, explain;"
        "import vllm_parity.judge as package;"
        "assert judge is package and 'judge' in dir(vllm_parity);"
        f"seen = load_observation({str(EXAMPLE)!r});"
        "assert judge(seen).verdict == judge.judge(seen).verdict == 'pass'"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = vllm_parity.nothing


def test_the_package_judge_is_also_its_function() -> None:
    observation = vllm_parity.load_observation(EXAMPLE)
    assert vllm_parity.judge(observation) == judge(observation)
    assert "judge" in dir(vllm_parity)
