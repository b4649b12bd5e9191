"""Bringing together what many jobs recorded: one entry a cell, and no planned one is lost."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from vllm_parity.errors import ConfigError, FormatError, ResultsError
from vllm_parity.judge.command import expand, judge_file
from vllm_parity.observation import load_observation
from vllm_parity.outcome import Outcome, exit_code_of, outcome_of
from vllm_parity.report.settings import Sign, environment_of, settings_of, sign_of
from vllm_parity.verdict import Verdict, worst

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from vllm_parity.judge import Judgement
    from vllm_parity.matrix import Cell, Matrix
    from vllm_parity.observation import Observation
    from vllm_parity.waivers import Waiver

_ORDER = list(Verdict)


@dataclass(frozen=True, kw_only=True)
class Entry:
    """What became of one cell.

    `cell` is None where the matrix has none of this id. `judgement` and `observation` are None
    where there is no record, or one that cannot be read.
    """

    id: str
    outcome: Outcome
    cell: Cell | None = None
    file: str | None = None
    judgement: Judgement | None = None
    observation: Observation | None = None

    @property
    def found(self) -> str:
        """What there is to say in a line: the first finding, or why nothing could be found."""
        if self.observation is None or self.judgement is None:
            return ""
        return first_finding(self.observation, self.judgement)


@dataclass(frozen=True, kw_only=True)
class Merged:
    """All entries in the matrix's order, those of no cell last, and the files nobody can read.

    `left_out` is how many records are of cells that were not asked for, `probes` how many are of a
    search for a cause, which changed settings.
    """

    entries: tuple[Entry, ...]
    unreadable: tuple[str, ...] = ()
    left_out: int = 0
    probes: int = 0

    @property
    def verdict(self) -> Verdict:
        """The worst that counts."""
        return worst(entry.outcome.counts for entry in self.entries)

    @property
    def exit_code(self) -> int:
        """The exit code of all outcomes, or that of a file that cannot be read."""
        if self.unreadable:
            return FormatError.exit_code
        return exit_code_of(entry.outcome for entry in self.entries)

    @property
    def counts(self) -> str:
        """How many cells are green, and how many came out as what."""
        greens = sum(entry.outcome.is_green for entry in self.entries)
        counted = Counter(entry.outcome.verdict for entry in self.entries)
        listed = ", ".join(f"{counted[one]} {one}" for one in Verdict if counted[one])
        return f"{greens} of {len(self.entries)} cells green: {listed}"

    @property
    def others(self) -> str:
        """That records of other cells, and probes, were left out, where there are some."""
        counted = {"of other cells": self.left_out, "of a search for a cause": self.probes}
        told = [
            f"records {what} that were left out: {count}"
            for what, count in counted.items()
            if count
        ]
        return "; ".join(told)


def find_records(names: Sequence[str]) -> list[str]:
    """Return the observation files in folders, those of jobs or of whole runs.

    Raises:
        ResultsError: where one of the names stands for none.

    """
    try:
        return expand(names)
    except ConfigError as error:
        msg = f"{error}; if every job ended before it recorded anything, see the jobs' own logs"
        raise ResultsError(msg) from None


def merge(
    files: Iterable[str],
    matrix: Matrix,
    waivers: Sequence[Waiver] = (),
    planned: Sequence[Cell] = (),
) -> Merged:
    """Judge records, and bring them together.

    Args:
        files: observation files.
        matrix: whose cells they are of, with models of the hub or built-in ones.
        waivers: what is expected not to pass.
        planned: cells of which there must be a record; where there are some, those of other cells
            are left out.

    """
    cells = known_cells(matrix)
    found: dict[str, list[Entry]] = {}
    unreadable = []
    left_out = probes = 0
    wanted = {cell.id for cell in planned}
    for file in files:
        try:
            observation = load_observation(file)
            if observation.probe is not None:
                probes += 1
            elif wanted and observation.cell not in wanted:
                left_out += 1
            else:
                entry = _entry(file, observation, cells, waivers)
                found.setdefault(entry.id, []).append(entry)
        except FormatError as error:
            unreadable.append(str(error))
    entries = {name: _together(records) for name, records in found.items()}
    for cell in planned:
        lost = Outcome(verdict=Verdict.ERROR, counts=Verdict.ERROR, note="no record")
        entries.setdefault(cell.id, Entry(id=cell.id, cell=cell, outcome=lost))
    order = {name: number for number, name in enumerate(cells)}
    listed = sorted(entries.values(), key=lambda entry: order.get(entry.id, len(order)))
    return Merged(
        entries=tuple(listed), unreadable=tuple(unreadable), left_out=left_out, probes=probes
    )


def known_cells(matrix: Matrix) -> dict[str, Cell]:
    """Return the cells of a matrix by their ids, with models of the hub and with built-in ones."""
    return {cell.id: cell for one in (matrix.built_in(), matrix) for cell in one.cells}


def outcome_among(
    cells: Mapping[str, Cell], judgement: Judgement, waivers: Sequence[Waiver] = ()
) -> Outcome:
    """Return what a judgement comes to, where the matrix has the cell and where it has not."""
    verdict = judgement.verdict
    cell = cells.get(judgement.cell)
    if cell is None:
        return Outcome(verdict=verdict, counts=verdict, note="not a cell of the matrix")
    return outcome_of(cell, verdict, waivers)


def first_finding(observation: Observation, judgement: Judgement) -> str:
    """Return the first finding in a line, or why nothing was run."""
    if observation.not_run:
        return observation.not_run
    reasons = judgement.reasons
    if not reasons:
        return ""
    first, more = reasons[0], len(reasons) - 1
    where = f" in {first.request}" if first.request else ""
    message = first.message.splitlines()[0] if first.message else ""
    return f"{first.code}{where}: {message}" + (f" (and {more} more)" if more else "")


def _entry(
    file: str, observation: Observation, cells: Mapping[str, Cell], waivers: Sequence[Waiver]
) -> Entry:
    judgement = judge_file(file, observation)
    return Entry(
        id=observation.cell,
        outcome=outcome_among(cells, judgement, waivers),
        cell=cells.get(observation.cell),
        file=file,
        judgement=judgement,
        observation=observation,
    )


def _together(entries: Sequence[Entry]) -> Entry:
    """Return the worst of the records of one cell, saying what all are."""
    chosen = min(
        entries,
        key=lambda one: (_ORDER.index(one.outcome.counts), not one.outcome.stale_waiver),
    )
    if len(entries) == 1:
        return chosen
    times = "twice" if len(entries) == 2 else f"{len(entries)} times"
    told = ", ".join(f"{one.outcome.words} in {one.file}" for one in entries)
    note = "; ".join([*_flaky(entries), f"recorded {times}: {told}"])
    return replace(chosen, outcome=replace(chosen.outcome, note=note))


def _flaky(entries: Sequence[Entry]) -> Iterator[str]:
    """Say where records of one environment do not agree."""
    signs: dict[frozenset[tuple[str, str]], list[Sign]] = {}
    for one in entries:
        if one.observation is not None:
            environment = environment_of(settings_of(one.observation))
            signs.setdefault(environment, []).append(sign_of(one.outcome.verdict, one.cell))
    for found in signs.values():
        red, green = found.count(Sign.RED), found.count(Sign.GREEN)
        if red and green:
            yield f"flaky: red in {red} of {red + green} records"
