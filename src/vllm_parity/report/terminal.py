"""What a person sees in the terminal after a run: one row a cell, and what it took."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from vllm_parity.verdict import Verdict

if TYPE_CHECKING:
    from vllm_parity.judge import Judgement
    from vllm_parity.session import Judged, Session

_STYLES = {Verdict.PASS: "green", Verdict.NOT_RUN: "yellow", Verdict.UNVERIFIED: "yellow"}


def summary(session: Session, *, width: int, color: bool) -> str:
    """Return the table of a session and the lines under it."""
    buffer = io.StringIO()
    console = Console(file=buffer, width=max(width, 132), force_terminal=color, no_color=not color)
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("cell", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    for name in ("positions", "worst abs", "ulp", "headroom", "seconds"):
        table.add_column(name, justify="right", no_wrap=True)
    for judged in session.judged:
        table.add_row(*_row(judged))
    console.print(table)
    console.print(_counts(session), highlight=False, soft_wrap=True)
    console.print(f"records: {session.results.folder}", highlight=False, soft_wrap=True)
    return buffer.getvalue()


def _row(judged: Judged) -> tuple[str, ...]:
    judgement = judged.judgement
    style = _STYLES.get(judged.outcome, "red")
    return (
        judged.cell.id,
        f"[{style}]{verdict_words(judged)}[/]",
        str(judgement.compared.positions),
        *_worst(judgement),
        f"{judged.seconds:.1f}",
    )


def verdict_words(judged: Judged) -> str:
    """Return the verdict, and for a negative control whether that is as it must be."""
    verdict = judged.judgement.verdict
    if not judged.cell.negative_control:
        return verdict
    return f"{verdict} ({'as it must' if judged.outcome is Verdict.PASS else 'must diverge'})"


def _worst(judgement: Judgement) -> tuple[str, str, str]:
    worst = judgement.worst
    if worst is None:
        return "-", "-", "-"
    if worst.abs == 0:
        return "0", "0", "bitwise"
    headroom = f"{worst.headroom:.0%}" if (worst.headroom or -1) > 0 else "exceeded"
    return f"{worst.abs:.2g}", str(worst.ulp), headroom


def _counts(session: Session) -> str:
    started, distinct = session.pool.started, session.distinct()
    parts = [
        f"{started[name]} {name} for {count} distinct {what}"
        for (name, count), what in zip(
            distinct.items(), ("environments", "settings", "server settings"), strict=True
        )
    ]
    lines = ["started: " + ", ".join(parts)]
    lines += [f"  because {incident.splitlines()[0]}" for incident in session.pool.incidents]
    greens = sum(judged.outcome is Verdict.PASS for judged in session.judged)
    lines.append(f"{greens} of {len(session.judged)} cells green; worst: {session.worst}")
    return "\n".join(lines)
