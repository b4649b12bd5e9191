"""The pytest plugin: options, selection, one live line a cell, a table, the exit code.

A test takes the fixtures `cell` and `parity`, and bears the mark ``parity(family=...)``; it runs
once for each selected cell of that family. Without such tests the plugin does nothing.
"""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from vllm_parity.errors import ConfigError, ParityError
from vllm_parity.matrix import Family, Models, select
from vllm_parity.matrix.options import add_selection_options, read_axis, read_selection

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vllm_parity.families import Config
    from vllm_parity.matrix import Cell
    from vllm_parity.session import Judged, Session

_CELLS: pytest.StashKey[tuple[Cell, ...]] = pytest.StashKey()
_CONFIG: pytest.StashKey[Config] = pytest.StashKey()
_ERROR: pytest.StashKey[ParityError] = pytest.StashKey()
_SESSION: pytest.StashKey[Session] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options that select cells."""
    group = parser.getgroup("vllm-parity", "numerical parity of vLLM")
    add_selection_options(group.addoption)
    group.addoption("--waivers", type=Path, help="a waivers.toml other than the project's own")
    group.addoption(
        "--results", type=Path, default=Path("results"), help="folder of records (default: results)"
    )
    group.addoption(
        "--server-port", type=int, default=0, help="port of the first server (default: any free)"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the mark."""
    config.addinivalue_line("markers", "parity(family): run once for each cell of a family")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give a test the cells of its family, or the stand-in None, which is deselected later.

    A mistake in the options or the matrix is kept until all is collected: here it would look like
    one in the test.
    """
    mark = metafunc.definition.get_closest_marker("parity")
    if mark is None:
        return
    try:
        family = _family(mark, metafunc.definition.nodeid)
        cells = [cell for cell in _selected(metafunc.config) if cell.family is family]
    except ParityError as error:
        metafunc.config.stash[_ERROR] = error
        cells = []
    metafunc.parametrize("cell", cells or [None], ids=[cell.id for cell in cells] or ["none"])


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Take out the tests of families of which no cell was selected."""
    if _ERROR in config.stash:
        _give_up(config.stash[_ERROR])
    idle = [item for item in items if _cell(item) is None and item.get_closest_marker("parity")]
    if idle:
        config.hook.pytest_deselected(items=idle)
        items[:] = [item for item in items if item not in idle]


def pytest_collection_finish(session: pytest.Session) -> None:
    """Open the run as soon as it is known what it holds."""
    config = session.config
    cells = [cell for cell in map(_cell, session.items) if cell is not None]
    if not cells or config.option.collectonly:
        return
    from vllm_parity.session import Session

    live = LiveLine(config)
    try:
        run = Session(
            config.stash[_CONFIG],
            cells,
            missing=_missing(config, cells),
            results=config.option.results,
            server_port=config.option.server_port,
            stage=live.stage,
        )
        config.stash[_SESSION] = run
        config.pluginmanager.register(live, "vllm-parity-live")
    except ParityError as error:
        _give_up(error)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """End all processes; the exit code is that of the worst outcome."""
    run = session.config.stash.get(_SESSION, None)
    if run is None:
        return
    ended = session.exitstatus in {pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED}
    try:
        run.close()
    except ParityError as error:
        # Where the run was given up already, one message is enough.
        if ended:
            _give_up(error)
    if ended and run.judged:
        session.exitstatus = run.exit_code or session.exitstatus


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the table."""
    run = terminalreporter.config.stash.get(_SESSION, None)
    if run is None or not run.judged:
        return
    from vllm_parity.report.terminal import summary

    writer = terminalreporter._tw
    terminalreporter.section("parity")
    terminalreporter.write(summary(run, width=writer.fullwidth, color=writer.hasmarkup))


@pytest.fixture
def parity(request: pytest.FixtureRequest) -> Parity:
    """Run cells of the matrix on warm engines; see :class:`Parity`."""
    return Parity(request.config.stash[_SESSION])


class Parity:
    """What a test does with a cell."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def check(self, cell: Cell) -> None:
        """Run a cell, record and judge it; fail unless its outcome is `pass`."""
        from vllm_parity.report.explain import explain_outcome

        __tracebackhide__ = True
        try:
            judged = self._session.run(cell)
        except ParityError as error:
            _give_up(error)
        if judged.outcome.is_green:
            return
        if judged.observation.not_run:
            pytest.skip(f"not run: {judged.observation.not_run}")
        pytest.fail(explain_outcome(judged), pytrace=False)


