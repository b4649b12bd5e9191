"""What a verdict means for a run: negative controls, cells that do not gate, and waivers."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vllm_parity.verdict import Verdict, worst
from vllm_parity.waivers import find_waiver

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from vllm_parity.matrix import Cell
    from vllm_parity.waivers import Waiver

STALE_WAIVER_EXIT_CODE = 6
"""The exit code of a run whose worst fault is a waiver: one whose cell passes, or that is over."""

_REPORTED = {Verdict.DIVERGED, Verdict.NOISY}
"""What a cell that does not gate may come out as: everything else says that nothing was shown."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a cell's verdict comes to.

    `verdict` is the judge's, `counts` what counts for the run, and `note` why these differ (or
    what is wrong with the cell's waiver). Green is what counts as `pass` with no stale waiver.
    """

    verdict: Verdict
    counts: Verdict
    note: str = ""
    stale_waiver: bool = False

    @property
    def is_green(self) -> bool:
        """Whether the cell is as it must be."""
        return self.counts is Verdict.PASS and not self.stale_waiver

    @property
    def words(self) -> str:
        """The verdict, with the note where there is one."""
        return f"{self.verdict} ({self.note})" if self.note else self.verdict


def outcome_of(
    cell: Cell, verdict: Verdict, waivers: Sequence[Waiver] = (), today: datetime.date | None = None
) -> Outcome:
    """Return what a verdict comes to; `today` is by default the day by UTC."""
    plain = _without_waiver(cell, verdict)
    waiver = find_waiver(waivers, cell.id)
    if waiver is None:
        return plain
    if waiver.has_expired(today or datetime.datetime.now(datetime.UTC).date()):
        note = f"its waiver ended on {waiver.ends}: mend it or renew it, {waiver.issue}"
        return Outcome(verdict=verdict, counts=plain.counts, note=note, stale_waiver=True)
    if plain.counts is Verdict.PASS:
        note = f"waived as {waiver.verdict}, but passes: take the waiver out, {waiver.issue}"
        return Outcome(verdict=verdict, counts=Verdict.PASS, note=note, stale_waiver=True)
    if plain.counts is waiver.verdict:
        note = f"waived until {waiver.ends}: {waiver.issue}"
        return Outcome(verdict=verdict, counts=Verdict.PASS, note=note)
    return Outcome(
        verdict=verdict, counts=plain.counts, note=f"waived as {waiver.verdict}, not as this"
    )


def exit_code_of(outcomes: Iterable[Outcome]) -> int:
    """Return the exit code of a run: its worst verdict's, else 6 where a waiver is stale."""
    listed = list(outcomes)
    code = worst(outcome.counts for outcome in listed).exit_code
    return code or STALE_WAIVER_EXIT_CODE * any(outcome.stale_waiver for outcome in listed)


def _without_waiver(cell: Cell, verdict: Verdict) -> Outcome:
    if cell.negative_control:
        if verdict is Verdict.DIVERGED:
            return Outcome(verdict=verdict, counts=Verdict.PASS, note="as it must")
        if verdict is Verdict.PASS:
            return Outcome(verdict=verdict, counts=Verdict.UNVERIFIED, note="must diverge")
    elif cell.ungated and verdict in _REPORTED:
        return Outcome(verdict=verdict, counts=Verdict.PASS, note="reported, does not gate")
    return Outcome(verdict=verdict, counts=verdict)
