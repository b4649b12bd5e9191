"""Comparing what people read: texts and the reason for the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from vllm_parity.judge.findings import Code
from vllm_parity.schema import Kind

if TYPE_CHECKING:
    from vllm_parity.judge.sides import Side
    from vllm_parity.judge.tally import Place, Tally


def compare_endings(a: Side, b: Side, tally: Tally, place: Place) -> None:
    """Compare every text of two outputs, and their finish reasons."""
    ids = a.token_ids is not None and b.token_ids is not None
    if ids and b.finished:
        ids = np.array_equal(a.token_ids, b.token_ids)  # type: ignore[arg-type]
    code = Code.DETOKENIZE if ids else Code.TEXT
    for name in {**a.text, **b.text}:
        left, right = a.text.get(name, ""), b.text.get(name, "")
        if left is None or right is None:
            if tally.contract.kind is Kind.TEXT:
                tally.add(Code.MISSING_TOKENS, f"no {name} in one of the arms", place)
        elif left != right if b.finished else not left.startswith(right):
            tally.add(code, f"{name} {_parting(left, right)}", place)
    if b.finished and a.finish_reason != b.finish_reason:
        message = (
            f"finish reason {a.finish_reason!r} in the reference, "
            f"{b.finish_reason!r} in the candidate"
        )
        tally.add(Code.FINISH_REASON, message, place)


def parting(left: str, right: str) -> int:
    """Return the first character at which two texts differ, or the end of the shorter one."""
    n = min(len(left), len(right))
    return next((at for at in range(n) if left[at] != right[at]), n)


def _parting(left: str, right: str) -> str:
    """Say where two texts part and how each goes on."""
    at = parting(left, right)
    part = slice(max(0, at - 8), at + 16)
    return (
        f"differs from character {at}: {left[part]!r} in the reference, "
        f"{right[part]!r} in the candidate"
    )
