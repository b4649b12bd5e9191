"""What a person sees in the terminal after a run: one row a cell, and what it took."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from vllm_parity.ledger import gpu_cost
from vllm_parity.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vllm_parity.judge import Judgement
    from vllm_parity.ledger import Judged, Ledger

_STYLES = {Verdict.NOT_RUN: "yellow", Verdict.UNVERIFIED: "yellow"}


_COLUMN = 34
"""The width that a verdict's words may take in the table."""


def summary(run: Ledger, *, width: int, color: bool) -> str:
    """Return the table of a run and the lines under it."""
    buffer = io.StringIO()
    # A row that is cut says nothing: one that is too long for a terminal is wrapped by it.
    longest = max(len(judged.cell.id) for judged in run.judged)
    console = Console(
        file=buffer, width=max(width, longest + 100), force_terminal=color, no_color=not color
    )
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("cell", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    for name in ("positions", "worst abs", "ulp", "headroom", "seconds"):
        table.add_column(name, justify="right", no_wrap=True)
    for judged in run.judged:
        table.add_row(*_row(judged))
    console.print(table)
    for line in _notes(run):
        console.print(line, highlight=False, soft_wrap=True, markup=False)
    console.print(_counts(run), highlight=False, soft_wrap=True)
    console.print(f"records: {run.results.folder}", highlight=False, soft_wrap=True)
    return buffer.getvalue()


def _row(judged: Judged) -> tuple[str, ...]:
    judgement = judged.judgement
    style = "green" if judged.outcome.is_green else _STYLES.get(judged.outcome.counts, "red")
    return (
        judged.cell.id,
        f"[{style}]{escape(_short(judged))}[/]",
        str(judgement.compared.positions),
        *worst_words(judgement),
        f"{judged.seconds:.1f}",
    )


def _short(judged: Judged) -> str:
    """Return the verdict's words as far as they fit a column; long notes come below the table."""
    words = judged.outcome.words
    return words if len(words) <= _COLUMN else f"{judged.outcome.verdict} (see below)"


def _notes(run: Ledger) -> Iterator[str]:
    """Return what is to be said of cells besides their rows."""
    for judged in run.judged:
        if judged.observation.not_run:
            note = f" ({judged.outcome.note})" if judged.outcome.note else ""
            yield f"not run: {judged.cell.id}: {judged.observation.not_run}{note}"
        elif len(judged.outcome.words) > _COLUMN:
            yield f"{judged.outcome.verdict}: {judged.cell.id}: {judged.outcome.note}"
        if judged.attempts > 1:
            kept = run.results.meta / "attempts" / f"{judged.cell.id}-1.json"
            yield f"tried {judged.attempts} times: {judged.cell.id}: first attempt in {kept}"


def worst_words(judgement: Judgement) -> tuple[str, str, str]:
    """Return the largest difference, in floats between, and what is left of what is allowed."""
    worst = judgement.worst
    if worst is None:
        return "-", "-", "-"
    if worst.abs == 0:
        return "0", "0", "bitwise"
    headroom = f"{worst.headroom:.0%}" if (worst.headroom or -1) > 0 else "exceeded"
    return f"{worst.abs:.2g}", str(worst.ulp), headroom


def _counts(run: Ledger) -> str:
    started, distinct = run.started, run.distinct
    parts = [
        f"{started[name]} {name} for {count} distinct {what}"
        for (name, count), what in zip(
            distinct.items(), ("environments", "settings", "server settings"), strict=True
        )
    ]
    lines = ["started: " + ", ".join(parts)]
    if run.workers:
        lines.append(f"  on {run.workers} workers, each with hosts of its own")
    lines += [f"  because {incident.splitlines()[0]}" for incident in run.incidents]
    if cost := gpu_cost(run.judged):
        memory = cost["peak_memory_bytes"] / (1 << 30)
        lines.append(
            f"GPU: {cost['gpu_seconds']:.1f} s in the steps that were measured,"
            f" at most {memory:.1f} GiB in one process"
        )
    greens = sum(judged.outcome.is_green for judged in run.judged)
    lines.append(f"{greens} of {len(run.judged)} cells green; worst: {run.worst}")
    if stale := sum(judged.outcome.stale_waiver for judged in run.judged):
        lines.append(f"{stale} waivers are stale; see above")
    return "\n".join(lines)
