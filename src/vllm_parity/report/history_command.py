"""``vllm-parity history``: one cell over time, and what changed when its verdict did."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from vllm_parity.errors import FormatError
from vllm_parity.families import load_config
from vllm_parity.report.history import look_back
from vllm_parity.report.history_query import choose, find_files, query
from vllm_parity.report.history_records import load_records
from vllm_parity.report.history_text import as_json, as_text
from vllm_parity.report.merge import known_cells

if TYPE_CHECKING:
    import argparse


def add_history_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `vllm-parity history`."""
    parser.description = (
        "Show what became of a cell over time: its records in folders of results, oldest first, "
        "since when it has diverged and what changed then, how often it does so in one "
        "environment, and the settings in which alone records differ that disagree. The exit code "
        "is that of the latest record, 1 where the cell is flaky in one environment, 2 where a "
        "record cannot be read or there is none."
    )
    parser.add_argument("cell", metavar="CELL", help="a cell's id, or how it alone begins")
    parser.add_argument(
        "results",
        nargs="*",
        metavar="RESULTS",
        default=["results"],
        help="folders of records, at any depth (default: results)",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object, nothing else")
    parser.add_argument("--matrix", type=Path, help="a matrix.toml other than the project's own")
    parser.add_argument("--waivers", type=Path, help="a waivers.toml other than the project's own")


def run_history(args: argparse.Namespace) -> int:
    """Run `vllm-parity history` and return its exit code."""
    config = load_config(args.matrix, waivers=args.waivers)
    cells = known_cells(config.matrix)
    archive = query(find_files(args.results))
    name = choose(archive, args.cell, args.results)
    records, unreadable = load_records(archive.of(name), cells, config.waivers)
    for error in unreadable:
        sys.stderr.write(f"error: {error}\n")
    if not records:
        return FormatError.exit_code
    cell = cells.get(name)
    history = look_back(name, records, gates=cell is None or not cell.ungated)
    left_out = {
        "probes of a search for a cause": archive.probes.get(name, 0),
        "copies of a record that is listed": archive.copies.get(name, 0),
    }
    write = as_json if args.json else as_text
    sys.stdout.write(write(history, left_out))
    return FormatError.exit_code if unreadable else history.exit_code
