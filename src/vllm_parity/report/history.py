"""What became of one cell over time: where it turned red, how often it does, what may be to blame.

Pure: records in, findings out.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from vllm_parity.outcome import exit_code_of
from vllm_parity.rates import Rate
from vllm_parity.report.settings import REVISION, Sign, environment_of
from vllm_parity.verdict import Verdict

if TYPE_CHECKING:
    import datetime
    from collections.abc import Iterator, Mapping, Sequence

    from vllm_parity.judge import Judgement
    from vllm_parity.outcome import Outcome

NOT_RECORDED = "not recorded"


class Clock(StrEnum):
    """Where the time of a record comes from."""

    RECORD = "recorded_at"
    FOLDER = "folder"
    FILE = "file"
    """The file's own time, which a copy does not keep."""


@dataclass(frozen=True, kw_only=True)
class Record:
    """One run of the cell.

    `settings` are as :func:`vllm_parity.report.settings.settings_of` has them, `found` is the first
    finding in a line. `ran` says whether there are both arms: without them few settings are known.
    """

    file: str
    time: datetime.datetime
    clock: Clock
    judgement: Judgement
    outcome: Outcome
    sign: Sign
    environment: Mapping[str, str]
    settings: Mapping[str, str]
    ran: bool = True
    found: str = ""

    @property
    def verdict(self) -> Verdict:
        """What the judge says of it."""
        return self.judgement.verdict


@dataclass(frozen=True, kw_only=True)
class Change:
    """A setting that differs between two records."""

    name: str
    before: str
    after: str


@dataclass(frozen=True, kw_only=True)
class Group:
    """All records of one environment that show something of the numbers, oldest first."""

    records: tuple[Record, ...]

    @property
    def settings(self) -> Mapping[str, str]:
        """The settings that they share, but for this project's revision."""
        return self.records[0].settings

    @property
    def rate(self) -> Rate:
        """How often it is red."""
        return Rate(events=len(self.of(Sign.RED)), runs=len(self.records))

    @property
    def is_flaky(self) -> bool:
        """Whether its records do not agree."""
        return bool(self.of(Sign.RED) and self.of(Sign.GREEN))

    @property
    def turned_with_revision(self) -> bool:
        """Whether it changed once, and no revision of this project has both: it may be that."""
        signs = [one.sign for one in self.records]
        turns = sum(left is not right for left, right in itertools.pairwise(signs))
        red, green = (
            {one.settings.get(REVISION) for one in self.of(sign)} for sign in (Sign.RED, Sign.GREEN)
        )
        return turns == 1 and not red & green

    def words(self, *, counted: bool) -> str:
        """Return what came out, for people, and in how many runs."""
        red = self.of(Sign.RED)
        shown = red or self.records
        verdicts = " or ".join(dict.fromkeys(one.verdict for one in shown))
        return f"{verdicts} in {len(shown)} of {len(self.records)} runs" if counted else verdicts

    def of(self, sign: Sign) -> list[Record]:
        """Return the records of one sign."""
        return [one for one in self.records if one.sign is sign]


@dataclass(frozen=True, kw_only=True)
class Suspect:
    """A setting in which alone records differ that disagree; what came out under each value."""

    name: str
    values: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class History:
    """All records of a cell, oldest first, and what they show.

    `between` is what differs between the last green record before the first red one, and that one.
    `varying` are the names of the settings that tell environments apart.
    """

    cell: str
    records: tuple[Record, ...]
    first_red: Record | None
    last_green: Record | None
    between: tuple[Change, ...]
    flaky: tuple[Group, ...]
    suspects: tuple[Suspect, ...]
    varying: tuple[str, ...]
    gates: bool = True

    @property
    def exit_code(self) -> int:
        """That of the latest record; a cell that is flaky in one environment is red."""
        if self.flaky and self.gates:
            return Verdict.DIVERGED.exit_code
        return exit_code_of([self.records[-1].outcome])


def look_back(cell: str, records: Sequence[Record], *, gates: bool = True) -> History:
    """Return what the records of a cell show; there is at least one, and they are in order."""
    groups = _grouped(records)
    varying = _varying(groups)
    first_red = next((one for one in records if one.sign is Sign.RED), None)
    last_green = None
    between: tuple[Change, ...] = ()
    if first_red is not None:
        before = records[: records.index(first_red)]
        last_green = next((one for one in reversed(before) if one.sign is Sign.GREEN), None)
        between = tuple(changes(last_green, first_red)) if last_green else ()
    return History(
        cell=cell,
        records=tuple(records),
        first_red=first_red,
        last_green=last_green,
        between=between,
        flaky=tuple(one for one in groups if one.is_flaky),
        suspects=tuple(_suspects(groups, varying)),
        varying=varying,
        gates=gates,
    )


def changes(before: Record, after: Record) -> Iterator[Change]:
    """Return the settings that differ between two records, as far as both can know of them."""
    names = {**after.settings, **before.settings}
    # It changes nearly each time, and seldom matters.
    for name in sorted(names, key=lambda name: name == REVISION):
        left, right = before.settings.get(name), after.settings.get(name)
        unknown = left is None or right is None
        if left == right or (unknown and not (before.ran and after.ran)):
            continue
        yield Change(name=name, before=left or NOT_RECORDED, after=right or NOT_RECORDED)


def steps(records: Sequence[Record]) -> Iterator[tuple[Record, list[Change]]]:
    """Return each record with what has changed since the one before.

    What did not start knows little of its environment: the next one is compared with the last one
    that ran.
    """
    last: Record | None = None
    for record in records:
        yield record, [] if last is None else list(changes(last, record))
        if record.ran or last is None or not last.ran:
            last = record


def _grouped(records: Sequence[Record]) -> list[Group]:
    found: dict[frozenset[tuple[str, str]], list[Record]] = {}
    for record in records:
        if record.sign is not Sign.NONE:
            found.setdefault(environment_of(record.settings), []).append(record)
    return [Group(records=tuple(group)) for group in found.values()]


def _varying(groups: Sequence[Group]) -> tuple[str, ...]:
    names = dict.fromkeys(name for group in groups for name in group.settings)
    return tuple(
        name
        for name in names
        if name != REVISION and len({group.settings.get(name) for group in groups}) > 1
    )


def _suspects(groups: Sequence[Group], varying: Sequence[str]) -> Iterator[Suspect]:
    """Return the settings that are named by records which differ in nothing else."""
    told: set[tuple[str, frozenset[tuple[str, str]]]] = set()
    for name in varying:
        rest = [other for other in varying if other != name]
        alike: dict[tuple[str | None, ...], list[Group]] = {}
        for group in groups:
            alike.setdefault(tuple(group.settings.get(one) for one in rest), []).append(group)
        for these in alike.values():
            if not _disagree(these):
                continue
            counted = any(one.is_flaky for one in these)
            values = {
                one.settings.get(name, NOT_RECORDED): one.words(counted=counted) for one in these
            }
            key = (name, frozenset(values.items()))
            if key not in told:
                told.add(key)
                yield Suspect(name=name, values=values)


def _disagree(groups: Sequence[Group]) -> bool:
    """Return whether one is green where another is red.

    Of two that are both flaky neither is, whatever a pair of their records shows.
    """
    steady = [one for one in groups if not one.is_flaky]
    signs = {one.records[0].sign for one in steady}
    return len(signs) > 1 or bool(steady and len(steady) < len(groups))