class LiveLine:
    """A line a cell that grows while the cell runs, in place of pytest's dots."""

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
            self._write((", " if self._stages else "") + words)
            self._stages.append(words)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[Any]:
        """Begin a line, let the test run, and end the line with its verdict."""
        cell = _cell(item)
        if cell is None:
            return (yield)
        self._stages.clear()
        self._write(f"{cell.id:<62} ")
        try:
            return (yield)
        finally:
            self._write(": " + _verdict_words(item.config.stash[_SESSION].judged, cell) + "\n")

    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str] | None:
        """Keep pytest's own letters out of the line; what failed still counts as failed."""
        if "parity" not in report.keywords:
            return None
        if report.failed:
            return "failed", "", "FAILED"
        if report.skipped:
            return "skipped", "", "SKIPPED"
        return "passed" if report.when == "call" else "", "", ""

    def _write(self, text: str) -> None:
        if self._reporter is None:
            return
        # What a test prints is captured; this line is not the test's.
        with self._capture.global_and_fixture_disabled() if self._capture else nullcontext():
            self._reporter.write(text, flush=True)


def _verdict_words(judged: list[Judged], cell: Cell) -> str:
    if not judged or judged[-1].cell is not cell:
        return "not judged"
    return f"{judged[-1].outcome.words}, {judged[-1].seconds:.1f} s"


def _selected(config: pytest.Config) -> tuple[Cell, ...]:
    if _CELLS not in config.stash:
        from vllm_parity.families import load_config

        option = config.option
        models = read_axis("--models", option.models, Models)
        config.stash[_CONFIG] = load_config(option.matrix, models, option.waivers)
        config.stash[_CELLS] = select(config.stash[_CONFIG].matrix, read_selection(option))
    return config.stash[_CELLS]


def _missing(config: pytest.Config, cells: Sequence[Cell]) -> dict[Cell, str]:
    """Return the cells that cannot run here, with the reasons.

    Raises:
        HardwareError: where they were asked for by name.

    """
    from vllm_parity.doctor import refuse_named
    from vllm_parity.found import find_vllm
    from vllm_parity.gate import Gate
    from vllm_parity.hardware import load_machine, probe_machine

    loaded, record = config.stash[_CONFIG], config.option.machine
    gate = Gate(
        matrix=loaded.matrix,
        platforms=loaded.platforms,
        machine=load_machine(record) if record else probe_machine(),
        vllm=find_vllm(),
    )
    found = gate.sort(cells)
    refuse_named(read_selection(config.option), found.missing, any_left=bool(found.runnable))
    return found.missing


def _family(mark: pytest.Mark, where: str) -> Family:
    """Return the family of a test's mark."""
    family = mark.kwargs.get("family")
    if mark.args or set(mark.kwargs) != {"family"} or family not in list(Family):
        given = ", ".join([*map(repr, mark.args), *(f"{k}={v!r}" for k, v in mark.kwargs.items())])
        allowed = ", ".join(Family)
        msg = f"{where}: the mark parity({given}) must be parity(family=NAME), of {allowed}"
        raise ConfigError(msg)
    return Family(family)


def _cell(item: pytest.Item) -> Cell | None:
    """Return the cell that a test runs; others may have a parameter of that name as well."""
    callspec = getattr(item, "callspec", None)
    if callspec is None or item.get_closest_marker("parity") is None:
        return None
    cell: Cell | None = callspec.params.get("cell")
    return cell


def _give_up(error: ParityError) -> None:
    """End pytest with one message and the error's own exit code."""
    pytest.exit(f"vllm-parity: {error}", returncode=error.exit_code)
