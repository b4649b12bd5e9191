"""The parts of an OpenAI chat completion: what a choice holds, read strictly.

Servers send null, an empty string or nothing at all for the same thing, and all are fine. A value
of another type is not: it is `BrokenError`, and the caller says what that means.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from vllm_parity.judge.sides import Listed, Side
from vllm_parity.logprobs import as_float32

T = TypeVar("T")

Keys = dict[tuple[object, int], int]
"""A negative number for the bytes or text of each token, and for how often it came before."""

_WORDS = ("nan", "inf", "-inf")
_LIMIT = 1 << 63


class BrokenError(Exception):
    """A payload is not what the protocol says. Its text is the whole complaint."""


@dataclass(kw_only=True, slots=True)
class Entry:
    """The logprobs at one position."""

    key: object
    value: float | None
    listed: list[tuple[object, float]]


@dataclass(kw_only=True, slots=True)
class Part:
    """What one chunk, or a whole response, has for one choice."""

    role: str | None
    texts: dict[str, str]
    finish: str | None
    token_ids: list[int] | None
    entries: list[Entry] | None


@dataclass(kw_only=True, slots=True)
class Choice:
    """A choice while it is put together."""

    texts: dict[str, list[str]] = field(default_factory=dict)
    roles: list[str] = field(default_factory=list)
    finishes: list[str] = field(default_factory=list)
    token_ids: list[int] | None = None
    logprobs: list[tuple[int, list[Entry] | None]] = field(default_factory=list)
    """How many ids each chunk had, and the logprobs beside them."""

    def take(self, part: Part) -> None:
        """Add what a chunk brings."""
        for name, text in part.texts.items():
            self.texts.setdefault(name, []).append(text)
        if part.role is not None:
            self.roles.append(part.role)
        if part.finish:
            self.finishes.append(part.finish)
        if part.token_ids is not None:
            self.token_ids = self.token_ids or []
            self.token_ids.extend(part.token_ids)
        self.logprobs.append((len(part.token_ids or ()), part.entries))

    def side(self, index: int, keys: Keys, *, whole: bool = False) -> Side:
        """Return the choice, ready to compare; a `whole` one did not come in chunks."""
        texts = {name: "".join(pieces) for name, pieces in self.texts.items()}
        ids = self.token_ids
        if not ids and any(texts.values()):
            ids = None  # a role chunk may have an empty list; no ids for a text are no ids
        entries = self._entries(0 if ids is None else len(ids))
        listed = None
        if ids is not None and entries is not None:
            listed = _listed(entries[: len(ids)], len(ids), keys)
        return Side(
            index=index,
            token_ids=None if ids is None else np.array(ids, np.int64),
            listed=listed,
            text=texts,
            finish_reason=self.finishes[-1] if self.finishes else None,
            finished=whole or bool(self.finishes),
            surplus=0 if ids is None else max(0, len(entries or ()) - len(ids)),
        )

    def _entries(self, length: int) -> list[Entry | None] | None:
        """Return the logprobs of every position, None where there are none at all.

        Ids and their logprobs may come in different chunks, so each is put together by itself.
        Only where logprobs are missing do the chunks tell which: those that had more ids.
        """
        given = [entries for _, entries in self.logprobs if entries is not None]
        if not given:
            return None
        joined: list[Entry | None] = [entry for entries in given for entry in entries]
        if len(joined) >= length:
            return joined
        placed: list[Entry | None] = []
        for ids, entries in self.logprobs:
            placed += entries or []
            placed += [None] * (ids - len(entries or ()))
        return placed if len(placed) == length else joined


def _listed(entries: list[Entry | None], length: int, keys: Keys) -> Listed:
    """Return logprobs as columns, the alternatives under numbers that both arms share."""
    own = np.full(length, np.nan)
    present = np.zeros(length, np.bool_)
    own_keys = np.zeros(length, np.int64)
    counts = np.zeros(length, np.int64)
    columns: list[tuple[int, float]] = []
    for position, entry in enumerate(entries):
        if entry is None:
            continue
        row = _numbered(entry.listed, keys)
        columns.extend((number, value) for _, number, value in row)
        counts[position] = len(row)
        own_keys[position] = _own_number(entry, row, keys)
        if entry.value is not None:
            own[position], present[position] = entry.value, True
    return Listed(
        own=as_float32(own),
        present=present,
        own_keys=own_keys,
        offsets=np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)]),
        keys=np.array([number for number, _ in columns], np.int64),
        at=np.repeat(np.arange(length), counts),
        values=as_float32(np.array([value for _, value in columns], float)),
    )


def _numbered(listed: list[tuple[object, float]], keys: Keys) -> list[tuple[object, int, float]]:
    """Give each alternative its number; equal ones pair in order of value."""
    ordered = sorted(listed, key=lambda item: (math.isnan(item[1]), -item[1]))
    seen: Counter[object] = Counter()
    row = []
    for key, value in ordered:
        row.append((key, _number(keys, key, seen[key]), value))
        seen[key] += 1
    return row


def _own_number(entry: Entry, row: list[tuple[object, int, float]], keys: Keys) -> int:
    """Return the number of the generated token: that of its copy in the list, if there is one."""
    value = math.nan if entry.value is None else entry.value
    copies = [(abs(other - value), number) for key, number, other in row if key == entry.key]
    return min(copies)[1] if copies else _number(keys, entry.key, 0)


def _number(keys: Keys, key: object, times: int) -> int:
    # Below zero, so that none is ever taken for a token id.
    return keys.setdefault((key, times), -1 - len(keys))


# Reading


def read_choice(choice: object, body: str) -> tuple[int, Part]:
    """Read one element of `choices`, whose text is in its `body`: a message or a delta."""
    fields = _typed(choice, dict, "choices: expected objects")
    index = _whole_number(fields.get("index"), "choices: expected an index")
    content = fields.get(body)
    if content is None and body == "delta":
        content = {}
    message = _typed(content, dict, f"choices[{index}].{body}: expected an object")
    ids = _optional(fields.get("token_ids"), list, f"choices[{index}].token_ids: expected a list")
    part = Part(
        role=_optional(message.get("role"), str, f"choices[{index}].role: expected a text"),
        texts=_texts(message, f"choices[{index}].{body}"),
        finish=_optional(
            fields.get("finish_reason"), str, f"choices[{index}].finish_reason: expected a text"
        ),
        token_ids=ids
        and [_whole_number(item, f"choices[{index}].token_ids: expected ids") for item in ids],
        entries=_entries(fields.get("logprobs"), f"choices[{index}].logprobs"),
    )
    return index, part


def read_usage(payload: dict[str, Any]) -> dict[str, Any] | None:
    """Return the usage of a response or chunk, None where it has none."""
    return _optional(payload.get("usage"), dict, "usage: expected an object")


def _texts(message: dict[str, Any], place: str) -> dict[str, str]:
    """Return every text of a message that counts, by name."""
    texts = {
        "content": _text(message.get("content"), f"{place}.content"),
        "reasoning": _text(message.get("reasoning"), f"{place}.reasoning")
        or _text(message.get("reasoning_content"), f"{place}.reasoning_content"),
        "refusal": _text(message.get("refusal"), f"{place}.refusal"),
    }
    where = f"{place}.tool_calls"
    calls = _optional(message.get("tool_calls"), list, f"{where}: expected a list") or []
    for position, item in enumerate(calls):
        call = _typed(item, dict, f"{where}: expected objects")
        number = call.get("index")
        if number is None:
            number = position
        number = _whole_number(number, f"{where}: expected an index")
        function = _optional(call.get("function"), dict, f"{where}: expected a function") or {}
        for name in ("name", "arguments"):
            key = f"tool call {number} {name}"
            texts[key] = texts.get(key, "") + _text(function.get(name), f"{where}.{name}")
    return texts


def _entries(logprobs: object, place: str) -> list[Entry] | None:
    fields = _optional(logprobs, dict, f"{place}: expected an object")
    content = fields and _optional(fields.get("content"), list, f"{place}.content: expected a list")
    if content is None:
        return None
    return [_entry(item, f"{place}.content[{i}]") for i, item in enumerate(content)]


def _entry(item: object, place: str) -> Entry:
    key, value = _token(item, place)
    top = _optional(
        _typed(item, dict, place).get("top_logprobs"),
        list,
        f"{place}.top_logprobs: expected a list",
    )
    pairs = [_token(other, f"{place}.top_logprobs") for other in top or []]
    # Null is how some servers write what is not there.
    listed = [(key, value) for key, value in pairs if value is not None]
    return Entry(key=key, value=value, listed=listed)


def _token(item: object, place: str) -> tuple[object, float | None]:
    """Return what tells a token from others, and its logprob."""
    fields = _typed(item, dict, f"{place}: expected an object")
    raw = _optional(fields.get("bytes"), list, f"{place}.bytes: expected a list")
    key: object
    if raw is None:
        key = _typed(fields.get("token"), str, f"{place}.token: expected a text")
    else:
        try:
            key = bytes(raw)
        except (TypeError, ValueError):
            msg = f"{place}.bytes: expected numbers from 0 to 255"
            raise BrokenError(msg) from None
    return key, _logprob(fields.get("logprob"), f"{place}.logprob")


def _logprob(value: object, place: str) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not (isinstance(value, int | float) or value in _WORDS):
        msg = f"{place}: expected a number"
        raise BrokenError(msg)
    try:
        return float(value)
    except OverflowError:
        msg = f"{place}: expected a number that a float can hold"
        raise BrokenError(msg) from None


def _text(value: object, place: str) -> str:
    return _optional(value, str, f"{place}: expected a text") or ""


def _whole_number(value: object, complaint: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not -_LIMIT <= value < _LIMIT:
        raise BrokenError(complaint)
    return value


def _optional(value: object, kind: type[T], complaint: str) -> T | None:
    return None if value is None else _typed(value, kind, complaint)


def _typed(value: object, kind: type[T], complaint: str) -> T:
    if not isinstance(value, kind):
        raise BrokenError(complaint)
    return value
