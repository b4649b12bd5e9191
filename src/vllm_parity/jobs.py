"""Jobs of a CI system: one for each session of nox that has cells of a selection."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vllm_parity.errors import ConfigError
from vllm_parity.families import make_plan
from vllm_parity.families.distinct import distinct
from vllm_parity.matrix import Execution, Family, Platform

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vllm_parity.families import Config
    from vllm_parity.matrix import Cell, PlatformSettings, Selection

_STEP = 5
_LEAST = 10


@dataclass(frozen=True, kw_only=True)
class Job:
    """A session of nox, the cells it is wanted for, and what these start: engines and servers."""

    session: str
    cells: tuple[Cell, ...]
    starts: dict[str, int]
    settings: PlatformSettings

    @property
    def platform(self) -> Platform:
        """Where the job runs."""
        return self.cells[0].platform

    @property
    def name(self) -> str:
        """The session in letters that keys and file names may have."""
        cell = self.cells[0]
        return f"{cell.platform}-{cell.family}-{cell.execution}"

    @property
    def seconds(self) -> int:
        """What the cells are estimated to take, without the installation of vLLM."""
        ci = self.settings.ci
        return (
            self.starts["engines"] * ci.engine_seconds
            + self.starts["servers"] * ci.server_seconds
            + len(self.cells) * ci.cell_seconds
        )

    @property
    def minutes(self) -> int:
        """What the job is estimated to take."""
        return self.settings.ci.install_minutes + math.ceil(self.seconds / 60)

    @property
    def timeout(self) -> int:
        """The minutes after which the job is given up: twice the estimate, in steps of five."""
        return max(_LEAST, math.ceil(2 * self.minutes / _STEP) * _STEP)


def make_jobs(cells: Sequence[Cell], config: Config) -> tuple[Job, ...]:
    """Return the jobs of some cells, in the order in which nox lists its sessions."""
    order = [list(axis) for axis in (Platform, Family, Execution)]
    sessions: dict[str, list[Cell]] = {}
    for cell in sorted(
        cells,
        key=lambda cell: [
            axis.index(value)
            for axis, value in zip(order, (cell.platform, cell.family, cell.execution), strict=True)
        ],
    ):
        sessions.setdefault(cell.session, []).append(cell)
    return tuple(
        Job(
            session=session,
            cells=tuple(chosen),
            starts=distinct(make_plan(cell, config) for cell in chosen),
            settings=config.platforms[chosen[0].platform],
        )
        for session, chosen in sessions.items()
    )


def check_sessions(jobs: Sequence[Job], text: str, wanted: Selection, *, where: str) -> None:
    """Check that nox lists just the sessions that the jobs are for.

    Args:
        jobs: what was made of the matrix.
        text: what `nox -l --json -t TIER` printed; sessions of a platform, family or execution
            that is not wanted are passed over.
        wanted: what the jobs were chosen by.
        where: the name of the text, for complaints.

    Raises:
        ConfigError: with the sessions that one has and the other lacks.

    """
    axes = {value for value in (wanted.platform, wanted.family, wanted.execution) if value}
    listed = [one["session"] for one in _read_list(text, where) if axes <= set(one["tags"])]
    planned = [job.session for job in jobs]
    told = [
        f"{one} {verb}: {', '.join(names)}"
        for one, verb, names in (
            ("nox", "lists and the plan lacks", [name for name in listed if name not in planned]),
            ("the plan", "has and nox does not list", [n for n in planned if n not in listed]),
        )
        if names
    ]
    if told:
        msg = (
            f"{where}: {'; '.join(told)}; make the list by `nox -l --json -t TIER`"
            " with the tier of this plan"
        )
        raise ConfigError(msg)


def _read_list(text: str, where: str) -> list[dict[str, Any]]:
    try:
        listed = json.loads(text)
    except ValueError:
        listed = None
    if not isinstance(listed, list) or not all(
        isinstance(one, dict) and {"session", "tags"} <= one.keys() for one in listed
    ):
        msg = f"{where}: expected the list that `nox -l --json -t TIER` prints"
        raise ConfigError(msg)
    return listed


def options_of(wanted: Selection) -> list[str]:
    """Return the options that choose the same again."""
    axes = {name: value for name, value in vars(wanted).items() if name != "cells" and value}
    options = [word for name in axes for word in (f"--{name.replace('_', '-')}", axes[name])]
    return [*options, *(word for pattern in wanted.cells for word in ("--cell", pattern))]
