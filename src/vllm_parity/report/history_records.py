"""From files to the records of a cell: read, judged, in the order of their time."""

from __future__ import annotations

import datetime
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from vllm_parity.errors import FormatError
from vllm_parity.judge.command import judge_file
from vllm_parity.observation import load_observation
from vllm_parity.report.history import Clock, Record
from vllm_parity.report.merge import first_finding, outcome_among
from vllm_parity.report.settings import settings_of, sign_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vllm_parity.matrix import Cell
    from vllm_parity.waivers import Waiver

_RUN = re.compile(r"(\d{8}-\d{6})(?:-|\Z)")
"""How the name of a run's folder begins: see :func:`vllm_parity.results.new_run_id`."""


def load_records(
    files: Sequence[str], cells: Mapping[str, Cell], waivers: Sequence[Waiver] = ()
) -> tuple[list[Record], list[str]]:
    """Return the records in files, oldest first, and what is wrong with those that have none.

    Waivers are those of today, so they are for the latest record alone.
    """
    loaded: list[tuple[tuple[datetime.datetime, bool, int, str], Record]] = []
    unreadable = []
    for file in files:
        try:
            record, repeat = _load(file, cells)
        except FormatError as error:
            unreadable.append(str(error))
            continue
        # Times are whole seconds: within one, attempts come before what counts.
        order = (record.time, Path(file).parent.name != "attempts", repeat, file)
        loaded.append((order, record))
    records = [record for _, record in sorted(loaded, key=lambda one: one[0])]
    if records:
        latest = records[-1]
        outcome = outcome_among(cells, latest.judgement, waivers)
        records[-1] = replace(latest, outcome=outcome)
    return records, unreadable


def _load(file: str, cells: Mapping[str, Cell]) -> tuple[Record, int]:
    observation = load_observation(file)
    judgement = judge_file(file, observation)
    time, clock = time_of(file, observation.recorded_at)
    arms = observation.arms
    record = Record(
        file=file,
        time=time,
        clock=clock,
        judgement=judgement,
        outcome=outcome_among(cells, judgement),
        sign=sign_of(judgement.verdict, cells.get(observation.cell)),
        environment=observation.environment,
        settings=settings_of(observation),
        ran=arms.reference is not None and arms.candidate is not None,
        found=first_finding(observation, judgement),
    )
    return record, observation.repeat or 0


def time_of(file: str, recorded_at: str | None) -> tuple[datetime.datetime, Clock]:
    """Return when a record was made, by UTC, and where that is from.

    It is what the record itself says, else the name of its run's folder, else the file's own time.
    """
    if recorded_at is not None:
        try:
            time = datetime.datetime.fromisoformat(recorded_at)
        except ValueError:
            pass
        else:
            # One without a zone is by UTC as well.
            aware = time if time.tzinfo else time.replace(tzinfo=datetime.UTC)
            return aware.astimezone(datetime.UTC), Clock.RECORD
    for part in reversed(Path(file).absolute().parts[:-1]):
        if found := _RUN.match(part):
            try:
                time = datetime.datetime.strptime(f"{found[1]}+0000", "%Y%m%d-%H%M%S%z")
            except ValueError:
                continue
            return time, Clock.FOLDER
    return datetime.datetime.fromtimestamp(Path(file).stat().st_mtime, datetime.UTC), Clock.FILE
