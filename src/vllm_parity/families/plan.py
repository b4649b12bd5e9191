"""The plan of a cell: what is asked of each arm, before anything runs."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from vllm_parity.errors import ConfigError
from vllm_parity.matrix import (
    CacheStart,
    Contrast,
    Execution,
    Family,
    Matrix,
    PlatformSettings,
    Switch,
)
from vllm_parity.matrix.environment import variables_of
from vllm_parity.matrix.rules import rules_for

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vllm_parity.contracts import Contracts, NamedContract
    from vllm_parity.engine.request import ChatRequest, Request
    from vllm_parity.matrix import Cell, Nudge, Platform
    from vllm_parity.waivers import Waiver

_EXECUTION: dict[Execution, dict[str, Any]] = {
    Execution.EAGER: {"enforce_eager": True},
    Execution.COMPILED: {
        "enforce_eager": False,
        "compilation_config": {"cudagraph_mode": "NONE"},
    },
    Execution.GRAPH: {"enforce_eager": False},
}


_EXECUTION_WITNESS: dict[Execution, tuple[str, ...]] = {
    Execution.EAGER: ("compiled_graphs<=0", "reference.compiled_graphs<=0"),
    Execution.COMPILED: ("compiled_graphs", "reference.compiled_graphs"),
    Execution.GRAPH: ("graph_replays", "reference.graph_replays"),
}


_MM_CACHE_GB = {Switch.OFF: 0, Switch.ON: 1}
"""vLLM's `mm_processor_cache_gb`: 0 turns the cache off, and 1 holds all that a cell sends."""


@dataclass(frozen=True, kw_only=True)
class Config:
    """Everything that the configuration files say, and engine arguments forced by hand."""

    matrix: Matrix
    platforms: Mapping[Platform, PlatformSettings]
    contracts: Contracts
    waivers: tuple[Waiver, ...] = ()
    forced: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class ArmPlan:
    """One arm: vLLM's engine arguments, and the knobs of how the requests are sent."""

    engine: dict[str, Any]
    run: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Both arms of a cell, what may differ between them, and what must be witnessed.

    `variables` are the environment's, and `reasons` say why each is set. `contrast`, `follows`
    and `require` are as in an observation.
    """

    cell: Cell
    variables: dict[str, str]
    reasons: dict[str, str]
    reference: ArmPlan
    candidate: ArmPlan
    requests: tuple[Any, ...]
    contrast: tuple[str, ...]
    require: tuple[str, ...]
    contract: NamedContract
    follows: tuple[str, ...] = ()
    nudge: Nudge | None = None


def make(
    cell: Cell,
    config: Config,
    reference: ArmPlan,
    candidate: ArmPlan,
    *,
    requests: Sequence[Request | ChatRequest],
    require: Sequence[str],
) -> Plan:
    """Return a plan with what is the same for all families."""
    variables = variables_of(cell, config.matrix, config.platforms)
    contrast: tuple[str, ...] = (cell.contrast.value,)
    if cell.cache_start:
        started = {"cache_start": cell.cache_start.value}
        reference, candidate = (
            replace(arm, run={**arm.run, **started}) for arm in (reference, candidate)
        )
    nudge = _nudge(cell, config)
    if nudge is not None:
        contrast += ("nudged_weight",)
        weight = f"{nudge.parameter}[{nudge.index}] by {nudge.delta}"
        candidate = replace(candidate, run={**candidate.run, "nudged_weight": weight})
    return Plan(
        cell=cell,
        variables={name: variable.value for name, variable in variables.items()},
        reasons={name: variable.why for name, variable in variables.items()},
        reference=reference,
        candidate=candidate,
        requests=tuple(requests),
        contrast=contrast,
        require=(
            *require,
            *_cache_witness(cell),
            *_EXECUTION_WITNESS[cell.execution],
            *(one for rule in rules_for(cell, config.matrix.witnesses) for one in rule.require),
        ),
        contract=config.contracts.of(cell),
        nudge=nudge,
    )


def meets_caches_warm(cell: Cell) -> bool:
    """Return whether both arms of a cell must find their requests in a cache that is on.

    A cold reference against a warm candidate would differ in two things.
    """
    if cell.contrast is Contrast.PREFIX_CACHE_STATE or cell.cache_start is CacheStart.COLD:
        return False
    return Switch.ON in {cell.prefix_cache, cell.mm_cache}


def _cache_witness(cell: Cell) -> tuple[str, ...]:
    """Return what shows that a cache was used by both arms, or by none."""
    require: list[str] = []
    if cell.prefix_cache is Switch.OFF:
        require += ["prefix_cache_hits<=0", "reference.prefix_cache_hits<=0"]
    elif cell.cache_start is CacheStart.COLD:
        require += _cold_witness(cell.family)
    elif meets_caches_warm(cell):
        require += ["prefix_cache_hits", "reference.prefix_cache_hits"]
    if cell.mm_cache is Switch.ON:
        require += ["mm_cache_hits", "reference.mm_cache_hits"]
    return tuple(require)


def _cold_witness(family: Family) -> tuple[str, ...]:
    """Return what shows that a cache that is on was met empty.

    Two engines have a cache each. One server has one: what comes after the reference finds what
    the reference left.
    """
    if family is Family.STREAMING:
        return ("reference.prefix_cache_hits<=0", "prefix_cache_hits", "control.prefix_cache_hits")
    return ("reference.prefix_cache_hits<=0", "prefix_cache_hits<=0")


def engine_settings(cell: Cell, config: Config) -> dict[str, Any]:
    """Return the engine arguments of a cell: the same for both arms, but for the contrast.

    The model is a name here; whoever starts the engine puts its folder there.
    """
    settings = {
        "model": cell.model,
        "dtype": cell.dtype.value,
        "enable_prefix_caching": cell.prefix_cache is Switch.ON,
        "worker_extension_cls": "vllm_parity.engine.extension.ParityExtension",
        **_EXECUTION[cell.execution],
        **config.platforms[cell.platform].engine,
        **config.matrix.families[cell.family].engine,
    }
    if cell.attention:
        settings["attention_backend"] = cell.attention.value
    if cell.encoder_attention:
        settings["mm_encoder_attn_backend"] = cell.encoder_attention.value
    if cell.mm_cache:
        settings["mm_processor_cache_gb"] = _MM_CACHE_GB[cell.mm_cache]
    for rule in rules_for(cell, config.matrix.settings):
        settings |= rule.engine
    return {**settings, **cell.engine, **config.forced}


def offline_settings(cell: Cell, config: Config) -> dict[str, Any]:
    """Return :func:`engine_settings`, with what makes an engine in one process tell its steps."""
    return {
        **engine_settings(cell, config),
        "distributed_executor_backend": "uni",
        "disable_log_stats": False,
    }


def _nudge(cell: Cell, config: Config) -> Nudge | None:
    if not cell.negative_control:
        return None
    nudge = config.matrix.models[cell.model].nudge
    if nudge is None:
        msg = f"models.toml: {cell.model} has no nudge, which the cell {cell.id} needs"
        raise ConfigError(msg)
    return nudge


def draft_of(cell: Cell, config: Config) -> str:
    """Return the name of the model that drafts for a cell's model."""
    drafts = config.matrix.models[cell.model].drafts
    if cell.method in drafts:
        return drafts[cell.method]
    msg = f"models.toml: {cell.model} has no drafts.{cell.method}, which the cell {cell.id} needs"
    raise ConfigError(msg)
