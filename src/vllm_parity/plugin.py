"""The pytest plugin: options, selection, one live line a cell, a table, the exit code.

A test takes the fixtures `cell` and `parity`, and bears the mark ``parity(family=...)``; it runs
once for each selected cell of that family. Without such tests the plugin does nothing.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from _pytest.outcomes import Failed

from vllm_parity import workers
from vllm_parity.chosen import RUN, cell_of, chosen_cells, give_up, loaded, machine_of
from vllm_parity.errors import ConfigError, ParityError
from vllm_parity.live import LiveLine
from vllm_parity.matrix import Family
from vllm_parity.matrix.options import add_run_options, add_selection_options, read_selection

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vllm_parity.matrix import Cell
    from vllm_parity.session import Session


_ERROR: pytest.StashKey[ParityError] = pytest.StashKey()
_SESSION: pytest.StashKey[Session] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    """Add the options that select cells, and what is there for pytest-xdist."""
    pluginmanager.register(workers, "vllm-parity-workers")
    group = parser.getgroup("vllm-parity", "numerical parity of vLLM")
    add_selection_options(group.addoption)
    add_run_options(group.addoption)
    group.addoption(
        "--enforce-eager",
        action="append_const",
        dest="engine",
        const="enforce_eager=true",
        help="the same as --engine enforce_eager=true",
    )
    group.addoption("--waivers", type=Path, help="a waivers.toml other than the project's own")
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
        cells = _cells_of(family, metafunc.config)
    except ParityError as error:
        metafunc.config.stash[_ERROR] = error
        cells = []
    metafunc.parametrize("cell", cells or [None], ids=[cell.id for cell in cells] or ["none"])


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Take out the tests of families of which no cell was selected; have starts retried."""
    if _ERROR in config.stash:
        give_up(config, config.stash[_ERROR])
    idle = [item for item in items if cell_of(item) is None and item.get_closest_marker("parity")]
    if idle:
        config.hook.pytest_deselected(items=idle)
        items[:] = [item for item in items if item not in idle]
    if _retries(config):
        for item in items:
            if cell_of(item) is not None:
                # The first mark counts, before any other and before --reruns.
                only = [f"^{StartFailed.__name__}:"]
                item.add_marker(pytest.mark.flaky(reruns=1, only_rerun=only), append=False)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Open the run as soon as it is known what it holds."""
    config = session.config
    cells = [cell for cell in map(cell_of, session.items) if cell is not None]
    if not cells or config.option.collectonly:
        return
    from vllm_parity.session import Session

    live = LiveLine(config)
    try:
        config.stash[_SESSION] = config.stash[RUN] = Session(
            loaded(config),
            cells,
            share=workers.share_of(config),
            missing=_missing(config, cells),
            results=config.option.results,
            server_port=config.option.server_port,
            stage=live.stage,
        )
    except ParityError as error:
        give_up(config, error)
    config.pluginmanager.register(live, "vllm-parity-live")


def pytest_sessionfinish(session: pytest.Session) -> None:
    """End all processes; the exit code is that of the worst outcome."""
    run = session.config.stash.get(RUN, None)
    if run is None:
        return
    ended = session.exitstatus in {pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED}
    try:
        run.close()
    except ParityError as error:
        # Where the run was given up already, one message is enough.
        if ended:
            give_up(session.config, error)
    if ended and run.judged:
        session.exitstatus = run.exit_code or session.exitstatus


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the table."""
    run = terminalreporter.config.stash.get(RUN, None)
    if run is None or not run.judged:
        return
    from vllm_parity.report.terminal import summary

    writer = terminalreporter._tw
    terminalreporter.section("parity")
    terminalreporter.write(summary(run, width=writer.fullwidth, color=writer.hasmarkup))


@pytest.fixture
def parity(request: pytest.FixtureRequest) -> Parity:
    """Run cells of the matrix on warm engines; see :class:`Parity`."""
    return Parity(request)


class StartFailed(Failed):
    """An engine or server did not start: the one failure that pytest-rerunfailures tries again."""


class Parity:
    """What a test does with a cell."""

    def __init__(self, request: pytest.FixtureRequest) -> None:
        self._config = request.config
        self._session = request.config.stash[_SESSION]
        self._properties = request.node.user_properties

    def check(self, cell: Cell) -> None:
        """Run a cell, record and judge it; fail unless its outcome is `pass`."""
        from vllm_parity.report.explain import explain_outcome

        __tracebackhide__ = True
        try:
            judged = self._session.run(cell)
        except ParityError as error:
            give_up(self._config, error)
        # By these the controller of pytest-xdist finds it.
        self._properties.append(("parity_record", judged.path.name))
        self._properties.append(("parity_seconds", f"{judged.seconds:.3f}"))
        if judged.outcome.is_green:
            return
        if judged.observation.not_run:
            pytest.skip(f"not run: {judged.observation.not_run}")
        text = explain_outcome(judged)
        if not judged.not_started:
            pytest.fail(text, pytrace=False)
        if not _retries(self._config):
            text += f"\nIt was not tried again: {_NO_RETRY}."
        raise StartFailed(text, pytrace=False)


_NO_RETRY = "that takes pytest-rerunfailures, without --pdb"


def _retries(config: pytest.Config) -> bool:
    """Return whether pytest-rerunfailures is here; it refuses --pdb."""
    return config.pluginmanager.hasplugin("rerunfailures") and not config.option.usepdb


def _missing(config: pytest.Config, cells: Sequence[Cell]) -> dict[Cell, str]:
    """Return the cells that cannot run here, with the reasons.

    Raises:
        HardwareError: where they were asked for by name.

    """
    from vllm_parity.doctor import refuse_named
    from vllm_parity.found import find_vllm
    from vllm_parity.gate import Gate

    gate = Gate(
        matrix=loaded(config).matrix,
        platforms=loaded(config).platforms,
        machine=machine_of(config),
        vllm=find_vllm(),
    )
    found = gate.sort(cells)
    refuse_named(read_selection(config.option), found.missing, any_left=bool(found.runnable))
    return found.missing


def _cells_of(family: Family, config: pytest.Config) -> list[Cell]:
    """Return the chosen cells of a family, those with the same engine or server in a row.

    An engine or server then ends after its last cell, and none is started twice.

    Raises:
        ConfigError: where an option or a configuration file is wrong.

    """
    cells = [cell for cell in chosen_cells(config) if cell.family is family]
    if not cells:
        return []
    from vllm_parity.families import make_plan
    from vllm_parity.families.distinct import together

    return [plan.cell for plan in together(make_plan(cell, loaded(config)) for cell in cells)]


def _family(mark: pytest.Mark, where: str) -> Family:
    """Return the family of a test's mark."""
    family = mark.kwargs.get("family")
    if mark.args or set(mark.kwargs) != {"family"} or family not in list(Family):
        given = ", ".join([*map(repr, mark.args), *(f"{k}={v!r}" for k, v in mark.kwargs.items())])
        allowed = ", ".join(Family)
        msg = f"{where}: the mark parity({given}) must be parity(family=NAME), of {allowed}"
        raise ConfigError(msg)
    return Family(family)
