"""What a run of pytest has chosen: cells, configuration, machine; and how it gives up."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

import pytest

from vllm_parity.matrix import Models, select
from vllm_parity.matrix.options import AXIS_OPTIONS, read_axis, read_selection

if TYPE_CHECKING:
    from vllm_parity.errors import ParityError
    from vllm_parity.families import Config
    from vllm_parity.hardware import Machine
    from vllm_parity.ledger import Ledger
    from vllm_parity.matrix import Cell

RUN: pytest.StashKey[Ledger] = pytest.StashKey()
"""The run, once it is known what it holds."""

GIVEN_UP = "vllm_parity_given_up"
"""Under this name a worker of pytest-xdist tells why it gave up, and the exit code."""

_CELLS: pytest.StashKey[tuple[Cell, ...]] = pytest.StashKey()
_CONFIG: pytest.StashKey[Config] = pytest.StashKey()


def is_chosen(config: pytest.Config) -> bool:
    """Return whether any option chooses cells."""
    names = [name[2:].replace("-", "_") for name in AXIS_OPTIONS]
    return any(getattr(config.option, name) for name in [*names, "cell", "matrix"])


def chosen_cells(config: pytest.Config) -> tuple[Cell, ...]:
    """Return the cells that the options choose.

    Raises:
        ConfigError: where an option or a configuration file is wrong.

    """
    if _CELLS not in config.stash:
        cells = select(loaded(config).matrix, read_selection(config.option))
        config.stash[_CELLS] = cells
    return config.stash[_CELLS]


def loaded(config: pytest.Config) -> Config:
    """Return all configuration, read once.

    Raises:
        ConfigError: where an option or a configuration file is wrong.

    """
    if _CONFIG not in config.stash:
        from vllm_parity.families import load_config
        from vllm_parity.families.config import read_forced

        option = config.option
        models = read_axis("--models", option.models, Models)
        forced = read_forced(option.engine)
        config.stash[_CONFIG] = load_config(option.matrix, models, option.waivers, forced)
    return config.stash[_CONFIG]


def machine_of(config: pytest.Config) -> Machine:
    """Return the machine, or the record that stands in for it."""
    from vllm_parity.hardware import load_machine, probe_machine

    record = config.option.machine
    return load_machine(record) if record else probe_machine()


def cell_of(item: pytest.Item) -> Cell | None:
    """Return the cell that a test runs; others may have a parameter of that name as well."""
    callspec = getattr(item, "callspec", None)
    if callspec is None or item.get_closest_marker("parity") is None:
        return None
    cell: Cell | None = callspec.params.get("cell")
    return cell


def give_up(config: pytest.Config, error: ParityError) -> NoReturn:
    """End pytest with one message and the error's own exit code."""
    output = getattr(config, "workeroutput", None)
    if output is not None:
        output[GIVEN_UP] = [str(error), error.exit_code]
    pytest.exit(f"vllm-parity: {error}", returncode=error.exit_code)
