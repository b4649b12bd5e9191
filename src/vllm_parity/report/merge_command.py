"""``vllm-parity merge``: the records of many jobs in, one table and one exit code out."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from vllm_parity.errors import ResultsError
from vllm_parity.families import load_config
from vllm_parity.matrix import Models, Selection, select
from vllm_parity.matrix.options import add_selection_options, read_axis, read_selection
from vllm_parity.report.markdown import markdown, numbers
from vllm_parity.report.merge import find_records, merge

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from vllm_parity.report.merge import Entry, Merged

_STEP_SUMMARY = "GITHUB_STEP_SUMMARY"


def add_merge_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `vllm-parity merge`."""
    parser.description = (
        "Judge the records of many jobs and bring them together. Where cells are chosen, each that "
        "has no record counts as an error, and records of other cells are left out. The exit code "
        "is that of a run: 0 pass, 1 diverged, 2 a file cannot be read or there is none, "
        "3 not run, 5 unverified, 6 a stale waiver, 7 error, 8 invalid pair, 9 noisy."
    )
    parser.add_argument(
        "results", nargs="+", metavar="RESULTS", help="folders of records, at any depth, or files"
    )
    add_selection_options(parser.add_argument)
    parser.add_argument("--waivers", type=Path, help="a waivers.toml other than the project's own")
    parser.add_argument(
        "--summary", type=Path, metavar="FILE", help=f"write Markdown here, and to ${_STEP_SUMMARY}"
    )


def run_merge(args: argparse.Namespace) -> int:
    """Run `vllm-parity merge` and return its exit code."""
    config = load_config(args.matrix, read_axis("--models", args.models, Models), args.waivers)
    wanted = read_selection(args)
    planned = () if wanted == Selection() else select(config.matrix, wanted)
    merged = merge(find_records(args.results), config.matrix, config.waivers, planned)
    sys.stdout.write(_table(merged))
    for error in merged.unreadable:
        sys.stderr.write(f"error: {error}\n")
    title = " ".join(["vllm-parity", *(word for word in (wanted.tier, wanted.platform) if word)])
    text = markdown(merged, title)
    if args.summary:
        _write(args.summary, text, mode="w")
    if step := os.environ.get(_STEP_SUMMARY):
        _write(Path(step), text, mode="a")
    return merged.exit_code


def _table(merged: Merged) -> str:
    buffer = io.StringIO()
    console = Console(file=buffer, width=200, no_color=True)
    table = Table(box=None, pad_edge=False)
    for name in ("cell", "verdict"):
        table.add_column(name, no_wrap=True)
    for name in ("positions", "worst abs", "ulp", "headroom"):
        table.add_column(name, justify="right", no_wrap=True)
    for entry in merged.entries:
        words = (entry.id, _short(entry), *numbers(entry))
        table.add_row(*(Text(word) for word in words))
    console.print(table)
    others = [merged.others] if merged.others else []
    for line in [*_notes(merged), *others, f"{merged.counts}; worst: {merged.verdict}"]:
        console.print(line, highlight=False, soft_wrap=True, markup=False)
    return buffer.getvalue()


def _short(entry: Entry) -> str:
    words = entry.outcome.words
    return words if len(words) <= 40 else f"{entry.outcome.verdict} (see below)"


def _notes(merged: Merged) -> Iterator[str]:
    for entry in merged.entries:
        long = entry.outcome.words if _short(entry) != entry.outcome.words else ""
        found = "" if entry.outcome.is_green else entry.found
        if long or found:
            told = "; ".join(word for word in (long, found) if word)
            yield f"{entry.id}: {told}" + (f" [{entry.file}]" if entry.file else "")


def _write(path: Path, text: str, *, mode: str) -> None:
    try:
        with path.open(mode, encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        msg = f"{path}: the summary cannot be written: {error.strerror}"
        raise ResultsError(msg) from None
