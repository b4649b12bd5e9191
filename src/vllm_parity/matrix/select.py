"""Choosing cells by tier, axes and id."""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vllm_parity.errors import ConfigError
from vllm_parity.strict import unknown

if TYPE_CHECKING:
    from vllm_parity.matrix.axes import Execution, Family, Platform, Switch, Tier
    from vllm_parity.matrix.cells import Cell
    from vllm_parity.matrix.load import Matrix


@dataclass(frozen=True, kw_only=True)
class Selection:
    """What was asked for. None is no wish; `cells` are ids or patterns such as ``*-image-*``."""

    tier: Tier | None = None
    platform: Platform | None = None
    family: Family | None = None
    execution: Execution | None = None
    prefix_cache: Switch | None = None
    cells: tuple[str, ...] = ()

    @property
    def by_name(self) -> bool:
        """Whether these cells were meant, rather than whatever a tier has for this machine."""
        return self.tier is None or bool(self.cells)


def select(matrix: Matrix, wanted: Selection) -> tuple[Cell, ...]:
    """Return the cells that fulfil every wish, in the order of the matrix.

    Raises:
        ConfigError: where a pattern matches no cell at all, or where nothing is left: an empty
            selection would be green without having checked anything.

    """
    for pattern in wanted.cells:
        if not fnmatch.filter([cell.id for cell in matrix.cells], pattern):
            told = unknown("cell", pattern, [cell.id for cell in matrix.cells])
            listed = (
                "`vllm-parity plan --list` shows them (with --models built-in, as they are then)"
            )
            msg = f"--cell: {told}; {listed}"
            raise ConfigError(msg)
    chosen = tuple(cell for cell in matrix.cells if _fulfils(cell, wanted))
    if not chosen:
        wishes = ", ".join(f"{key} {_shown(value)}" for key, value in vars(wanted).items() if value)
        msg = f"no cell of matrix.toml has {wishes}; see `vllm-parity plan` for those there are"
        raise ConfigError(msg)
    return chosen


def find_cell(matrix: Matrix, word: str) -> Cell:
    """Return the cell with this id, or the first one whose id begins so.

    A negative control must be named in full.

    Raises:
        ConfigError: where there is none, with the nearest.

    """
    begin = [cell for cell in matrix.cells if cell.id.startswith(word)]
    exact = [cell for cell in begin if cell.id == word]
    plain = [cell for cell in begin if not cell.negative_control]
    if not (word and (exact or plain)):
        ids = [cell.id for cell in matrix.cells]
        msg = f"{unknown('cell', word, ids)}; `vllm-parity plan --list` shows them"
        raise ConfigError(msg)
    return (exact or plain)[0]


def _fulfils(cell: Cell, wanted: Selection) -> bool:
    return (
        (wanted.tier is None or cell.is_in(wanted.tier))
        and (wanted.platform is None or wanted.platform is cell.platform)
        and (wanted.family is None or wanted.family is cell.family)
        and (wanted.execution is None or wanted.execution is cell.execution)
        and (wanted.prefix_cache is None or wanted.prefix_cache is cell.prefix_cache)
        and (
            not wanted.cells
            or any(fnmatch.fnmatchcase(cell.id, pattern) for pattern in wanted.cells)
        )
    )


def _shown(value: str | tuple[str, ...]) -> str:
    return value if isinstance(value, str) else " or ".join(value)
