"""Effective settings: what the engine says it runs with, as flat knobs.

`dump_config` runs inside vLLM's worker, the rest on the other side.
"""

from __future__ import annotations

import enum
import functools
from typing import Any

_KNOBS = {
    "dtype": "model_config.dtype",
    "seed": "model_config.seed",
    "max_model_len": "model_config.max_model_len",
    "max_logprobs": "model_config.max_logprobs",
    "logprobs_mode": "model_config.logprobs_mode",
    "quantization": "model_config.quantization",
    "enforce_eager": "model_config.enforce_eager",
    "mm_processor_cache_gb": "model_config.multimodal_config.mm_processor_cache_gb",
    "mm_encoder_attn_backend": "model_config.multimodal_config.mm_encoder_attn_backend",
    "enable_prefix_caching": "cache_config.enable_prefix_caching",
    "block_size": "cache_config.block_size",
    "kv_cache_dtype": "cache_config.cache_dtype",
    "kv_cache_memory_bytes": "cache_config.kv_cache_memory_bytes",
    "max_num_seqs": "scheduler_config.max_num_seqs",
    "max_num_batched_tokens": "scheduler_config.max_num_batched_tokens",
    "enable_chunked_prefill": "scheduler_config.enable_chunked_prefill",
    "async_scheduling": "scheduler_config.async_scheduling",
    "scheduling_policy": "scheduler_config.policy",
    "tensor_parallel_size": "parallel_config.tensor_parallel_size",
    "pipeline_parallel_size": "parallel_config.pipeline_parallel_size",
    "distributed_executor_backend": "parallel_config.distributed_executor_backend",
    "compilation_mode": "compilation_config.mode",
    "cudagraph_mode": "compilation_config.cudagraph_mode",
    "cudagraph_capture_sizes": "compilation_config.cudagraph_capture_sizes",
    "compilation_backend": "compilation_config.backend",
    "moe_backend": "kernel_config.moe_backend",
    "linear_backend": "kernel_config.linear_backend",
}
"""Knob -> where vLLM's `VllmConfig` holds it. Sizes that follow from free memory are left out."""

_SPECULATIVE = ("method", "num_speculative_tokens", "prompt_lookup_min", "prompt_lookup_max")


def dump_config(vllm_config: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return vLLM's whole configuration as plain data."""
    import pydantic
    from vllm.config import VllmConfig

    adapter = pydantic.TypeAdapter(VllmConfig)
    dumped: dict[str, Any] = adapter.dump_python(vllm_config, mode="json", fallback=str)
    return with_names(dumped, vllm_config)


def with_names(dumped: dict[str, Any], vllm_config: Any) -> dict[str, Any]:  # noqa: ANN401
    """Put the names of attention backends where a dump has their values: paths of classes."""
    path = _KNOBS["mm_encoder_attn_backend"].split(".")
    backend = functools.reduce(lambda one, name: getattr(one, name, None), path, vllm_config)
    holder = _lookup(dumped, ".".join(path[:-1]))
    if isinstance(holder, dict) and isinstance(backend, enum.Enum):
        holder[path[-1]] = backend.name
    return dumped


def effective_knobs(described: dict[str, Any]) -> dict[str, Any]:
    """Return the knobs in what a worker said of itself; one that vLLM does not have is None."""
    config = described["config"]
    knobs = {name: _lookup(config, path) for name, path in _KNOBS.items()}
    knobs |= {name: described[name] for name in ("model_runner", "attention_backend")}
    knobs |= {f"env.{name}": value for name, value in described["variables"].items()}
    speculative = config.get("speculative_config")
    knobs["speculative_config"] = speculative and {
        key: speculative[key] for key in _SPECULATIVE if speculative.get(key)
    }
    return knobs


def unmet(wanted: dict[str, Any], knobs: dict[str, Any]) -> list[str]:
    """Say of every setting that was asked for, and that the engine has otherwise, what it is."""
    return [
        f"{name}: asked for {value!r}, but the engine runs with {knobs[name]!r}"
        for name, value in wanted.items()
        if name in knobs and not _same(value, knobs[name])
    ]


def _same(wanted: Any, effective: Any) -> bool:  # noqa: ANN401
    if isinstance(wanted, dict) and isinstance(effective, dict):
        return all(effective[key] == value for key, value in wanted.items() if key in effective)
    if isinstance(wanted, str) and isinstance(effective, str):
        return wanted == effective.removeprefix("torch.")
    return bool(wanted == effective)


def _lookup(config: Any, path: str) -> Any:  # noqa: ANN401
    for part in path.split("."):
        if not isinstance(config, dict):
            return None
        config = config.get(part)
    return config
