"""Plain responses and server-sent events of any OpenAI server, as an observation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from vllm_parity.errors import FormatError
from vllm_parity.schema import (
    Arm,
    Arms,
    Contract,
    Family,
    Kind,
    Observation,
    Platform,
    Request,
)

if TYPE_CHECKING:
    from pathlib import Path


def read_transcript(response: Path, stream: Path, contract: str | None = None) -> Observation:
    """Read a response and the events of the same request into an observation.

    Without a contract as much is compared as the response gives: `bitwise` where it has token
    ids and logprobs, `tokens` where it has ids alone, else `text`.
    """
    payload = _parse(_read(response), str(response))
    if not isinstance(payload, dict):
        msg = f"{response}: expected a JSON object, a chat completion"
        raise FormatError(msg)
    events, done, after = parse_events(_read(stream), str(stream))
    kind = Kind(contract) if contract else _kind(payload)
    reference = Request(id="request", response=payload)
    candidate = Request(id="request", events=events, done=done, after_done=after)
    return Observation(
        cell="transcript",
        family=Family.STREAMING,
        platform=Platform.OTHER,
        contrast=["stream"],
        contract=Contract(kind=kind),
        environment={},
        arms=Arms(
            reference=Arm(knobs={"stream": False}, witness={}, requests=[reference]),
            candidate=Arm(knobs={"stream": True}, witness={}, requests=[candidate]),
        ),
    )


def parse_events(data: bytes, name: str) -> tuple[list[Any], bool, int]:
    r"""Parse server-sent events: those before `[DONE]`, whether it came, and how many follow it.

    >>> parse_events(b": hi\n\ndata: [1,\ndata: 2]\n\ndata: [DONE]\n\n", "x.sse")
    ([[1, 2]], True, 0)
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        msg = f"{name}: expected UTF-8: {error}"
        raise FormatError(msg) from error
    # Only these three end a line here: str.splitlines knows more, and JSON may hold those.
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    events: list[Any] = []
    done, after = False, 0
    block: list[str] = []
    start = 1
    for number, line in enumerate([*lines, ""], start=1):
        field, _, value = line.partition(":")
        if field == "data":
            start = start if block else number
            block.append(value.removeprefix(" "))
        if line or not block:
            continue
        joined, block = "\n".join(block), []
        if done:
            after += 1
        elif joined.strip() == "[DONE]":
            done = True
        else:
            events.append(_parse(joined.encode(), f"{name}, line {start}"))
    return events, done, after


def _kind(response: dict[str, Any]) -> Kind:
    choices = response.get("choices")
    listed = choices if isinstance(choices, list) else []
    known = [choice for choice in listed if isinstance(choice, dict)]
    if not known or not all(choice.get("token_ids") for choice in known):
        return Kind.TEXT
    return Kind.BITWISE if all(choice.get("logprobs") for choice in known) else Kind.TOKENS


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        msg = f"{path}: cannot be read: {error.strerror}"
        raise FormatError(msg) from error


def _parse(data: bytes, name: str) -> object:
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        msg = f"{name}: expected JSON: {error}"
        raise FormatError(msg) from error
