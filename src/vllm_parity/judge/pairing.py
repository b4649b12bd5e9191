"""Are the arms a pair at all? Nothing may differ but what the cell is about."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vllm_parity.judge.findings import Code
from vllm_parity.judge.tally import Place

if TYPE_CHECKING:
    from vllm_parity.judge.tally import Tally
    from vllm_parity.schema import Arm, Observation

_SHOWN = 120


def check_knobs(observation: Observation, reference: Arm, candidate: Arm, tally: Tally) -> None:
    """Check that the arms differ in the contrast, and in nothing else but what follows it."""
    moved = set(differing(reference.knobs, candidate.knobs))
    for knob in sorted(moved - {*observation.contrast, *observation.follows}):
        values = _both(knob, reference, candidate)
        tally.add(Code.EXTRA_KNOB, f"{knob} differs and is no part of the contrast: {values}")
    for knob in observation.contrast:
        if knob not in moved:
            value = shown(reference.knobs.get(knob))
            tally.add(Code.SAME_KNOB, f"{knob} should differ and is {value} in both arms")
    control = observation.arms.control
    if control is not None:
        for knob in sorted(differing(reference.knobs, control.knobs)):
            values = _both(knob, reference, control)
            tally.add(Code.EXTRA_KNOB, f"{knob} differs between reference and control: {values}")


def check_prompts(reference: Arm, candidate: Arm, tally: Tally) -> None:
    """Check that a request that both arms ran was the same request."""
    others = {request.id: request for request in candidate.requests}
    for request in reference.requests:
        other = others.get(request.id)
        if other is None:
            continue
        for field in ("prompt_tokens", "expect_tokens"):
            left, right = getattr(request, field), getattr(other, field)
            if left != right:
                message = (
                    f"{field} is {shown(left)} in the reference, {shown(right)} in the candidate"
                )
                tally.add(Code.PROMPT, message, Place(request=request.id))


def differing(left: dict[str, Any], right: dict[str, Any]) -> list[str]:
    """Return the knobs that differ; an absent one is null.

    >>> differing({"a": 1, "b": None, "c": 1}, {"a": 1.0, "c": True})
    ['c']
    """
    knobs = dict.fromkeys([*left, *right])
    return [knob for knob in knobs if not same_json(left.get(knob), right.get(knob))]


def same_json(left: object, right: object) -> bool:
    """Say whether two JSON values are the same; true is not 1 here, though Python says so."""
    # A stack and no recursion: nesting is the file's choice.
    stack = [(left, right)]
    while stack:
        a, b = stack.pop()
        if isinstance(a, dict) and isinstance(b, dict):
            if a.keys() != b.keys():
                return False
            stack.extend((a[key], b[key]) for key in a)
        elif isinstance(a, list | tuple) and isinstance(b, list | tuple):
            if len(a) != len(b):
                return False
            stack.extend(zip(a, b, strict=True))
        elif isinstance(a, bool) is not isinstance(b, bool) or a != b:
            return False
    return True


def _both(knob: str, left: Arm, right: Arm) -> str:
    return f"{shown(left.knobs.get(knob))} against {shown(right.knobs.get(knob))}"


def shown(value: object) -> str:
    """Return a knob's value as text of a bearable length."""
    try:
        text = "null" if value is None else repr(value)
    except RecursionError:
        text = "something nested very deeply"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
