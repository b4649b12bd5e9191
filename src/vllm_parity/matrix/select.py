"""Choosing cells by tier, platform, family, group and id."""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vllm_parity.errors import ConfigError
from vllm_parity.strict import unknown

if TYPE_CHECKING:
    from vllm_parity.matrix.axes import Family, Platform, Tier
    from vllm_parity.matrix.cells import Cell
    from vllm_parity.matrix.load import Matrix


@dataclass(frozen=True, kw_only=True)
class Selection:
    """What was asked for. None is no wish; `cells` are ids or patterns such as ``*-image-*``."""

    tier: Tier | None = None
    platform: Platform | None = None
    family: Family | None = None
    group: str | None = None
    cells: tuple[str, ...] = ()


def select(matrix: Matrix, wanted: Selection) -> tuple[Cell, ...]:
    """Return the cells that fulfil every wish, in the order of the matrix.

    Raises:
        ConfigError: where a pattern matches no cell at all, or where nothing is left: an empty
            selection would be green without having checked anything.

    """
    for pattern in wanted.cells:
        if not fnmatch.filter([cell.id for cell in matrix.cells], pattern):
            msg = f"--cell: {unknown('cell', pattern, [cell.id for cell in matrix.cells])}"
            raise ConfigError(msg)
    chosen = tuple(cell for cell in matrix.cells if _fulfils(cell, wanted))
    if not chosen:
        wishes = ", ".join(f"{key} {_shown(value)}" for key, value in vars(wanted).items() if value)
        msg = f"no cell of matrix.toml has {wishes}; see `vllm-parity plan` for those there are"
        raise ConfigError(msg)
    return chosen


def _fulfils(cell: Cell, wanted: Selection) -> bool:
    return (
        (wanted.tier is None or wanted.tier in cell.tiers)
        and (wanted.platform is None or wanted.platform is cell.platform)
        and (wanted.family is None or wanted.family is cell.family)
        and (wanted.group is None or wanted.group == cell.group)
        and (
            not wanted.cells
            or any(fnmatch.fnmatchcase(cell.id, pattern) for pattern in wanted.cells)
        )
    )


def _shown(value: str | tuple[str, ...]) -> str:
    return value if isinstance(value, str) else " or ".join(value)
