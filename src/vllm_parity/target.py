"""One cell that a command measures by itself: found in the matrix, planned, fit to run here."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vllm_parity.errors import HardwareError
from vllm_parity.families import load_config, make_plan
from vllm_parity.families.config import read_forced
from vllm_parity.found import find_vllm
from vllm_parity.gate import Gate
from vllm_parity.hardware import load_machine, probe_machine
from vllm_parity.ledger import project_of
from vllm_parity.matrix import Models, find_cell
from vllm_parity.matrix.options import add_run_options, add_source_options, read_axis
from vllm_parity.observe import observe
from vllm_parity.session import open_pool

if TYPE_CHECKING:
    import argparse

    from vllm_parity.engine.pool import Pool
    from vllm_parity.families import Config, Plan
    from vllm_parity.results import Results
    from vllm_parity.schema import Observation


def add_target_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say where a cell is found, and how it is run."""
    add_source_options(parser.add_argument)
    add_run_options(parser.add_argument)


@dataclass(frozen=True, kw_only=True)
class Target:
    """A cell that can run here. `about` is what its numbers depend on besides the plan."""

    config: Config
    plan: Plan
    about: tuple[str, ...]
    project: dict[str, str]


class Engines:
    """A target's engines, started when they are needed; after `close`, others are."""

    def __init__(self, target: Target, results: Results) -> None:
        self._target = target
        self._logs = results.meta
        self._numbers = itertools.count(1)
        self._pool: Pool | None = None

    def run(self, plan: Plan) -> Observation:
        """Run a plan; what does not start is tried once more, as in a run of the matrix."""
        target = self._target
        if self._pool is None:
            # Each pool's logs have names of their own.
            name = f"pool{next(self._numbers)}"
            self._pool = open_pool(target.config, [target.plan.cell], logs=self._logs, name=name)
        run = observe(plan, self._pool, project=target.project)
        if run.not_started:
            run = observe(plan, self._pool, project=target.project)
        return run.observation

    def close(self) -> None:
        """End all of them."""
        if self._pool is not None:
            self._pool.close()
            self._pool = None


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
