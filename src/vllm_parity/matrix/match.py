"""Naming cells by their axes: ``{ platform = "cuda", execution = ["eager", "graph"] }``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vllm_parity.matrix.axes import (
    Attention,
    CacheStart,
    Contrast,
    Dtype,
    EncoderAttention,
    Execution,
    Family,
    LogprobsMode,
    Method,
    Modality,
    Models,
    Platform,
    Switch,
    Transport,
    Workload,
)

if TYPE_CHECKING:
    from collections.abc import Collection
    from enum import StrEnum

    from vllm_parity.matrix.cells import Cell
    from vllm_parity.strict import Table

AXES: dict[str, type[StrEnum]] = {
    "family": Family,
    "platform": Platform,
    "execution": Execution,
    "prefix_cache": Switch,
    "dtype": Dtype,
    "contrast": Contrast,
    "models": Models,
    "modality": Modality,
    "workload": Workload,
    "cache_start": CacheStart,
    "encoder_attention": EncoderAttention,
    "attention": Attention,
    "mm_cache": Switch,
    "batch_invariant": Switch,
    "method": Method,
    "logprobs_mode": LogprobsMode,
    "transport": Transport,
}
"""Every axis, by the name of a cell's field."""

Matcher = tuple[tuple[str, "Collection[Any]"], ...]
"""Pairs of a cell's field and the values of it that match; a cell must match all pairs."""


def read_matcher(table: Table, *, finish: bool = False) -> Matcher:
    """Take the keys that are axes (and `model`, `negative_control`) out of a table.

    Args:
        table: where they are.
        finish: whether nothing else may be in it.

    """
    found: list[tuple[str, Collection[Any]]] = [
        (name, table.enums(name, kind)) for name, kind in AXES.items() if name in table.data
    ]
    if "model" in table.data:
        found.append(("model", table.words("model")))
    if "negative_control" in table.data:
        found.append(("negative_control", (table.take("negative_control", bool),)))
    if finish:
        table.finish([*AXES, "model", "negative_control"])
    if not found:
        allowed = ", ".join([*AXES, "model", "negative_control"])
        msg = f"must name at least one of: {allowed}"
        raise table.fail(msg)
    return tuple(found)


def matches(cell: Cell, matcher: Matcher) -> bool:
    """Return whether a cell has one of the named values on every named axis."""
    return all(getattr(cell, name) in values for name, values in matcher)
