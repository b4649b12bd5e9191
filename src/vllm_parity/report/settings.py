"""What a verdict may depend on besides chance: two records that agree in it must agree."""

from __future__ import annotations

import hashlib
import json
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import msgspec

from vllm_parity.judge.pairing import same_json
from vllm_parity.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vllm_parity.matrix import Cell
    from vllm_parity.schema import Arm, Contract, Observation

REVISION = "vllm_parity_revision"
"""Of all settings the one that moves with every commit here: it tells no two environments apart."""


class Sign(StrEnum):
    """What a record shows of the numbers."""

    GREEN = "green"
    RED = "red"
    NONE = "none"
    """Nothing: an engine failed, or something was not witnessed."""


_SIGNS = {Verdict.PASS: Sign.GREEN, Verdict.DIVERGED: Sign.RED, Verdict.NOISY: Sign.RED}
_CONTROL_SIGNS = {Verdict.DIVERGED: Sign.GREEN, Verdict.PASS: Sign.RED}


def sign_of(verdict: Verdict, cell: Cell | None) -> Sign:
    """Return what a verdict shows; a negative control is green where it diverges.

    Waivers, and that a cell does not gate, change what counts and not what was seen.
    """
    signs = _CONTROL_SIGNS if cell is not None and cell.negative_control else _SIGNS
    return signs.get(verdict, Sign.NONE)


def settings_of(observation: Observation) -> dict[str, str]:
    """Return the environment, both arms' knobs, the contract and the requests, each as text.

    A knob in which the arms differ is both values. The requests are told apart by all that is
    recorded of them: their ids, lengths and the ends of their prompts.
    """
    found = dict(observation.environment)
    arms = observation.arms
    if arms.reference is None or arms.candidate is None:
        return found
    own = {
        **_knobs(arms.reference, arms.candidate),
        "contract": _contract(observation.contract),
        "requests": _requests(arms.reference),
    }
    return found | {f"knobs.{name}" if name in found else name: own[name] for name in own}


def environment_of(settings: Mapping[str, str]) -> frozenset[tuple[str, str]]:
    """Return what two records must share to be of the same environment."""
    return frozenset((name, value) for name, value in settings.items() if name != REVISION)


def _knobs(reference: Arm, candidate: Arm) -> dict[str, str]:
    found = {}
    for name in {**reference.knobs, **candidate.knobs}:
        left, right = reference.knobs.get(name), candidate.knobs.get(name)
        if left is None and right is None:
            continue  # absent and null are the same
        same = same_json(left, right)
        found[name] = as_text(left) if same else f"{as_text(left)} | {as_text(right)}"
    return found


def as_text(value: Any) -> str:  # noqa: ANN401 - any JSON value
    """Return a value as it can be told apart from others: text as it is, the rest as JSON."""
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)


def _contract(contract: Contract) -> str:
    fields = msgspec.to_builtins(contract)
    words = [f"{name}={fields[name]}" for name in fields if name not in {"kind", "name"}]
    return " ".join([contract.kind.value, *words])


def _requests(arm: Arm) -> str:
    told = sorted(
        (one.id, one.prompt_tokens, one.expect_tokens, one.prompt_tail) for one in arm.requests
    )
    digest = hashlib.sha256(json.dumps(told).encode()).hexdigest()
    return f"{len(told)}, {digest[:8]}"
