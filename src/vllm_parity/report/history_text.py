"""What people and programs read of a cell's history."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec

from vllm_parity.judge.layout import printable
from vllm_parity.report.history import NOT_RECORDED, Clock, steps
from vllm_parity.report.terminal import worst_words
from vllm_parity.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from vllm_parity.report.history import Change, Group, History, Record, Suspect

_HEADER = ("when", "verdict", "worst abs", "vllm", "changed since the one before", "record")

_VALUE = 40
"""So much of a value is shown."""

_HASH = re.compile(r"\b([0-9a-f]{10})[0-9a-f]{30,}")
"""A revision, or a checksum: its beginning tells it from others."""

_SEEN = {Verdict.DIVERGED: "diverging", Verdict.NOISY: "noisy", Verdict.PASS: "passing"}
"""Of a negative control, a pass is red."""

_IN_A_ROW = 2
"""So many changes are shown in a row of the table, where there are more than one more."""

_IN_A_LINE = 12


def as_text(history: History, left_out: Mapping[str, int]) -> str:
    """Return a table of the records, oldest first, and what they show."""
    rows = [_HEADER, *(_row(record, changed) for record, changed in steps(history.records))]
    lines = [history.cell, *_table(rows), "", *_findings(history)]
    lines += [f"left out: {what}: {count}" for what, count in left_out.items() if count]
    if any(record.clock is Clock.FILE for record in history.records):
        lines.append("~ the time of the file: the record itself has none")
    return "\n".join(printable(line) for line in lines) + "\n"


def _row(record: Record, changed: Sequence[Change]) -> tuple[str, ...]:
    few = len(changed) <= _IN_A_ROW + 1
    return (
        _when(record),
        record.outcome.words if len(record.outcome.words) <= _VALUE else record.verdict,
        worst_words(record.judgement)[0],
        _short(record.environment.get("vllm", "-")),
        _listed(changed, len(changed) if few else _IN_A_ROW) or "-",
        record.file,
    )


def _table(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        cells = (word.ljust(width) for word, width in zip(row, widths, strict=True))
        yield "  ".join(cells).rstrip()


def _findings(history: History) -> Iterator[str]:
    if history.first_red is None:
        yield "no record of it is red"
    else:
        yield from _onset(history, history.first_red)
    for group in history.flaky:
        yield f"flaky: red in {group.rate.words}{_under(group, history.varying)}"
        if group.turned_with_revision:
            yield (
                "  but it changed once, and so did the revision of vllm-parity: that may have"
                " changed how the cell is run"
            )
    for suspect in history.suspects:
        yield f"suspect: {suspect.name} ({_values(suspect)})"
    latest = history.records[-1]
    yield f"latest: {latest.outcome.words}" + (f"; {latest.found}" if latest.found else "")


def _onset(history: History, first: Record) -> Iterator[str]:
    found = f"; {first.found}" if first.found else ""
    yield f"first seen {_SEEN[first.verdict]}: {_when(first)} in {first.file}{found}"
    if history.last_green is None:
        yield "  no green record is older"
        return
    green = history.last_green
    yield f"  last green before it: {_when(green)} in {green.file}"
    if history.between:
        yield f"  between {_listed(history.between, _IN_A_LINE, sign=' ')}"
    else:
        yield "  nothing that is recorded differs between the two"


def _under(group: Group, varying: Iterable[str]) -> str:
    """Say which environment it is, where there are several."""
    told = [f"{name} {_short(group.settings.get(name, NOT_RECORDED))}" for name in varying]
    return f", under {_cut(told, _IN_A_LINE)}" if told else ""


def _values(suspect: Suspect) -> str:
    told = [f"{_short(value)}: {words}" for value, words in suspect.values.items()]
    return _cut(told, _IN_A_LINE)


def _listed(changed: Sequence[Change], limit: int, *, sign: str = ": ") -> str:
    told = [f"{one.name}{sign}{_short(one.before)} -> {_short(one.after)}" for one in changed]
    return _cut(told, limit)


def _cut(told: Sequence[str], limit: int) -> str:
    more = [f"and {len(told) - limit} more"] if len(told) > limit else []
    return ", ".join([*told[:limit], *more])


def _when(record: Record) -> str:
    mark = "~" if record.clock is Clock.FILE else ""
    return f"{mark}{record.time:%Y-%m-%d %H:%M:%S}"


def _short(value: str) -> str:
    value = _HASH.sub(r"\1", value)
    return value if len(value) <= _VALUE else f"{value[: _VALUE - 3]}..."


def as_json(history: History, left_out: Mapping[str, int]) -> str:
    """Return all of it as one JSON object."""
    document = {
        "cell": history.cell,
        "records": [_record(one) for one in history.records],
        "flaky": [_flaky(group, history.varying) for group in history.flaky],
        "first_red": _place(history.first_red),
        "last_green_before": _place(history.last_green),
        "between": [
            {"name": one.name, "before": one.before, "after": one.after} for one in history.between
        ],
        "suspects": [{"name": one.name, "values": one.values} for one in history.suspects],
        "left_out": left_out,
    }
    return msgspec.json.format(msgspec.json.encode(document)).decode() + "\n"


def _place(record: Record | None) -> dict[str, str] | None:
    if record is None:
        return None
    return {"file": record.file, "time": f"{record.time:%Y-%m-%dT%H:%M:%SZ}"}


def _record(record: Record) -> dict[str, Any]:
    return {
        **(_place(record) or {}),
        "time_is_of": record.clock,
        "verdict": record.verdict,
        "outcome": record.outcome.counts,
        "note": record.outcome.note,
        "worst": record.judgement.as_dict()["worst"],
        "environment": record.environment,
    }


def _flaky(group: Group, varying: Iterable[str]) -> dict[str, Any]:
    low, high = group.rate.interval()
    return {
        "events": group.rate.events,
        "runs": group.rate.runs,
        "low": low,
        "high": high,
        "turned_with_revision": group.turned_with_revision,
        "settings": {name: group.settings.get(name) for name in varying},
    }
