"""Bringing together what many jobs recorded: one entry a cell, and no planned one is lost."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vllm_parity.errors import ConfigError, FormatError, ResultsError
from vllm_parity.judge import Judgement, judge
from vllm_parity.judge.command import expand
from vllm_parity.observation import load_observation
from vllm_parity.outcome import Outcome, exit_code_of, outcome_of
from vllm_parity.verdict import Verdict, worst

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

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
        if self.observation is not None and self.observation.not_run:
            return self.observation.not_run
        reasons = self.judgement.reasons if self.judgement else ()
        if not reasons:
            return ""
        first, more = reasons[0], len(reasons) - 1
        where = f" in {first.request}" if first.request else ""
        message = first.message.splitlines()[0] if first.message else ""
        return f"{first.code}{where}: {message}" + (f" (and {more} more)" if more else "")


@dataclass(frozen=True, kw_only=True)
class Merged:
    """All entries in the matrix's order, those of no cell last, and the files nobody can read.

    `left_out` is how many records are of cells that were not asked for.
    """

    entries: tuple[Entry, ...]
    unreadable: tuple[str, ...] = ()
    left_out: int = 0

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
        """That records of other cells were left out, where there are some."""
        if not self.left_out:
            return ""
        return f"records of other cells that were left out: {self.left_out}"


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
    cells = {cell.id: cell for one in (matrix.built_in(), matrix) for cell in one.cells}
    entries: dict[str, Entry] = {}
    unreadable = []
    left_out = 0
    wanted = {cell.id for cell in planned}
    for file in files:
        try:
            observation = load_observation(file)
            if wanted and observation.cell not in wanted:
                left_out += 1
                continue
            entry = _entry(file, observation, cells, waivers)
        except FormatError as error:
            unreadable.append(str(error))
        else:
            known = entries.get(entry.id)
            entries[entry.id] = _worse(known, entry) if known else entry
    for cell in planned:
        lost = Outcome(verdict=Verdict.ERROR, counts=Verdict.ERROR, note="no record")
        entries.setdefault(cell.id, Entry(id=cell.id, cell=cell, outcome=lost))
    order = {name: number for number, name in enumerate(cells)}
    listed = sorted(entries.values(), key=lambda entry: order.get(entry.id, len(order)))
    return Merged(entries=tuple(listed), unreadable=tuple(unreadable), left_out=left_out)


def _entry(
    file: str, observation: Observation, cells: Mapping[str, Cell], waivers: Sequence[Waiver]
) -> Entry:
    try:
        judgement = judge(observation)
    except FormatError as error:
        msg = f"{file}: {error}"
        raise FormatError(msg) from None
    verdict = judgement.verdict
    cell = cells.get(observation.cell)
    if cell is None:
        outcome = Outcome(verdict=verdict, counts=verdict, note="not a cell of the matrix")
    else:
        outcome = outcome_of(cell, verdict, waivers)
    return Entry(
        id=observation.cell,
        outcome=outcome,
        cell=cell,
        file=file,
        judgement=judgement,
        observation=observation,
    )


def _worse(first: Entry, second: Entry) -> Entry:
    """Return the worse of two records of one cell, saying what both are."""
    chosen = min(
        (first, second),
        key=lambda one: (_ORDER.index(one.outcome.counts), not one.outcome.stale_waiver),
    )
    told = f"recorded twice: {first.outcome.words} in {first.file},"
    note = f"{told} {second.outcome.words} in {second.file}"
    outcome = chosen.outcome
    return Entry(
        id=chosen.id,
        outcome=Outcome(
            verdict=outcome.verdict,
            counts=outcome.counts,
            note=note,
            stale_waiver=outcome.stale_waiver,
        ),
        cell=chosen.cell,
        file=chosen.file,
        judgement=chosen.judgement,
        observation=chosen.observation,
    )
