"""Chat completions as they came over the wire, whole or in chunks, as sides to compare.

How many chunks there are and where they split is transport, and nothing here may depend on it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from vllm_parity.errors import FormatError
from vllm_parity.judge.findings import Code
from vllm_parity.judge.pairing import same_json, shown
from vllm_parity.judge.payload import BrokenError, Choice, read_choice, read_usage
from vllm_parity.schema import unpacked

if TYPE_CHECKING:
    from vllm_parity.judge.payload import Keys, Part
    from vllm_parity.judge.sides import Side
    from vllm_parity.judge.tally import Place, Tally
    from vllm_parity.schema import Request

USAGE_FIELDS = ("prompt_tokens", "completion_tokens", "total_tokens")


@dataclass(kw_only=True, slots=True)
class Wire:
    """What one request got over the wire."""

    sides: dict[int, Side] = field(default_factory=dict)
    roles: dict[int, list[str]] = field(default_factory=dict)
    usage: dict[str, Any] | None = None
    protocol: list[str] = field(default_factory=list)
    truncated: str | None = None


def read_wires(
    pair: tuple[Request | None, Request | None], streamed: tuple[bool, bool]
) -> tuple[Wire, Wire]:
    """Read one request of two arms; what is not there is empty."""
    keys: Keys = {}  # shared, so that the same alternative has the same number in both
    left, right = (
        Wire() if request is None else (from_events if stream else from_response)(request, keys)
        for request, stream in zip(pair, streamed, strict=True)
    )
    return left, right


def from_response(request: Request, keys: Keys) -> Wire:
    """Read a response that came whole; raise FormatError where it is no chat completion."""
    wire = Wire()
    response = _unpack(request, "response") or {}
    try:
        if response.get("object") != "chat.completion":
            msg = "expected an object of chat.completion"
            raise BrokenError(msg)
        for choice in _choices(response):
            index, part = read_choice(choice, "message")
            if index in wire.sides:
                msg = f"choices: expected each index once, got {index} again"
                raise BrokenError(msg)
            whole = Choice()
            whole.take(part)
            wire.sides[index] = whole.side(index, keys, whole=True)
            wire.roles[index] = whole.roles
        wire.usage = read_usage(response)
    except BrokenError as error:
        msg = f"the response of request {request.id!r}: {error}"
        raise FormatError(msg) from None
    return wire


def from_events(request: Request, keys: Keys) -> Wire:
    """Put a stream together; what breaks the protocol is noted and left out."""
    wire = Wire()
    choices: dict[int, Choice] = {}
    for number, event in enumerate(_unpack(request, "events") or ()):
        error = event.get("error") if isinstance(event, dict) else None
        if error is not None:
            wire.protocol.append(f"event {number}: an error: {shown(error)}")
        try:
            parts = _read_event(event)
        except BrokenError as broken:
            if error is None:
                wire.protocol.append(f"event {number}: {broken}")
            continue
        for index, part in parts:
            choices.setdefault(index, Choice()).take(part)
        wire.usage = read_usage(event) or wire.usage
    _finish(wire, choices, request, keys)
    return wire


def _finish(wire: Wire, choices: dict[int, Choice], request: Request, keys: Keys) -> None:
    """Turn what was put together into sides, and see whether it ended as it should."""
    for index, choice in choices.items():
        if len(choice.finishes) > 1:
            wire.protocol.append(
                f"choice {index} ends {len(choice.finishes)} times: {choice.finishes}"
            )
        wire.sides[index] = choice.side(index, keys)
        wire.roles[index] = choice.roles
    if request.after_done:
        wire.protocol.append(f"events after [DONE]: {request.after_done}")
    open_ended = [str(index) for index, side in wire.sides.items() if not side.finished]
    if open_ended:
        wire.truncated = f"choice {', '.join(open_ended)} has no finish reason"
    elif not request.done:
        wire.truncated = "no [DONE]"


def _unpack(request: Request, field: str) -> Any:  # noqa: ANN401 - any JSON value
    try:
        return unpacked(getattr(request, field))
    except RecursionError:
        # It could be read when the file was, with a little more of the stack to spare.
        msg = f"the {field} of request {request.id!r}: expected less nesting"
        raise FormatError(msg) from None


def _read_event(event: object) -> list[tuple[int, Part]]:
    if not isinstance(event, dict):
        msg = "not an object"
        raise BrokenError(msg)
    if event.get("object") != "chat.completion.chunk":
        msg = "no chat.completion.chunk"
        raise BrokenError(msg)
    read_usage(event)
    return [read_choice(choice, "delta") for choice in _choices(event)]


def _choices(payload: dict[str, Any]) -> list[object]:
    choices = payload.get("choices")
    if choices is None:
        return []
    if not isinstance(choices, list):
        msg = "choices: expected a list"
        raise BrokenError(msg)
    return choices


def check_roles(left: Wire, right: Wire) -> list[str]:
    """Return a complaint for each choice whose role is not the response's."""
    found = []
    for index, roles in right.roles.items():
        expected = left.roles.get(index) or ["assistant"]
        strange = [role for role in roles if role != expected[0]]
        if strange:
            found.append(f"choice {index} has the role {strange[0]!r}, not {expected[0]!r}")
    return found


def compare_usage(left: Wire, right: Wire, tally: Tally, place: Place) -> None:
    """Compare what both arms say was used."""
    if left.usage is None or right.usage is None:
        return
    for name in USAGE_FIELDS:
        a, b = left.usage.get(name), right.usage.get(name)
        if a is not None and b is not None and not same_json(a, b):
            tally.add(Code.USAGE, f"{name} is {a} in the reference, {b} in the candidate", place)
