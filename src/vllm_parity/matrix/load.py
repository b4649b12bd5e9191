"""Reading matrix.toml: strictly, and each list of axis values into one cell per combination."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from vllm_parity.configs import config_path
from vllm_parity.matrix.axes import (
    Contrast,
    Dtype,
    Execution,
    Family,
    LogprobsMode,
    Method,
    Modality,
    Platform,
    Switch,
    Tier,
    Transport,
)
from vllm_parity.matrix.cells import Cell
from vllm_parity.strict import load_toml, unknown

if TYPE_CHECKING:
    from collections.abc import Iterable
    from enum import StrEnum
    from pathlib import Path

    from vllm_parity.strict import Table

E = TypeVar("E", bound="StrEnum")

FAMILY_AXES: dict[Family, dict[str, type[StrEnum]]] = {
    Family.BATCH_INVARIANCE: {"modality": Modality},
    Family.SPEC_DECODE: {"method": Method, "logprobs_mode": LogprobsMode},
    Family.STREAMING: {"transport": Transport},
}
"""The axes that one family alone has."""

FAMILY_CONTRASTS: dict[Family, tuple[Contrast, ...]] = {
    Family.BATCH_INVARIANCE: (Contrast.BATCH_SIZE, Contrast.PREFIX_CACHE_STATE),
    Family.SPEC_DECODE: (Contrast.SPECULATIVE_CONFIG,),
    Family.STREAMING: (Contrast.STREAM,),
}
"""What may differ between the arms of a family; the first is the usual one."""


@dataclass(frozen=True, kw_only=True)
class FamilySettings:
    """What holds for all cells of a family, on both arms.

    `engine` are vLLM's engine arguments; `sampling` maps a name to vLLM's sampling parameters:
    every prompt is sent once with each. `methods` are vLLM's `speculative_config`s by method.
    """

    summary: str
    engine: dict[str, Any]
    sampling: dict[str, dict[str, Any]]
    methods: dict[str, dict[str, Any]]


@dataclass(frozen=True, kw_only=True)
class TierSettings:
    """What a tier is for, and its estimated time in minutes."""

    purpose: str
    minutes: int


@dataclass(frozen=True, kw_only=True)
class Matrix:
    """All of matrix.toml, cells in the order of the file."""

    tiers: dict[Tier, TierSettings]
    families: dict[Family, FamilySettings]
    cells: tuple[Cell, ...]


def load_matrix(path: Path | None = None) -> Matrix:
    """Read matrix.toml.

    Raises:
        ConfigError: with the file, the place and the allowed values where anything is wrong.

    """
    root = load_toml(path or config_path("matrix.toml"))
    tiers = {tier: _tier(table) for tier, table in _named(root.table("tiers"), Tier)}
    families = {
        family: _family(family, table) for family, table in _named(root.table("families"), Family)
    }
    cells: dict[str, Cell] = {}
    for table in root.tables("cells"):
        for cell in _cells(table):
            if cell.id in cells:
                msg = f"the cell {cell.id} is there already"
                raise table.fail(msg)
            for needed in _tables_needed(cell, tiers, families):
                msg = f"the cell {cell.id} needs a table [{needed}]"
                raise table.fail(msg)
            cells[cell.id] = cell
    root.finish()
    return Matrix(tiers=tiers, families=families, cells=tuple(cells.values()))


def _named(table: Table, kind: type[E]) -> Iterable[tuple[E, Table]]:
    for key, entry in table.items():
        if key not in list(kind):
            raise table.fail(unknown(kind.__name__.lower(), key, list(kind)))
        yield kind(key), entry


def _tier(table: Table) -> TierSettings:
    settings = TierSettings(purpose=table.take("purpose", str), minutes=table.take("minutes", int))
    table.finish()
    return settings


def _tables_needed(
    cell: Cell, tiers: dict[Tier, TierSettings], families: dict[Family, FamilySettings]
) -> Iterable[str]:
    """Name the tables that a cell refers to and that are not there."""
    yield from (f"tiers.{tier}" for tier in cell.tiers if tier not in tiers)
    if cell.family not in families:
        yield f"families.{cell.family}"
    elif cell.method is not None and cell.method not in families[cell.family].methods:
        yield f"families.{cell.family}.methods.{cell.method}"


def _family(family: Family, table: Table) -> FamilySettings:
    settings = FamilySettings(
        summary=table.take("summary", str),
        engine=table.table("engine").data,
        sampling={
            name: _sampling(family, entry) for name, entry in table.table("sampling").items()
        },
        methods={str(key): entry.data for key, entry in _named(table.table("methods", {}), Method)},
    )
    table.finish()
    return settings


def _sampling(family: Family, table: Table) -> dict[str, Any]:
    """Return sampling parameters; without a limit nobody could say that an answer is short."""
    table.take("max_completion_tokens" if family is Family.STREAMING else "max_tokens", int)
    return table.data


def _cells(table: Table) -> list[Cell]:
    family = table.enum("family", Family)
    own = {name: table.enums(name, kind) for name, kind in FAMILY_AXES[family].items()}
    shared = {
        "platform": table.enums("platform", Platform),
        "execution": table.enums("execution", Execution),
        "prefix_cache": table.enums("prefix_cache", Switch),
    }
    contrast = table.enum("contrast", Contrast, FAMILY_CONTRASTS[family][0])
    if contrast not in FAMILY_CONTRASTS[family]:
        msg = f"contrast: {unknown('value', contrast.value, FAMILY_CONTRASTS[family])}"
        raise table.fail(msg)
    fixed: dict[str, Any] = {
        "model": table.take("model", str),
        "tiers": table.enums("tiers", Tier),
        "dtype": table.enum("dtype", Dtype, Dtype.FLOAT32),
        "negative_control": table.take("negative_control", bool, default=False),
        "timeout_s": _seconds(table, "timeout_s", 300.0),
        "engine": table.table("engine", {}).data,
    }
    table.finish()
    # The shared axes vary slowest, so that cells with the same engine come together.
    axes: dict[str, tuple[Any, ...]] = {**shared, **own}
    return [
        Cell(family=family, contrast=contrast, **fixed, **dict(zip(axes, values, strict=True)))
        for values in itertools.product(*axes.values())
    ]


def _seconds(table: Table, key: str, default: float) -> float:
    seconds = table.take(key, float, default)
    if not (seconds > 0 and math.isfinite(seconds)):
        msg = f"{key} = {seconds} must be more than 0 and finite"
        raise table.fail(msg)
    return seconds
