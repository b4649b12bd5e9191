"""A run of many cells in this process: planned first, then run one by one on what is warm."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vllm_parity.engine.pool import Pool, key_of
from vllm_parity.engine.server import free_port
from vllm_parity.families import make_plan
from vllm_parity.families.distinct import distinct
from vllm_parity.ledger import Judged, Ledger
from vllm_parity.matrix import Family
from vllm_parity.matrix.environment import check_variables
from vllm_parity.models.resolve import resolve
from vllm_parity.observe import not_run, observe
from vllm_parity.results import Results

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from vllm_parity.families import Config, Plan
    from vllm_parity.matrix import Cell


_GIB = 1 << 30
_AHEAD = 2
"""Servers that boot, serve or wait at one time."""


@dataclass(frozen=True, kw_only=True)
class Share:
    """What one of several workers has of a run: the folder of all, and a name and number in it."""

    run_id: str
    name: str
    number: int


class Session(Ledger):
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
        share: Share | None = None,
    ) -> None:
        """Plan the cells, and have their servers boot while others run.

        Args:
            config: all configuration.
            cells: what will be run; where the run is shared, what may be.
            results: the folder for the run's own.
            missing: of the cells those that cannot run here, and why.
            server_port: the first server's port; 0 for any free one.
            stage: told in a few words what is waited for.
            share: where several workers share the run, which of them this is.

        Raises:
            ConfigError: where a variable or port that they need is taken otherwise.
            ResultsError: where `results` cannot be written.

        """
        self._missing = dict(missing or {})
        self._plans = {
            cell.id: make_plan(cell, config) for cell in cells if cell not in self._missing
        }
        for plan in self._plans.values():
            check_variables(plan.variables)
        counts = distinct(self._plans.values())
        name = share.name if share else ""
        if server_port and share:
            server_port += share.number * counts["servers"]
        for number in range(counts["servers"] if server_port else 0):
            free_port(server_port + number)
        run_id = share.run_id if share else None
        super().__init__(config, Results(results, run_id=run_id, worker=name))
        self.pool = open_pool(
            config, cells, logs=self.results.meta, stage=stage, server_port=server_port, name=name
        )
        self.started, self.incidents, self.distinct = (
            self.pool.started,
            self.pool.incidents,
            counts,
        )
        self._to_serve = {
            cell_id: plan
            for cell_id, plan in self._plans.items()
            if plan.cell.family is Family.STREAMING
        }
        # A worker does not know which of the cells will be its own.
        self._ahead = _AHEAD if share is None else 0
        self._alive: set[str] = set()
        self._served: Plan | None = None
        self._boot_servers()

    def run(self, cell: Cell) -> Judged:
        """Run a cell that was planned, record it, judge it; one that is missing is recorded so.

        A cell that comes again is another attempt: the record of the one before is set aside.

        Raises:
            ResultsError: where the record cannot be written.

        """
        before = self.find(cell)
        attempts = before.attempts + 1 if before else 1
        if cell in self._missing:
            run = not_run(cell, self.config, self._missing[cell], project=self.project)
        else:
            plan = self._plans[cell.id]
            if cell.family is Family.STREAMING and not self._ahead:
                self._keep_one_server(plan)
            run = observe(plan, self.pool, project=self.project)
            if cell.family is Family.STREAMING and self._ahead:
                self._leave_server(plan)
        if before:
            self.results.set_aside(cell.id, before.attempts)
        return self.enter(
            cell,
            run.observation,
            self.results.write(run.observation),
            seconds=run.seconds,
            attempts=attempts,
            not_started=run.not_started,
        )

    def _boot_servers(self) -> None:
        """Have the next servers boot while other cells run: each holds the memory of a model."""
        for plan in self._to_serve.values():
            key = key_of(*_server(plan))
            if key not in self._alive and len(self._alive) < self._ahead:
                self._alive.add(key)
                self.pool.boot(*_server(plan))

    def _leave_server(self, plan: Plan) -> None:
        """End a server that no cell is to come for, and boot the next one."""
        self._to_serve.pop(plan.cell.id, None)
        if all(_server(plan) != _server(other) for other in self._to_serve.values()):
            self.pool.retire(*_server(plan))
            self._alive.discard(key_of(*_server(plan)))
        self._boot_servers()

    def _keep_one_server(self, plan: Plan) -> None:
        """On a worker, end the last cell's server where a cell has another: those of one follow."""
        if self._served is not None and _server(self._served) != _server(plan):
            self.pool.retire(*_server(self._served))
        self._served = plan

    def close(self) -> None:
        """End all processes and write the run's summary."""
        self.pool.close()
        super().close()


def open_pool(
    config: Config,
    cells: Sequence[Cell],
    *,
    logs: Path,
    stage: Callable[[str], None] = lambda _: None,
    server_port: int = 0,
    name: str = "",
) -> Pool:
    """Return a pool for some cells: with the models of a configuration, as large as it may be."""
    return Pool(
        logs=logs,
        resolve=functools.partial(resolve, models=config.matrix.models, notify=stage),
        stage=stage,
        server_port=server_port,
        name=name,
        **_limits(config, cells),
    )


def _limits(config: Config, cells: Sequence[Cell]) -> dict[str, Any]:
    """Return how many engines a pool keeps, and what they may leave: the strictest platform's."""
    used = [config.platforms[one] for one in {cell.platform for cell in cells}]
    left = [one.left_gib * _GIB for one in used if one.left_gib is not None]
    return {
        "warm": min(one.engines for one in used),
        "left_bytes": min(left, default=math.inf),
    }


def _server(plan: Plan) -> tuple[dict[str, str], dict[str, Any]]:
    """Return what a plan's server is known by in the pool."""
    return plan.variables, plan.reference.engine
