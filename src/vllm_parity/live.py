"""One line a cell in the terminal while a run goes on, in place of pytest's dots."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import pytest

from vllm_parity.chosen import RUN, cell_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vllm_parity.ledger import Judged


class LiveLine:
    """A line a cell that grows while the cell runs; without a terminal it says nothing."""

    def __init__(self, config: pytest.Config) -> None:
        reporter = config.pluginmanager.get_plugin("terminalreporter")
        self._reporter: pytest.TerminalReporter | None = reporter
        self._capture = config.pluginmanager.get_plugin("capturemanager")
        self._stages: list[str] = []
        if reporter is not None:
            reporter.showfspath = False
            reporter._show_progress_info = False

    def stage(self, words: str) -> None:
        """Add what the cell waits for now."""
        if words not in self._stages:
            self.write((", " if self._stages else "") + words)
            self._stages.append(words)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[Any]:
        """Begin a line, let the test run, and end the line with its verdict."""
        cell = cell_of(item)
        if cell is None:
            return (yield)
        self._stages.clear()
        self.write(f"{cell.id:<62} ")
        try:
            return (yield)
        finally:
            self.write(f": {verdict_words(item.config.stash[RUN].find(cell))}\n")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Go on in the same line where a cell is tried again."""
        if was_rerun(report) and "parity" in report.keywords:
            self.write(": did not start, once more: ")
            self._stages.clear()

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str] | None:
        """Keep pytest's own letters out of the line; what failed still counts as failed."""
        if "parity" not in report.keywords:
            return None
        if was_rerun(report):
            return "rerun", "", "RERUN"
        if report.failed:
            return "failed", "", "FAILED"
        if report.skipped:
            return "skipped", "", "SKIPPED"
        return "passed" if report.when == "call" else "", "", ""

    def write(self, text: str) -> None:
        """Write to the terminal: what a test prints is captured, and this is not the test's."""
        if self._reporter is None:
            return
        with self._capture.global_and_fixture_disabled() if self._capture else nullcontext():
            self._reporter.write(text, flush=True)


def was_rerun(report: pytest.TestReport) -> bool:
    """Return whether a report is of an attempt that another follows; pytest itself has no such."""
    outcome: str = report.outcome
    return outcome == "rerun"


def verdict_words(judged: Judged | None) -> str:
    """Return what a cell has come to, and how long it took."""
    return f"{judged.outcome.words}, {judged.seconds:.1f} s" if judged else "not judged"
