"""The controller of pytest-xdist's workers: what they have recorded becomes one run."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import pytest
from xdist.scheduler import LoadGroupScheduling

from vllm_parity.chosen import RUN, give_up, loaded
from vllm_parity.errors import ParityError
from vllm_parity.families import make_plan
from vllm_parity.families.distinct import distinct, reference_key
from vllm_parity.handover import give, given_back
from vllm_parity.ledger import Ledger
from vllm_parity.live import LiveLine, verdict_words, was_rerun
from vllm_parity.observation import load_observation
from vllm_parity.observe import lost
from vllm_parity.report.explain import explain_outcome
from vllm_parity.results import Results, new_run_id

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vllm_parity.ledger import Judged
    from vllm_parity.matrix import Cell

RECORD, SECONDS = "parity_record", "parity_seconds"
"""Properties of a test's report: its record's path, once for each attempt, and its time."""


class Controller:
    """Gives out devices, and enters each record as soon as its worker reports it."""

    def __init__(
        self, config: pytest.Config, cells: Sequence[Cell], devices: list[dict[str, str]]
    ) -> None:
        self._config = config
        self._cells = {cell.id: cell for cell in cells}
        self._devices = devices
        self._free = list(reversed(range(len(devices))))
        self._numbers: dict[str, int] = {}
        self._expected: list[Cell] = []
        self._run_id = new_run_id()
        self._live = LiveLine(config)

    def pytest_configure_node(self, node: Any) -> None:  # noqa: ANN401 - xdist's WorkerController
        """Give a worker a device of its own: the one that became free last, of a crashed one."""
        number = self._numbers[node.gateway.id] = self._free.pop()
        give(node, run_id=self._run_id, number=number, variables=self._devices[number])

    def pytest_testnodedown(self, node: Any, error: object) -> None:  # noqa: ANN401
        """Take the device back, and add up what the worker started."""
        if (number := self._numbers.pop(node.gateway.id, None)) is not None:
            self._free.append(number)
        told = given_back(node)
        run = self._config.stash.get(RUN, None)
        if run is None:
            return
        name = node.gateway.id
        run.started.update(told.get("started", {}))
        run.incidents += [f"{name}: {incident}" for incident in told.get("incidents", [])]
        if error:
            run.incidents.append(f"{name} ended ({error}); what it started is not counted here")

    @pytest.hookimpl(tryfirst=True)
    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: Any) -> CellScheduling:  # noqa: ANN401
        """Keep cells with the same engine settings on one worker."""
        return CellScheduling(config, log, self._group)

    def pytest_xdist_node_collection_finished(self, ids: Sequence[str]) -> None:
        """Open the run as soon as it is known what it holds."""
        cells = [cell for cell in map(self._find, ids) if cell is not None]
        if not cells or RUN in self._config.stash:
            return
        self._expected = cells
        try:
            results = Results(self._config.option.results, run_id=self._run_id)
        except ParityError as error:
            give_up(self._config, error)
        self._config.stash[RUN] = run = Ledger(loaded(self._config), results)
        run.workers = len(self._devices)
        self._config.pluginmanager.register(self._live, "vllm-parity-live")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Enter what a worker recorded, and print its line."""
        records = [value for name, value in report.user_properties if name == RECORD]
        if report.when != "call" or was_rerun(report) or not records:
            return
        run = self._config.stash[RUN]
        seconds = float(str(dict(report.user_properties)[SECONDS]))
        path = run.results.folder / str(records[-1])
        observation = load_observation(path)
        cell = self._cells[observation.cell]
        run.enter(cell, observation, path, seconds=seconds, attempts=len(records))
        self._print(report.node.gateway.id, cell)

    @pytest.hookimpl(tryfirst=True)
    def pytest_handlecrashitem(self, crashitem: str, report: pytest.TestReport) -> None:
        """Record a cell whose worker crashed as an error."""
        cell, run = self._find(crashitem), self._config.stash.get(RUN, None)
        if cell is None or run is None:
            return
        name = report.node.gateway.id
        if run.find(cell) is None:
            logs = run.results.meta / f"{name}-*.log"
            judged = self._lose(
                cell, f"pytest-xdist's worker {name} ended while it ran this cell; see {logs}"
            )
            report.longrepr = explain_outcome(judged)
            report.keywords = {"parity": 1}
            self._print(name, cell)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Record the cells of which no worker told anything, and count what all of them need."""
        run = self._config.stash.get(RUN, None)
        if run is None:
            return
        if exitstatus in {pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED}:
            for cell in self._expected:
                if run.find(cell) is None:
                    self._lose(cell, "no worker of pytest-xdist was left to run this cell")
        ran = [one.cell for one in run.judged if not one.observation.not_run]
        run.distinct = distinct(make_plan(cell, run.config) for cell in ran)

    def _lose(self, cell: Cell, reason: str) -> Judged:
        run = self._config.stash[RUN]
        observation = lost(make_plan(cell, run.config), reason, project=run.project)
        try:
            path = run.results.write(observation)
        except ParityError as error:
            give_up(self._config, error)
        return run.enter(cell, observation, path)

    def _print(self, worker: str, cell: Cell) -> None:
        words = verdict_words(self._config.stash[RUN].find(cell))
        self._live.write(f"{worker:<4} {cell.id:<62} {words}\n")

    def _group(self, nodeid: str) -> str | None:
        """Return what is the same for tests of cells with the same engine settings."""
        cell = self._find(nodeid)
        if cell is None:
            return None
        return reference_key(make_plan(cell, loaded(self._config)))

    def _find(self, nodeid: str) -> Cell | None:
        """Return the cell of a test; where it has other parameters as well, the longest fits."""
        parameters = nodeid.partition("[")[2].rpartition("]")[0]
        if parameters in self._cells:
            return self._cells[parameters]
        fitting = [name for name in self._cells if f"-{name}-" in f"-{parameters}-"]
        return self._cells[max(fitting, key=len)] if fitting else None


class CellScheduling(LoadGroupScheduling):  # type: ignore[misc]
    """As ``--dist loadgroup``, with groups by a function in place of marks.

    A test whose worker crashed is not run once more.
    """

    def __init__(
        self,
        config: pytest.Config,
        log: Any,  # noqa: ANN401 - of xdist's own kind
        group: Callable[[str], str | None],
    ) -> None:
        super().__init__(config, log)
        self._group = functools.cache(group)

    def _split_scope(self, nodeid: str) -> str:
        return self._group(nodeid) or str(super()._split_scope(nodeid))

    def _reschedule(self, node: Any) -> None:  # noqa: ANN401 - xdist's WorkerController
        """Leave a worker alone that has not collected yet: it replaces one that crashed."""
        if node in self.registered_collections:
            super()._reschedule(node)

    def remove_node(self, node: Any) -> str | None:  # noqa: ANN401 - xdist's WorkerController
        """Take a worker out; return the test that it was running."""
        for unit in self.assigned_work[node].values():
            for nodeid, completed in unit.items():
                if not completed:
                    unit[nodeid] = True
                    super().remove_node(node)
                    return str(nodeid)
        crashed: str | None = super().remove_node(node)
        return crashed
