"""Reading server-sent events as they are: nothing is repaired, nothing is dropped."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

_LINE_END = re.compile(rb"\r\n|\n|\r")


@dataclass(frozen=True, kw_only=True)
class Transcript:
    """The events before ``[DONE]``, whether that came, and how many events came after it.

    An event that is not JSON is kept as ``{"object": "not json", "data": TEXT}``: no chunk, which
    a judge calls a break of the protocol.
    """

    events: tuple[dict[str, Any], ...]
    done: bool
    after_done: int


def parse_sse(raw: bytes) -> Transcript:
    """Parse a whole response body (https://html.spec.whatwg.org/multipage/server-sent-events.html).

    An event's data lines are joined; comments and other fields are passed over. A last event that
    no blank line ends was cut off: it is dropped, as the standard asks, and so no ``[DONE]`` either.
    """
    events: list[dict[str, Any]] = []
    done = False
    after_done = 0
    data: list[str] = []
    for line in _LINE_END.split(raw):
        if line:
            field, _, value = line.partition(b":")
            if field == b"data":
                data.append(value.removeprefix(b" ").decode("utf-8", errors="replace"))
        elif data:
            text, data = "\n".join(data), []
            if done:
                after_done += 1
            elif text == "[DONE]":
                done = True
            else:
                events.append(_event(text))
    return Transcript(events=tuple(events), done=done, after_done=after_done)


def _event(text: str) -> dict[str, Any]:
    try:
        event = json.loads(text)
    except json.JSONDecodeError:
        event = None
    return event if isinstance(event, dict) else {"object": "not json", "data": text}
