"""``vllm-parity doctor``: what this machine is, which vLLM it has, and what can run here."""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from vllm_parity import __version__
from vllm_parity.contracts import load_contracts
from vllm_parity.errors import HardwareError, ResultsError
from vllm_parity.found import find_vllm
from vllm_parity.gate import Gate
from vllm_parity.hardware import dump_machine, load_machine, probe_machine
from vllm_parity.matrix import Models, Platform, Tier, load_matrix, load_platforms, select
from vllm_parity.matrix.environment import check_variables, variables_of
from vllm_parity.matrix.options import add_selection_options, read_axis, read_selection
from vllm_parity.verdict import Verdict

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator

    from vllm_parity.hardware import Device, Machine
    from vllm_parity.matrix import Cell, Selection

_GIB = 1 << 30


def add_doctor_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``vllm-parity doctor``."""
    add_selection_options(parser.add_argument)
    parser.add_argument(
        "--json", action="store_true", help="print the machine's record, which --machine takes"
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="say nothing where a chosen cell can run; else what is missing, with exit code 4,"
        " or 3 where a tier was chosen; other options are passed over, as they are pytest's",
    )
    parser.add_argument(
        "--results",
        type=Path,
        metavar="FOLDER",
        help="where no chosen cell can run, --check records here that they were not run, and why",
    )


def run_doctor(args: argparse.Namespace) -> int:
    """Run ``vllm-parity doctor``."""
    machine = load_machine(args.machine) if args.machine else probe_machine()
    if args.json:
        sys.stdout.write(dump_machine(machine))
        return 0
    matrix = load_matrix(args.matrix)
    if read_axis("--models", args.models, Models) is Models.BUILT_IN:
        matrix = matrix.built_in()
    gate = Gate(matrix=matrix, platforms=load_platforms(), machine=machine, vllm=find_vllm())
    wanted = read_selection(args)
    if args.check:
        return check(gate, wanted, args.results)
    lines = [*_machine_lines(machine), "", *_vllm_lines(), "", *_tier_lines(gate, wanted)]
    sys.stdout.write("\n".join(lines) + "\n")
    return 0


def check(gate: Gate, wanted: Selection, results: Path | None = None) -> int:
    """Return 0 where a chosen cell can run here, and 3 where a tier has none that can.

    Args:
        gate: what the cells are held against.
        wanted: what chooses them.
        results: where to record them if none can run, since no run will.

    Raises:
        ConfigError: where a variable is set here to something else than the cells need.
        HardwareError: where cells were asked for by name, and none of them can run, or one that
            was named in full.
        ResultsError: where `results` cannot be written.

    """
    cells = select(gate.matrix, wanted)
    found = gate.sort(cells)
    if results and not found.runnable:
        record_missing(results, found.missing)
    refuse_named(wanted, found.missing, any_left=bool(found.runnable))
    for cell in found.runnable:
        variables = variables_of(cell, gate.matrix, gate.platforms)
        check_variables({name: one.value for name, one in variables.items()})
    if found.runnable:
        return 0
    told = "\n".join(f"  {line}" for line in grouped(found.missing))
    sys.stderr.write(
        f"vllm-parity: none of {len(cells)} cells of the tier can run here (not_run):\n{told}\n"
        f"{_how_to_see(wanted)}\n"
    )
    return Verdict.NOT_RUN.exit_code


def refuse_named(wanted: Selection, missing: dict[Cell, str], *, any_left: bool) -> None:
    """Give up where what was asked for by name cannot run here.

    Raises:
        HardwareError: with what is missing, and how to see the plan anyway.

    """
    exact = {cell: reason for cell, reason in missing.items() if cell.id in wanted.cells}
    if exact:
        missing = exact
    elif any_left or not wanted.by_name:
        return
    told = "\n".join(f"  {line}" for line in grouped(missing))
    msg = f"this machine cannot run what was asked for by name:\n{told}\n{_how_to_see(wanted)}"
    raise HardwareError(msg)


def record_missing(results: Path, missing: dict[Cell, str]) -> None:
    """Write the observations that a run would have written of cells that cannot run here.

    The Python that runs nox checks the machine, so that only the standard library is used.

    Raises:
        ResultsError: where they cannot be written.

    """
    folder = results / time.strftime("%Y%m%d-%H%M%S-doctor", time.gmtime())
    contracts = load_contracts()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for cell, reason in missing.items():
            record = {
                "schema": "vllm-parity.observation/1",
                "cell": cell.id,
                "family": cell.family,
                "platform": cell.platform,
                "contrast": [cell.contrast],
                "contract": contracts.of(cell).as_fields(),
                "environment": {"vllm_parity": __version__},
                "arms": {"reference": None, "candidate": None, "control": None},
                "not_run": reason,
            }
            (folder / f"{cell.id}.json").write_text(json.dumps(record), encoding="utf-8")
    except OSError as error:
        msg = f"{folder}: cannot be written: {error.strerror}; name another folder with --results"
        raise ResultsError(msg) from None


def grouped(missing: dict[Cell, str]) -> Iterator[str]:
    """Return one line for each reason, with the number of cells or the only one's id."""
    for reason, count in Counter(missing.values()).most_common():
        (first, *_) = (cell.id for cell, other in missing.items() if other == reason)
        yield f"{first if count == 1 else f'{count} cells'}: {reason}"


