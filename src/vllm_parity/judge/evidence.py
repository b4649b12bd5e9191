"""The facts behind one finding: both sides of its output, looked at again for people."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from vllm_parity.judge.arms import both_sides
from vllm_parity.judge.outputs import first_flip
from vllm_parity.judge.values import allowed

if TYPE_CHECKING:
    from vllm_parity.judge.findings import Judgement, Reason
    from vllm_parity.judge.sides import Side
    from vllm_parity.schema import Contract, Observation, Request

EQUAL, WITHIN, BEYOND, FLIP = range(4)


@dataclass(frozen=True, kw_only=True, slots=True)
class Evidence:
    """One output of both arms, and the position that matters in it."""

    request: Request
    reference: Side
    candidate: Side
    position: int | None


def find_evidence(observation: Observation, reason: Reason) -> Evidence | None:
    """Return both sides of the output that a finding is about, None where it is about none."""
    pair = both_sides(observation, reason.request)
    if pair is None:
        return None
    request, left, right = pair
    # A finding about one output of a request is about one that both arms have, but for controls.
    a, b = (None if reason.output is None else side.get(reason.output) for side in (left, right))
    if a is None or b is None:
        return None
    return Evidence(request=request, reference=a, candidate=b, position=reason.position)


def levels(evidence: Evidence, contract: Contract, judgement: Judgement) -> list[int]:
    """Return for each position up to a flip how far the arms are apart there.

    Own values decide, and whatever finding names a position; past a flip nothing is comparable.
    """
    a, b = evidence.reference, evidence.candidate
    flip = first_flip(a, b)
    span = min(a.length, b.length) if flip is None else flip
    found = np.zeros(span, np.int64)
    if a.listed is not None and b.listed is not None and span:
        left, right = a.listed.own[:span], b.listed.own[:span]
        with np.errstate(invalid="ignore"):
            gap = np.abs(left.astype(np.float64) - right)
            apart = (left != right) & ~(np.isnan(left) & np.isnan(right))
            beyond = apart & ~(gap <= allowed(contract, left))
        found = np.where(beyond, BEYOND, np.where(apart, WITHIN, EQUAL))
    marks = found.tolist()
    for reason in judgement.reasons:
        here = reason.request == evidence.request.id and reason.output == a.index
        if here and reason.position is not None and reason.position < span:
            marks[reason.position] = BEYOND
    return marks if flip is None else [*marks, FLIP]


def sketch(marks: list[int], width: int = 96) -> tuple[str, int]:
    """Draw marks in at most `width` characters, each for as many positions as is returned.

    A character shows the worst of its positions:

    >>> sketch([0, 0, 1, 0, 2, 3], width=3)
    ('.+x', 2)
    """
    each = max(1, -(-len(marks) // width))
    groups = (marks[start : start + each] for start in range(0, len(marks), each))
    return "".join(".+#x"[max(group)] for group in groups), each


def top_two(side: Side, position: int) -> str:
    """Say which two tokens a side finds most probable at a position, and how far apart."""
    if side.listed is None or position >= side.length:
        return "nothing listed"
    row = side.listed.row(position)
    ranked = sorted(row.items(), key=lambda item: item[1], reverse=True)[:2]
    shown = ", ".join(f"{name_of(key)} {np.float32(value)!s}" for key, value in ranked)
    if len(ranked) < 2:
        return f"{shown}; no second one listed"
    return f"{shown}; gap {ranked[0][1] - ranked[1][1]:.6g}"


def name_of(key: int) -> str:
    """Name a token by its id, where it has one."""
    return f"token {key}" if key >= 0 else "an alternative without id"
