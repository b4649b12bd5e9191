"""From an entry of ``[[cells]]`` to its cells: one for each combination of its lists."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vllm_parity.matrix.axes import Contrast, Dtype, Family, Modality, Models, Switch
from vllm_parity.matrix.cells import Cell, usual_dtype
from vllm_parity.matrix.match import AXES, matches, read_matcher
from vllm_parity.matrix.models import HubModel
from vllm_parity.strict import unknown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from vllm_parity.matrix.models import ModelSpec
    from vllm_parity.strict import Table

FAMILY_AXES: dict[Family, tuple[str, ...]] = {
    Family.BATCH_INVARIANCE: ("modality",),
    Family.SPEC_DECODE: ("method", "logprobs_mode"),
    Family.STREAMING: ("transport",),
}
"""The axes that one family alone has."""

OPTIONAL_AXES = (
    "attention",
    "encoder_attention",
    "mm_cache",
    "batch_invariant",
    "cache_start",
    "workload",
)
"""The axes that a cell may leave to vLLM."""

FAMILY_CONTRASTS: dict[Family, tuple[Contrast, ...]] = {
    Family.BATCH_INVARIANCE: (Contrast.BATCH_SIZE, Contrast.PREFIX_CACHE_STATE),
    Family.SPEC_DECODE: (Contrast.SPECULATIVE_CONFIG,),
    Family.STREAMING: (Contrast.STREAM,),
}
"""What may differ between the arms of a family; the first is the usual one."""


@dataclass(frozen=True, kw_only=True)
class Exclusion:
    """How many combinations of an entry of ``[[cells]]`` are no cells, and why."""

    when: str
    why: str
    count: int


def expand(
    table: Table, models: Mapping[str, ModelSpec], exclusions: list[Exclusion]
) -> Iterator[Cell]:
    """Return the cells of an entry: all combinations of its lists, but for the excluded ones."""
    family = table.enum("family", Family)
    names = ["platform", "execution", "prefix_cache"]
    names += [name for name in OPTIONAL_AXES if name in table.data]
    # The shared axes vary slowest, so that cells with the same engine come together.
    axes = {name: table.enums(name, AXES[name]) for name in (*names, *FAMILY_AXES[family])}
    fixed = _fixed(table, family, models)
    excluded = [
        (read_matcher(one), one.take("why", str), one) for one in table.tables("exclude", [])
    ]
    table.finish()
    counts = [0] * len(excluded)
    for values in itertools.product(*axes.values()):
        cell = _cell(family, fixed, dict(zip(axes, values, strict=True)))
        reasons = [index for index, (when, *_) in enumerate(excluded) if matches(cell, when)]
        for index in reasons:
            counts[index] += 1
        if not reasons:
            _check_medium(cell, models, table)
            _check_optional(cell, table)
            yield cell
    for (_, why, one), count in zip(excluded, counts, strict=True):
        one.finish(list(AXES))
        if not count:
            msg = "no combination of this table is excluded by this"
            raise one.fail(msg)
        when = ", ".join(f"{key} {value}" for key, value in one.data.items() if key != "why")
        exclusions.append(Exclusion(when=f"{family}: {when}", why=why, count=count))


def _fixed(table: Table, family: Family, models: Mapping[str, ModelSpec]) -> dict[str, Any]:
    contrast = table.enum("contrast", Contrast, FAMILY_CONTRASTS[family][0])
    if contrast not in FAMILY_CONTRASTS[family]:
        msg = f"contrast: {unknown('value', contrast.value, FAMILY_CONTRASTS[family])}"
        raise table.fail(msg)
    name = table.take("model", str)
    if name not in models:
        msg = f"model: {unknown('model', name, models)}"
        raise table.fail(msg)
    hub = isinstance(models[name], HubModel)
    return {
        "contrast": contrast,
        "model": name,
        "models": Models.HUB if hub else Models.BUILT_IN,
        "dtype": table.enum("dtype", Dtype, None),
        "negative_control": table.take("negative_control", bool, default=False),
        "ungated": table.take("ungated", str, None),
        "timeout_s": _seconds(table, "timeout_s", 300.0),
        "engine": table.table("engine", {}).data,
    }


def _cell(family: Family, fixed: dict[str, Any], axes: dict[str, Any]) -> Cell:
    dtype = fixed["dtype"] or usual_dtype(axes["platform"])
    return Cell(family=family, **{**fixed, "dtype": dtype}, **axes)


def _check_medium(cell: Cell, models: Mapping[str, ModelSpec], table: Table) -> None:
    model = models[cell.model]
    if cell.medium not in list(model.modalities):
        takes = ", ".join(model.modalities)
        msg = f"the cell {cell.id}: {cell.model} takes {takes}, not {cell.medium}"
        raise table.fail(msg)


def _check_optional(cell: Cell, table: Table) -> None:
    """Refuse an axis that would change nothing in a cell."""
    sized = cell.family is Family.BATCH_INVARIANCE and cell.contrast is Contrast.BATCH_SIZE
    if cell.workload and not (sized and cell.modality is Modality.TEXT):
        msg = f"workload: the cell {cell.id} has no batch of texts to size"
        raise table.fail(msg)
    if cell.cache_start and cell.family is Family.BATCH_INVARIANCE:
        msg = f"cache_start: {cell.family} has the contrast prefix_cache_state for that"
        raise table.fail(msg)
    if cell.cache_start and cell.prefix_cache is Switch.OFF:
        msg = f"cache_start: the cell {cell.id} has no prefix cache to start"
        raise table.fail(msg)


def _seconds(table: Table, key: str, default: float) -> float:
    seconds = table.take(key, float, default)
    if not (seconds > 0 and math.isfinite(seconds)):
        msg = f"{key} = {seconds} must be more than 0 and finite"
        raise table.fail(msg)
    return seconds
