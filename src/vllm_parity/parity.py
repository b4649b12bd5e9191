"""Parity of outputs that are at hand, for any test suite: no files, no matrix, no vLLM import."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from vllm_parity.judge import explain, judge
from vllm_parity.observation import (
    Arm,
    Arms,
    Contract,
    Family,
    Kind,
    Observation,
    Output,
    Platform,
    Request,
)
from vllm_parity.verdict import Verdict

if TYPE_CHECKING:
    from vllm_parity.judge import Judgement


def assert_parity(
    reference: object,
    candidate: object,
    contract: Contract | Mapping[str, Any] | str = "bitwise",
    *,
    expect_tokens: int | None = None,
) -> Judgement:
    """Assert that two runs of the same requests gave the same outputs under a contract.

    Each run is what `LLM.generate` returns, one `RequestOutput` of it, or plain data of that
    shape: mappings with `outputs`, each with `token_ids`, `logprobs`, `text`, `finish_reason`.
    Runs pair by request id where both have the same ids, else by place, prompts being compared
    where both give them. With `expect_tokens`, two outputs that both end early do not pass.

    >>> def run(*logprobs):
    ...     rows = [{7: logprob, 8: -2.0} for logprob in logprobs]
    ...     return {"outputs": [{"token_ids": [7] * len(rows), "logprobs": rows}]}
    >>> assert_parity(run(-0.25, -0.5), run(-0.25, -0.5)).compared.logprobs
    4
    >>> close = {"kind": "close", "atol": 1e-6, "rtol": 0}
    >>> assert_parity(run(-0.25), run(-0.2500001), close).worst.ulp
    3
    >>> assert_parity(run(-0.25), run(-0.2500001))
    Traceback (most recent call last):
    AssertionError: DIVERGED ...

    What is not there is no parity either:

    >>> bare = {"outputs": [{"token_ids": [7]}]}
    >>> assert_parity(bare, bare)
    Traceback (most recent call last):
    AssertionError: UNVERIFIED ...
    """
    __tracebackhide__ = True
    runs = _listed(reference), _listed(candidate)
    ids = _ids(*runs)
    observation = Observation(
        cell="assert_parity",
        family=Family.BATCH_INVARIANCE,
        platform=Platform.OTHER,
        contrast=["run"],
        contract=as_contract(contract),
        environment={},
        arms=Arms(
            reference=_arm("reference", runs[0], ids[0], expect_tokens),
            candidate=_arm("candidate", runs[1], ids[1], expect_tokens),
        ),
    )
    _check_prompts(runs, ids)
    judgement = judge(observation)
    if judgement.verdict is not Verdict.PASS:
        raise AssertionError(explain(observation, judgement))
    return judgement


def as_contract(contract: Contract | Mapping[str, Any] | str) -> Contract:
    """Return a contract from its kind, from its fields, or as it is.

    >>> as_contract("tokens").kind
    <Kind.TOKENS: 'tokens'>
    """
    if isinstance(contract, Contract):
        return contract
    if isinstance(contract, str):
        return Contract(kind=Kind(contract))
    return Contract(**contract)


def _listed(run: object) -> list[object]:
    """Return a run as a list of requests."""
    if isinstance(run, Sequence) and not isinstance(run, str):
        return list(run)
    return [run]


def _get(item: object, *names: str) -> Any:  # noqa: ANN401 - duck-typed on purpose
    """Return the first of some fields that an object or a mapping has."""
    for name in names:
        value = item.get(name) if isinstance(item, Mapping) else getattr(item, name, None)
        if value is not None:
            return value
    return None


def _ids(reference: list[object], candidate: list[object]) -> tuple[list[str], list[str]]:
    """Return ids that pair: an engine numbers its requests on, so a second run has others."""
    own = [[_get(item, "request_id", "id") for item in run] for run in (reference, candidate)]
    left, right = ([str(name) for name in names] for names in own)
    if None not in own[0] and sorted(left) == sorted(right) and len({*left}) == len(left):
        return left, right
    return [f"request-{i}" for i in range(len(left))], [f"request-{i}" for i in range(len(right))]


def _check_prompts(runs: tuple[list[object], ...], ids: tuple[list[str], ...]) -> None:
    """Check that requests that pair have the same prompt, where both say what it was."""
    __tracebackhide__ = True
    prompts = [
        {name: _get(item, "prompt_token_ids") for name, item in zip(names, run, strict=True)}
        for names, run in zip(ids, runs, strict=True)
    ]
    for name, left in prompts[0].items():
        right = prompts[1].get(name)
        if left is not None and right is not None and list(left) != list(right):
            msg = f"INVALID_PAIR  the prompts of {name} differ: {_brief(left)} and {_brief(right)}"
            raise AssertionError(msg)


def _brief(ids: Sequence[int]) -> str:
    shown = ", ".join(str(token) for token in ids[:16])
    return f"[{shown}{', ...' if len(ids) > 16 else ''}] ({len(ids)} tokens)"


def _arm(name: str, run: list[object], ids: list[str], expect_tokens: int | None) -> Arm:
    requests = [
        Request(
            id=request_id,
            expect_tokens=expect_tokens,
            outputs=[
                _output(output, place) for place, output in enumerate(_get(item, "outputs") or ())
            ],
        )
        for request_id, item in zip(ids, run, strict=True)
    ]
    return Arm(knobs={"run": name}, witness={}, requests=requests)


def _output(output: object, place: int) -> Output:
    index = _get(output, "index")
    ids, logprobs = _get(output, "token_ids"), _get(output, "logprobs")
    return Output(
        index=place if index is None else index,
        token_ids=None if ids is None else [int(token) for token in ids],
        text=_get(output, "text"),
        finish_reason=_get(output, "finish_reason"),
        logprobs=None if logprobs is None else [_row(row) for row in logprobs],
    )


def _row(row: Mapping[Any, Any] | None) -> dict[int, float]:
    """Return the logprobs of one position; vLLM has objects there, with the value in one field."""
    return {int(token): getattr(value, "logprob", value) for token, value in (row or {}).items()}
