"""One cell that a command measures by itself: found in the matrix, planned, fit to run here."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from vllm_parity.errors import HardwareError
from vllm_parity.families import load_config, make_plan
from vllm_parity.families.config import read_forced
from vllm_parity.found import find_vllm
from vllm_parity.gate import Gate
from vllm_parity.hardware import load_machine, probe_machine
from vllm_parity.ledger import project_of
from vllm_parity.matrix import Models, find_cell
from vllm_parity.matrix.options import read_axis
from vllm_parity.session import open_pool

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from vllm_parity.engine.pool import Pool
    from vllm_parity.families import Config, Plan
    from vllm_parity.results import Results


def add_target_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say where a cell is found, and how it is run."""
    add = parser.add_argument
    add("--matrix", type=Path, help="a matrix.toml other than the project's own")
    add(
        "--models",
        metavar="NAME",
        default=Models.HUB.value,
        help="hub: the cell's own model; built-in: a tiny one in place of one of the hub",
    )
    add("--machine", type=Path, help="take this record (of `vllm-parity doctor --json`) for here")
    add(
        "--engine",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="force an engine argument of vLLM on both arms; the value is JSON, or a word",
    )
    add(
        "--results", type=Path, default=Path("results"), help="folder of records (default: results)"
    )


@dataclass(frozen=True, kw_only=True)
class Target:
    """A cell that can run here. `about` is what its numbers depend on besides the plan."""

    config: Config
    plan: Plan
    about: tuple[str, ...]
    project: dict[str, str]
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def make_pool(self, results: Results) -> Pool:
        """Return new engines, whose logs lie with the results; each pool has names of its own."""
        name = f"pool{next(self._numbers)}"
        return open_pool(self.config, [self.plan.cell], logs=results.meta, name=name)


def open_target(args: argparse.Namespace, word: str) -> Target:
    """Return the cell that a word names.

    Raises:
        ConfigError: where there is none, or an option or file is wrong.
        HardwareError: where it cannot run on this machine.

    """
    config = load_config(
        args.matrix, read_axis("--models", args.models, Models), forced=read_forced(args.engine)
    )
    cell = find_cell(config.matrix, word)
    machine = load_machine(args.machine) if args.machine else probe_machine()
    vllm = find_vllm()
    gate = Gate(matrix=config.matrix, platforms=config.platforms, machine=machine, vllm=vllm)
    missing = gate.missing(cell)
    if vllm is None:
        missing = missing or (
            "there is no vLLM in this environment; the session of the same name has one:"
            " nox -s attribute, nox -s flake"
        )
    if missing:
        msg = f"{cell.id} cannot run here: {missing}"
        raise HardwareError(msg)
    devices = [str(device.name) for device in machine.probe(cell.platform).devices[:1]]
    return Target(
        config=config,
        plan=make_plan(cell, config),
        about=(vllm.version if vllm else "", machine.python, *devices),
        project=project_of(config),
    )
