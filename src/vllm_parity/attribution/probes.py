"""The plan of a probe: a cell with some suspects at their other value, and all else as it was."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from vllm_parity.families import make_plan

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from vllm_parity.attribution.suspects import Suspect
    from vllm_parity.contracts import NamedContract
    from vllm_parity.families import Config, Plan
    from vllm_parity.families.plan import ArmPlan
    from vllm_parity.schema import Observation

_AXIS_ARGUMENTS = {
    "execution": ("enforce_eager", "compilation_config"),
    "prefix_cache": ("enable_prefix_caching",),
    "mm_cache": ("mm_processor_cache_gb",),
    "attention": ("attention_backend",),
    "encoder_attention": ("mm_encoder_attn_backend",),
    "dtype": ("dtype",),
    "logprobs_mode": ("logprobs_mode",),
    "method": ("speculative_config",),
}
"""The engine arguments that belong to an axis: what else goes with its other value stays."""


def probe_plan(
    base: Plan, config: Config, changed: Sequence[Suspect], contract: NamedContract
) -> Plan:
    """Return the plan of a cell with some suspects at their other value.

    It has the base's requests, and the base's engine arguments but for those of the suspects, so
    that nothing else moves along: a cell without a prefix cache, say, would have shorter prompts.
    What must be witnessed is what a cell with these values must show.
    """
    axes = {name: value for one in changed for name, value in one.axes.items()}
    engine = {name: _filled(value, base) for one in changed for name, value in one.engine.items()}
    variables = {name: value for one in changed for name, value in one.variables.items()}
    cell = replace(
        base.cell,
        **axes,
        engine={**base.cell.engine, **engine},
        variables={**base.cell.variables, **variables},
    )
    plan = make_plan(cell, config)
    owned = {*engine, *(name for axis in axes for name in _AXIS_ARGUMENTS.get(axis, ()))}
    candidate = _pinned(base.candidate, plan.candidate, owned)
    return replace(
        plan,
        requests=base.requests,
        contract=contract,
        reference=_pinned(base.reference, plan.reference, owned),
        candidate=_with_drafts(candidate, changed),
    )


def is_other_already(suspect: Suspect, plan: Plan, knobs: Mapping[str, Any]) -> bool:
    """Return whether an engine that runs the plan has a suspect's other value as it is.

    `knobs` are the candidate's effective ones.
    """
    if suspect.axes:
        return False
    wanted = {name: _filled(value, plan) for name, value in suspect.engine.items()}
    wanted |= {f"env.{name}": value for name, value in suspect.variables.items()}
    has = dict(knobs)
    if suspect.speculative:
        has |= knobs.get("speculative_config") or {}
        wanted |= suspect.speculative
    return all(has.get(name) == value for name, value in wanted.items())


def key_of_plan(plan: Plan, about: Iterable[str]) -> str:
    """Return a short text that two plans share where the same is measured: 10 hex digits.

    `about` is what else the numbers may depend on, such as the version of vLLM.
    """
    asked = [
        plan.variables,
        [asdict(arm) for arm in (plan.reference, plan.candidate)],
        [asdict(request) for request in plan.requests],
        plan.contrast,
        plan.require,
        plan.contract.as_fields(),
        [*about],
    ]
    encoded = msgspec.msgpack.encode(asked, enc_hook=_plain, order="deterministic")
    return hashlib.sha256(encoded).hexdigest()[:10]


def marked(
    observation: Observation, cell: str, changed: Sequence[Suspect], repeat: int
) -> Observation:
    """Return an observation that says it is a probe of a cell, and what was changed."""
    probe = {one.name: one.other for one in changed}
    return msgspec.structs.replace(observation, cell=cell, probe=probe, repeat=repeat)


def _filled(value: Any, plan: Plan) -> Any:  # noqa: ANN401 - a TOML value
    """Return an engine argument, with what stands for a number of the cell's filled in."""
    if value == "$requests":
        return len(plan.requests)
    if value == "$max_model_len":
        return plan.reference.engine["max_model_len"]
    return value


def _pinned(base: ArmPlan, probe: ArmPlan, owned: set[str]) -> ArmPlan:
    kept = {name: value for name, value in base.engine.items() if name not in owned}
    own = {name: value for name, value in probe.engine.items() if name in owned}
    return replace(probe, engine={**kept, **own})


def _with_drafts(candidate: ArmPlan, changed: Sequence[Suspect]) -> ArmPlan:
    other = {name: value for one in changed for name, value in one.speculative.items()}
    config = candidate.engine.get("speculative_config")
    if not (other and config):
        return candidate
    return replace(
        candidate, engine={**candidate.engine, "speculative_config": {**config, **other}}
    )


def _plain(value: object) -> object:
    if isinstance(value, np.ndarray):
        return [value.dtype.str, list(value.shape), value.tobytes()]
    msg = f"cannot encode {type(value).__name__}"
    raise NotImplementedError(msg)
