"""The plan of a cell: what is asked of each arm, before anything runs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from vllm_parity.errors import ConfigError
from vllm_parity.matrix import Execution, Matrix, PlatformSettings, Switch
from vllm_parity.models import ModelSpec, drafts_of, find_model

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vllm_parity.contracts import Contracts, NamedContract
    from vllm_parity.engine.request import ChatRequest, Request
    from vllm_parity.matrix import Cell, Platform
    from vllm_parity.models import Nudge

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


@dataclass(frozen=True, kw_only=True)
class Config:
    """Everything that the configuration files say."""

    matrix: Matrix
    platforms: Mapping[Platform, PlatformSettings]
    models: Mapping[str, ModelSpec]
    contracts: Contracts


@dataclass(frozen=True, kw_only=True)
class ArmPlan:
    """One arm: vLLM's engine arguments, and the knobs of how the requests are sent."""

    engine: dict[str, Any]
    run: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Both arms of a cell, what may differ between them, and what must be witnessed.

    `contrast`, `follows` and `require` are as in an observation.
    """

    cell: Cell
    variables: dict[str, str]
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
    server: bool = False,
) -> Plan:
    """Return a plan with what is the same for all families."""
    platform = config.platforms[cell.platform]
    unused = ("prefix_cache_hits<=0", "reference.prefix_cache_hits<=0")
    cache = unused if cell.prefix_cache is Switch.OFF else ()
    own = platform.server_variables if server else platform.host_variables
    variables = platform.variables | own
    contrast: tuple[str, ...] = (cell.contrast.value,)
    nudge = _nudge(cell, config)
    if nudge is not None:
        contrast += ("nudged_weight",)
        weight = f"{nudge.parameter}[{nudge.index}] by {nudge.delta}"
        candidate = replace(candidate, run={**candidate.run, "nudged_weight": weight})
    return Plan(
        cell=cell,
        variables={name: variable.value for name, variable in variables.items()},
        reference=reference,
        candidate=candidate,
        requests=tuple(requests),
        contrast=contrast,
        require=(*require, *cache, *_EXECUTION_WITNESS[cell.execution]),
        contract=config.contracts.find(cell.family, cell.platform, cell.dtype),
        nudge=nudge,
    )


def engine_settings(cell: Cell, config: Config) -> dict[str, Any]:
    """Return the engine arguments of a cell: the same for both arms, but for the contrast.

    The model is a name here; whoever starts the engine puts its folder there.
    """
    return {
        "model": cell.model,
        "dtype": cell.dtype,
        "enable_prefix_caching": cell.prefix_cache is Switch.ON,
        "worker_extension_cls": "vllm_parity.engine.extension.ParityExtension",
        **_EXECUTION[cell.execution],
        **config.platforms[cell.platform].engine,
        **config.matrix.families[cell.family].engine,
        **cell.engine,
    }


def offline_settings(cell: Cell, config: Config) -> dict[str, Any]:
    """Return :func:`engine_settings`, with what makes an engine in one process tell its steps."""
    return {
        **engine_settings(cell, config),
        "distributed_executor_backend": "uni",
        "disable_log_stats": False,
        "enable_logging_iteration_details": True,
    }


def _nudge(cell: Cell, config: Config) -> Nudge | None:
    if not cell.negative_control:
        return None
    nudge = find_model(cell.model, config.models).nudge
    if nudge is None:
        msg = f"models.toml: {cell.model} has no nudge, which the cell {cell.id} needs"
        raise ConfigError(msg)
    return nudge


def draft_of(cell: Cell, config: Config) -> str:
    """Return the name of the model that drafts for a cell's model."""
    drafts = drafts_of(find_model(cell.model, config.models))
    if cell.method is None or cell.method not in drafts:
        msg = (
            f"models.toml: {cell.model} has no draft for the method {cell.method}, "
            f"which the cell {cell.id} needs"
        )
        raise ConfigError(msg)
    return drafts[cell.method]
