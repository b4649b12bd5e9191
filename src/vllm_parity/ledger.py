"""What a run has come to: its cells' outcomes, what was started for them, the summary of it all."""

from __future__ import annotations

import json
import subprocess
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vllm_parity import __version__
from vllm_parity.judge import judge
from vllm_parity.outcome import exit_code_of, outcome_of
from vllm_parity.verdict import worst

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vllm_parity.families import Config
    from vllm_parity.judge import Judgement
    from vllm_parity.matrix import Cell
    from vllm_parity.observation import Observation
    from vllm_parity.outcome import Outcome
    from vllm_parity.results import Results
    from vllm_parity.verdict import Verdict


@dataclass(frozen=True, kw_only=True)
class Judged:
    """A cell that was run, or could not be, and judged. `path` is its observation's.

    Of several `attempts` it is the last. `not_started` says that an engine or server did not
    start, which is worth another.
    """

    cell: Cell
    observation: Observation
    judgement: Judgement
    outcome: Outcome
    path: Path
    seconds: float
    attempts: int = 1
    not_started: bool = False


def gpu_cost(judged: Iterable[Judged]) -> dict[str, float]:
    """Return what cells took of a GPU, as witnessed; nothing where there was none.

    `gpu_seconds` is what the card spent in the steps that were measured, of all arms;
    `peak_memory_bytes` the most that one process had allocated.
    """
    arms = [one.observation.arms for one in judged]
    seen = [
        arm.witness
        for three in arms
        for arm in (three.reference, three.candidate, three.control)
        if arm is not None and "gpu_seconds" in arm.witness
    ]
    if not seen:
        return {}
    return {
        "gpu_seconds": round(sum(one["gpu_seconds"] for one in seen), 3),
        "peak_memory_bytes": max(one["peak_memory_bytes"] for one in seen),
    }


class Ledger:
    """The outcomes of a run, each cell once, and what was started for them.

    `started` and `incidents` are as in :class:`vllm_parity.engine.pool.Pool`; with `workers` of
    pytest-xdist they are those of all.
    """

    def __init__(self, config: Config, results: Results) -> None:
        self.config = config
        self.results = results
        self.project = project_of(config)
        self.started: Counter[str] = Counter()
        self.incidents: list[str] = []
        self.distinct: dict[str, int] = {}
        self.workers = 0
        self._began = time.monotonic()
        self._judged: dict[str, Judged] = {}

    @property
    def judged(self) -> list[Judged]:
        """The last attempt at each cell, in the order in which the cells were first run."""
        return list(self._judged.values())

    def find(self, cell: Cell) -> Judged | None:
        """Return what a cell has come to, or None."""
        return self._judged.get(cell.id)

    def enter(
        self,
        cell: Cell,
        observation: Observation,
        path: Path,
        *,
        seconds: float = 0.0,
        attempts: int = 1,
        not_started: bool = False,
    ) -> Judged:
        """Judge an observation that was written to `path`, and keep the outcome."""
        judgement = judge(observation)
        self._judged[cell.id] = judged = Judged(
            cell=cell,
            observation=observation,
            judgement=judgement,
            outcome=outcome_of(cell, judgement.verdict, self.config.waivers),
            path=path,
            seconds=seconds,
            attempts=attempts,
            not_started=not_started,
        )
        return judged

    def close(self) -> None:
        """Write the run's summary."""
        self.results.write_summary(self.summary())

    @property
    def worst(self) -> Verdict:
        """The worst verdict that counts."""
        return worst(judged.outcome.counts for judged in self.judged)

    @property
    def exit_code(self) -> int:
        """The exit code that all outcomes come to."""
        return exit_code_of(judged.outcome for judged in self.judged)

    def summary(self) -> dict[str, Any]:
        """Return the run in short, as JSON can hold it."""
        return {
            "worst": self.worst,
            "seconds": round(time.monotonic() - self._began, 1),
            "cells": {
                judged.cell.id: {
                    "verdict": judged.judgement.verdict,
                    "outcome": judged.outcome.counts,
                    "note": judged.outcome.note,
                    "seconds": round(judged.seconds, 2),
                    "attempts": judged.attempts,
                    **gpu_cost([judged]),
                }
                for judged in self.judged
            },
            **gpu_cost(self.judged),
            "started": dict(self.started),
            "distinct": self.distinct,
            "workers": self.workers,
            "incidents": self.incidents,
        }


def project_of(config: Config) -> dict[str, str]:
    """Return what a record's environment says of this project, and of what was forced by hand."""
    project = {"vllm_parity": __version__, "vllm_parity_revision": _revision()}
    if config.forced:
        project["forced"] = json.dumps(dict(config.forced), sort_keys=True)
    return project


def _revision() -> str:
    """Return the project's git commit, with a mark where files differ from it."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        done = subprocess.run(
            command, cwd=Path(__file__).parent, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return done.stdout.strip()
