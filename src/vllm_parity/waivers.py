"""The waivers of waivers.toml: verdicts that are expected not to be `pass`, each until a date."""

from __future__ import annotations

import datetime
import fnmatch
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vllm_parity.configs import config_path
from vllm_parity.strict import load_toml, unknown
from vllm_parity.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from vllm_parity.matrix import Matrix
    from vllm_parity.strict import Table

_WAIVABLE = [verdict for verdict in Verdict if verdict is not Verdict.PASS]


@dataclass(frozen=True, kw_only=True)
class Waiver:
    """One entry of waivers.toml; `ends` is the last day on which it holds."""

    cell: str
    verdict: Verdict
    reason: str
    issue: str
    ends: datetime.date

    def names(self, cell_id: str) -> bool:
        """Return whether the waiver is for this cell."""
        return fnmatch.fnmatchcase(cell_id, self.cell)

    def has_expired(self, today: datetime.date) -> bool:
        """Return whether the waiver no longer holds."""
        return today > self.ends


def load_waivers(matrix: Matrix, path: Path | None = None) -> tuple[Waiver, ...]:
    """Read waivers.toml (the project's own by default).

    Args:
        matrix: whose cells the waivers name, with the models of the hub or the built-in ones.
        path: another waivers.toml.

    Raises:
        ConfigError: where an entry is wrong in itself, names no cell, or one that another names,
            or waives that a negative control diverges.

    """
    root = load_toml(path or config_path("waivers.toml"))
    cells = {cell.id: cell for one in (matrix, matrix.built_in()) for cell in one.cells}
    waivers: list[Waiver] = []
    for table in root.tables("waivers", []):
        waiver = _waiver(table)
        named = fnmatch.filter(cells, waiver.cell)
        if not named:
            told = unknown("cell", waiver.cell, cells, shown=0)
            msg = f"cell: {told}; `vllm-parity plan --list` shows them"
            raise table.fail(msg)
        controls = [cell_id for cell_id in named if cells[cell_id].negative_control]
        if controls and waiver.verdict is Verdict.DIVERGED:
            msg = (
                f"verdict: {controls[0]} is a negative control, which must come out diverged:"
                " take the waiver out, or let it name no such cell"
            )
            raise table.fail(msg)
        for other in waivers:
            if both := fnmatch.filter(named, other.cell):
                msg = f"cell: {both[0]} has a waiver already, of the pattern {other.cell!r}"
                raise table.fail(msg)
        waivers.append(waiver)
    root.finish()
    return tuple(waivers)


def find_waiver(waivers: Sequence[Waiver], cell_id: str) -> Waiver | None:
    """Return the waiver of a cell."""
    return next((waiver for waiver in waivers if waiver.names(cell_id)), None)


def _waiver(table: Table) -> Waiver:
    waiver = Waiver(
        cell=table.take("cell", str),
        verdict=table.enum("verdict", Verdict),
        reason=table.take("reason", str),
        issue=table.take("issue", str),
        ends=table.take("ends", datetime.date),
    )
    table.finish()
    if waiver.verdict is Verdict.PASS:
        msg = f"verdict: a pass needs no waiver; allowed: {', '.join(_WAIVABLE)}"
        raise table.fail(msg)
    if not waiver.issue.startswith("https://"):
        msg = f"issue = {waiver.issue!r} must be the link of an issue, https://..."
        raise table.fail(msg)
    if not waiver.reason.strip():
        msg = "reason is empty"
        raise table.fail(msg)
    return waiver
