"""pytest-xdist: each worker has one GPU, and the controller makes one run of all.

The controller collects nothing. It gives each worker a device and the run's folder, keeps cells
with the same engine settings on one worker, reads what the workers recorded and judges it again,
so that its table, exit code and summary are those of a run without workers. Where no option
chooses cells all this stays out of the way.
"""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from vllm_parity.chosen import (
    GIVEN_UP,
    RUN,
    chosen_cells,
    give_up,
    is_chosen,
    loaded,
    machine_of,
)
from vllm_parity.errors import ConfigError, ParityError
from vllm_parity.handover import give_back, given

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vllm_parity.session import Share


@pytest.hookimpl(optionalhook=True, tryfirst=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """With ``-n auto``: as many workers as there are GPUs for the chosen cells."""
    if not is_chosen(config) or "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ:
        return None
    from vllm_parity.devices import most_workers

    try:
        return most_workers(chosen_cells(config), machine_of(config))
    except ParityError:
        # It comes again, where pytest can end with its message.
        return 1


@pytest.hookimpl(optionalhook=True, tryfirst=True)
def pytest_xdist_setupnodes(config: pytest.Config, specs: Sequence[object]) -> None:
    """On the controller, before any worker starts: refuse too many, or take the run over."""
    if not is_chosen(config):
        return
    from vllm_parity.controller import Controller
    from vllm_parity.devices import devices_for, memory_of
    from vllm_parity.families import make_plan
    from vllm_parity.families.distinct import distinct
    from vllm_parity.gate import Gate

    try:
        if config.option.dist not in {"load", "loadgroup"}:
            msg = (
                f"--dist {config.option.dist}: cells with the same engine settings stay on one"
                " worker, and each cell runs once; leave --dist out"
            )
            raise ConfigError(msg)
        cells = chosen_cells(config)
        machine = machine_of(config)
        gate = Gate(
            matrix=loaded(config).matrix, platforms=loaded(config).platforms, machine=machine
        )
        need = partial(
            memory_of,
            counts=distinct(make_plan(cell, loaded(config)) for cell in cells),
            warm=max(loaded(config).platforms[cell.platform].engines for cell in cells),
            largest=gate.largest_engine(cells),
        )
        devices = devices_for(cells, machine, len(specs), need=need)
    except ParityError as error:
        give_up(config, error)
    config.pluginmanager.register(Controller(config, cells, devices), "vllm-parity-controller")


@pytest.hookimpl(optionalhook=True, tryfirst=True)
def pytest_testnodedown(node: Any) -> None:  # noqa: ANN401 - xdist's WorkerController
    """On the controller: give up as a worker did."""
    output = getattr(node, "workeroutput", {})
    if GIVEN_UP in output:
        message, code = output[GIVEN_UP]
        pytest.exit(f"vllm-parity: {message}", returncode=code)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """On a worker: see its one GPU alone."""
    mine = given(config)
    if mine is not None:
        os.environ.update(mine["variables"])


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """On a worker: tell the controller what was started."""
    run = session.config.stash.get(RUN, None)
    if run is not None and given(session.config) is not None:
        told = {"started": dict(run.started), "incidents": list(run.incidents)}
        give_back(session.config, told)


def share_of(config: pytest.Config) -> Share | None:
    """Return what this worker has of the run; None where there are no workers.

    Raises:
        ConfigError: where there are, and the controller could not know that there are cells.

    """
    from vllm_parity.session import Share

    if not hasattr(config, "workerinput"):
        return None
    mine = given(config)
    if mine is None:
        msg = (
            "pytest-xdist: nothing says which cells, and so how many GPUs they need; choose some,"
            " such as with --platform, or leave -n out"
        )
        raise ConfigError(msg)
    name = config.workerinput["workerid"]
    return Share(run_id=mine["run_id"], name=name, number=mine["number"])