def _how_to_see(wanted: Selection) -> str:
    words = {
        "--platform": wanted.platform,
        "--family": wanted.family,
        "--execution": wanted.execution,
        "--prefix-cache": wanted.prefix_cache,
        "--tier": wanted.tier,
    }
    options = [f"{name} {value}" for name, value in words.items() if value]
    options += [f"--cell '{pattern}'" for pattern in wanted.cells]
    return (
        "see `vllm-parity doctor` for what this machine has, and"
        f" `vllm-parity plan {' '.join(options)}` for what would run"
        " (--models and --matrix as here)"
    )


def _machine_lines(machine: Machine) -> Iterator[str]:
    yield f"machine  {machine.host}, Python {machine.python}"
    for probe in machine.probes:
        for device in probe.devices:
            yield f"{probe.platform:<8} {_device_words(device)}"
        if probe.driver:
            yield f"{'':<8} driver {probe.driver}"
        if not probe.devices and not probe.problem:
            yield f"{probe.platform:<8} none"
        if probe.problem:
            yield f"{probe.platform:<8} cannot tell: {probe.problem}"
        if probe.note:
            yield f"{'':<8} {probe.note}"


def _device_words(device: Device) -> str:
    words = [device.name or "unnamed", device.architecture or "unknown architecture"]
    if device.cores:
        words.append(f"{device.cores} cores")
    if device.memory_total is not None and device.memory_free is not None:
        free, total = device.memory_free / _GIB, device.memory_total / _GIB
        words.append(f"{free:.1f} of {total:.1f} GiB free")
    else:
        words.append("memory unknown")
    return ", ".join(words)


def _vllm_lines() -> Iterator[str]:
    found = find_vllm()
    here = f"{found.version} ({found.folder or 'folder unknown'})" if found else "none"
    yield f"vLLM     in this Python: {here}"
    for folder in sorted(Path(os.environ.get("NOX_ENVDIR", ".nox")).glob("vllm-*/")):
        sites = [str(site) for site in folder.glob("lib/python3*/site-packages")]
        if other := find_vllm(sites):
            yield f"{'':<8} in {folder}: {other.version}"


def _tier_lines(gate: Gate, wanted: Selection) -> Iterator[str]:
    cells = select(gate.matrix, wanted)
    found = gate.sort(cells)
    yield f"{'cells that can run here':<24}" + "".join(f"{tier:>14}" for tier in Tier)
    for platform in Platform:
        of = [cell for cell in cells if cell.platform is platform]
        if of:
            yield f"  {platform:<22}" + "".join(
                f"{_count(of, found.runnable, tier):>14}" for tier in Tier
            )
    if found.missing:
        yield ""
        yield "cannot run here:"
        for platform in Platform:
            here = {c: why for c, why in found.missing.items() if c.platform is platform}
            yield from (f"  {platform:<6} {line}" for line in grouped(here))


def _count(cells: Iterable[Cell], runnable: tuple[Cell, ...], tier: Tier) -> str:
    of = [cell for cell in cells if cell.is_in(tier)]
    return f"{sum(cell in runnable for cell in of)} of {len(of)}" if of else "-"
