"""A run of many cells: what is warm, what was recorded, what it all comes to."""

from __future__ import annotations

import functools
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vllm_parity import __version__
from vllm_parity.engine.pool import Pool
from vllm_parity.engine.server import free_port
from vllm_parity.families import make_plan
from vllm_parity.families.distinct import distinct
from vllm_parity.judge import judge
from vllm_parity.matrix import Family
from vllm_parity.matrix.environment import check_variables
from vllm_parity.models.resolve import resolve
from vllm_parity.observe import not_run, observe
from vllm_parity.outcome import exit_code_of, outcome_of
from vllm_parity.results import Results
from vllm_parity.verdict import worst

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from vllm_parity.families import Config
    from vllm_parity.judge import Judgement
    from vllm_parity.matrix import Cell
    from vllm_parity.observation import Observation
    from vllm_parity.outcome import Outcome
    from vllm_parity.verdict import Verdict


@dataclass(frozen=True, kw_only=True)
class Judged:
    """A cell that was run, or could not be, and judged. `path` is its observation's."""

    cell: Cell
    observation: Observation
    judgement: Judgement
    outcome: Outcome
    path: Path
    seconds: float


class Session:
    """One run. Cells come one by one; engines and servers stay warm between them."""

    def __init__(
        self,
        config: Config,
        cells: Sequence[Cell],
        *,
        results: Path,
        missing: Mapping[Cell, str] | None = None,
        server_port: int = 0,
        stage: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Plan the cells, and have their servers boot while others run.

        Args:
            config: all configuration.
            cells: what will be run.
            results: the folder for the run's own.
            missing: of the cells those that cannot run here, and why.
            server_port: the first server's port; 0 for any free one.
            stage: told in a few words what is waited for.

        Raises:
            ConfigError: where a variable or port that they need is taken otherwise.
            ResultsError: where `results` cannot be written.

        """
        self.judged: list[Judged] = []
        self._started = time.monotonic()
        self._config = config
        self._project = {"vllm_parity": __version__, "vllm_parity_revision": _revision()}
        self._missing = dict(missing or {})
        self._plans = {
            cell.id: make_plan(cell, config) for cell in cells if cell not in self._missing
        }
        for plan in self._plans.values():
            check_variables(plan.variables)
        for number in range(self.distinct()["servers"] if server_port else 0):
            free_port(server_port + number)
        self.results = Results(results)
        self.pool = Pool(
            logs=self.results.meta,
            resolve=functools.partial(resolve, models=config.matrix.models, notify=stage),
            stage=stage,
            server_port=server_port,
        )
        for plan in self._plans.values():
            if plan.cell.family is Family.STREAMING:
                self.pool.boot(plan.variables, plan.reference.engine)

    def run(self, cell: Cell) -> Judged:
        """Run a cell that was planned, record it, judge it; one that is missing is recorded so.

        Raises:
            ResultsError: where the record cannot be written.

        """
        if cell in self._missing:
            run = not_run(cell, self._config, self._missing[cell], project=self._project)
        else:
            run = observe(self._plans[cell.id], self.pool, project=self._project)
        path = self.results.write(run.observation)
        judgement = judge(run.observation)
        judged = Judged(
            cell=cell,
            observation=run.observation,
            judgement=judgement,
            outcome=outcome_of(cell, judgement.verdict, self._config.waivers),
            path=path,
            seconds=run.seconds,
        )
        self.judged.append(judged)
        return judged

    def close(self) -> None:
        """End all processes and write the run's summary."""
        self.pool.close()
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
            "seconds": round(time.monotonic() - self._started, 1),
            "cells": {
                judged.cell.id: {
                    "verdict": judged.judgement.verdict,
                    "outcome": judged.outcome.counts,
                    "note": judged.outcome.note,
                    "seconds": round(judged.seconds, 2),
                }
                for judged in self.judged
            },
            "started": dict(self.pool.started),
            "distinct": self.distinct(),
            "incidents": self.pool.incidents,
        }

    def distinct(self) -> dict[str, int]:
        """Count the environments, settings and server settings of the planned cells."""
        return distinct(self._plans.values())


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
