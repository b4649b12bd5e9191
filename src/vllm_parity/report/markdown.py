"""The summary of a merge for a web page: in GitHub's Markdown, small enough for a step of a job."""

from __future__ import annotations

import html
import re
from typing import TYPE_CHECKING

from vllm_parity.report.terminal import worst_words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vllm_parity.report.merge import Entry, Merged

LIMIT = 1_000_000
"""Bytes: GitHub takes a MiB from a step."""

_ROW_LIMIT = 2_000
_SPECIAL = re.compile(r"([\\`*_\[\]|~$])")


def escape(text: str) -> str:
    """Return a text that shows as it is in a cell of a table, whatever it holds."""
    one_line = " ".join(text.split())
    if len(one_line) > _ROW_LIMIT:
        one_line = f"{one_line[:_ROW_LIMIT]}..."
    return _SPECIAL.sub(r"\\\1", html.escape(one_line, quote=False))


def markdown(merged: Merged, title: str, *, limit: int = LIMIT) -> str:
    """Return verdict and counts, a table of what is not green, and the rest folded.

    Where that is too long, the rest is left out, then the end of the table.
    """
    bad = [entry for entry in merged.entries if not entry.outcome.is_green]
    good = [entry for entry in merged.entries if entry.outcome.is_green]
    head = [f"## {escape(title)}: {merged.verdict}", "", escape(merged.counts), ""]
    if merged.others:
        head += [escape(merged.others), ""]
    for error in merged.unreadable:
        head += [f"cannot be read: {escape(error)}", ""]
    text = "\n".join([*head, *_bad_table(bad), *_folded(good)]) + "\n"
    shown = len(bad)
    if len(text.encode()) > limit:
        note = f"{len(good)} green cells are left out, for length."
        text = "\n".join([*head, *_bad_table(bad), note]) + "\n"
    while len(text.encode()) > limit and shown:
        shown //= 2
        note = f"{len(bad) - shown} more and {len(good)} green cells are left out, for length."
        text = "\n".join([*head[:4], *_bad_table(bad[:shown]), note]) + "\n"
    return text


def _bad_table(entries: Sequence[Entry]) -> list[str]:
    if not entries:
        return []
    rows = [
        f"| {escape(one.id)} | {escape(one.outcome.words)} | {escape(one.found)} | {_again(one)} |"
        for one in entries
    ]
    return ["| cell | verdict | found | run again |", "| --- | --- | --- | --- |", *rows, ""]


def _again(entry: Entry) -> str:
    if entry.cell is None:
        return ""
    command = f'nox -s "{entry.cell.session}" -- --cell {entry.id} --models {entry.cell.models}'
    return f"<code>{escape(command)}</code>"


def _folded(entries: Sequence[Entry]) -> list[str]:
    if not entries:
        return []
    rows = [
        f"| {' | '.join(escape(word) for word in (one.id, one.outcome.words, *numbers(one)))} |"
        for one in entries
    ]
    return [
        f"<details><summary>{len(entries)} green cells</summary>",
        "",
        "| cell | verdict | positions | worst abs | ulp | headroom |",
        "| --- | --- | ---: | ---: | ---: | ---: |",
        *rows,
        "",
        "</details>",
    ]


def numbers(entry: Entry) -> tuple[str, str, str, str]:
    """Return how many positions were compared, and their largest difference."""
    if entry.judgement is None:
        return "0", "-", "-", "-"
    return (str(entry.judgement.compared.positions), *worst_words(entry.judgement))
