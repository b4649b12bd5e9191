"""A close look at the first divergence: texts, values to the last bit, and what is around it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from vllm_parity.judge.evidence import (
    BEYOND,
    EQUAL,
    find_evidence,
    levels,
    name_of,
    sketch,
    top_two,
)
from vllm_parity.judge.findings import DIVERGED
from vllm_parity.judge.layout import LABEL, row
from vllm_parity.judge.texts import parting
from vllm_parity.judge.ulp import ulp_float32
from vllm_parity.judge.values import allowed
from vllm_parity.verdict import Verdict

if TYPE_CHECKING:
    from vllm_parity.judge.evidence import Evidence
    from vllm_parity.judge.findings import Judgement
    from vllm_parity.judge.sides import Side
    from vllm_parity.schema import Contract, Observation

_AROUND = 2
_SHOWN = 72


def close_up(observation: Observation, judgement: Judgement) -> list[str]:
    """Return lines on the first divergence that has a place; none where there is none."""
    if judgement.verdict not in {Verdict.DIVERGED, Verdict.INVALID_PAIR}:
        return []
    placed = (r for r in judgement.reasons if r.code in DIVERGED and r.output is not None)
    reason = next(placed, None)
    found = None if reason is None else find_evidence(observation, reason)
    if found is None:
        return []
    lines = _texts(found)
    if found.position is not None:
        lines += _values(found, found.position, observation.contract)
        lines += _tops(found, found.position)
        lines += _window(found, found.position)
    marks = levels(found, observation.contract, judgement)
    return lines + _extent(found, marks) if any(marks) else lines


def _texts(found: Evidence) -> list[str]:
    """Show the end of the prompt, and how the texts go on where they part."""
    lines = []
    if found.request.prompt_tail:
        lines.append(row("prompt", f"...{found.request.prompt_tail[-_SHOWN:]!r}", lines=1))
    texts = found.reference.text, found.candidate.text
    pairs = {name: [text.get(name) or "" for text in texts] for name in {**texts[0], **texts[1]}}
    # Those that differ first, and of those that do not only one, for orientation.
    differing = {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
    for name, pair in list((differing or pairs).items())[:2]:
        start = max(0, parting(*pair) - _SHOWN // 2) if differing else 0
        for arm, text in zip(("reference", "candidate"), pair, strict=True):
            shown = f"{'...' * bool(start)}{text[start : start + _SHOWN]!r}"
            lines.append(row(arm, f"{name} {shown}", lines=1))
    return lines


def _values(found: Evidence, position: int, contract: Contract) -> list[str]:
    """Show the pair of values that is furthest apart at the position, to the last bit."""
    pair = _worst_pair(found, position)
    if pair is None:
        return []
    key, a, b = pair
    lines = []
    for arm, value in (("reference", a), ("candidate", b)):
        bits = int(np.float32(value).view(np.uint32))
        number = f"{np.float32(value)!s:<16} 0x{bits:08x}  {value.hex()}"
        lines.append(row(arm, f"{name_of(key)}: {number}", lines=1))
    gap = 0.0 if a == b else abs(a - b)
    limit = float(allowed(contract, np.float32(a)))
    rel = gap / abs(a) if a else math.inf if gap else 0.0
    ulp = int(ulp_float32(np.asarray(a, np.float32), np.asarray(b, np.float32)))
    room = f"{1 - gap / limit:.0%}" if limit else "none"
    text = (
        f"abs {gap:.6g}, rel {rel:.3g} (abs / |reference|), {ulp} float32 ULP; "
        f"allowed {limit:.6g}, headroom {room}"
    )
    return [*lines, row("apart by", text)]


def _worst_pair(found: Evidence, position: int) -> tuple[int, float, float] | None:
    a, b = found.reference, found.candidate
    if a.listed is None or b.listed is None or position >= min(a.length, b.length):
        return None
    left, right = a.listed.row(position), b.listed.row(position)

    def distance(key: int) -> float:
        gap = 0.0 if left[key] == right[key] else abs(left[key] - right[key])
        # NaN comes first: where there is one, the finding is about it.
        return math.inf if math.isnan(gap) else gap

    key = max((key for key in left if key in right), key=distance, default=None)
    return None if key is None else (key, left[key], right[key])


def _tops(found: Evidence, position: int) -> list[str]:
    return [
        row("top two", f"{arm}: {top_two(side, position)}", lines=1)
        for arm, side in (("reference", found.reference), ("candidate", found.candidate))
    ]


def _window(found: Evidence, position: int) -> list[str]:
    """Show five positions around the one that matters: generated token and its value."""
    last = max(found.reference.length, found.candidate.length) - 1
    start = max(0, min(position - _AROUND, last - 2 * _AROUND))
    lines = [row("position", f"{'reference':>13}{'candidate':>32}{'apart by':>31}", lines=1)]
    for at in range(start, min(start + 2 * _AROUND, last) + 1):
        cells = [_cell(side, at) for side in (found.reference, found.candidate)]
        (token_a, a, text_a), (token_b, b, text_b) = cells
        gap = ""
        if token_a == token_b and a is not None and b is not None:
            gap = "0" if a == b else f"{abs(a - b):.6g}"
        marker = ">" if at == position else " "
        line = f"{marker}{at:>{LABEL - 2}} {text_a:<32}{text_b:<32}{gap}"
        lines.append(line.rstrip())
    return lines


def _cell(side: Side, at: int) -> tuple[int | None, float | None, str]:
    """Return the token, its value, and both as text."""
    if side.token_ids is None or at >= side.length:
        return None, None, "-"
    token = int(side.token_ids[at])
    if side.listed is None or not side.listed.present[at]:
        return token, None, f"{token:<9}no logprob"
    return token, float(side.listed.own[at]), f"{token:<9}{side.listed.own[at]!s}"


def _extent(found: Evidence, marks: list[int]) -> list[str]:
    """Say how many positions differ, and draw where."""
    drawn, each = sketch(marks)
    differ = sum(mark != EQUAL for mark in marks)
    beyond = sum(mark >= BEYOND for mark in marks)
    rest = max(found.reference.length, found.candidate.length) - len(marks)
    text = f"{differ} of {len(marks)} comparable positions differ, {beyond} beyond the contract"
    if rest:
        text += f"; {rest} more are not comparable"
    many = "1 position" if each == 1 else f"{each} positions"
    return [
        row("extent", text),
        row("", drawn),
        row("", f". equal, + within, # beyond, x flip; one character is {many}"),
    ]
