"""Effective settings: what the engine says of itself, and where that is not what was asked for."""

from __future__ import annotations

import enum
from types import SimpleNamespace
from typing import Any

import pytest

from vllm_parity.engine.readback import effective_knobs, unmet, with_names

DESCRIBED: dict[str, Any] = {
    "config": {
        "model_config": {
            "dtype": "torch.float32",
            "seed": 1234,
            "max_model_len": 4096,
            "logprobs_mode": "raw_logprobs",
            "quantization": None,
            "enforce_eager": True,
            "multimodal_config": None,
        },
        "cache_config": {"enable_prefix_caching": False, "block_size": 128, "cache_dtype": "auto"},
        "scheduler_config": {"max_num_seqs": 8, "policy": "fcfs", "async_scheduling": False},
        "parallel_config": {"distributed_executor_backend": "uni"},
        "compilation_config": {"mode": 0, "cudagraph_mode": 0, "backend": "inductor"},
        "speculative_config": None,
    },
    "variables": {"VLLM_USE_FLASHINFER_SAMPLER": "False"},
    "model_runner": "CPUModelRunner",
    "attention_backend": "CPU_ATTN",
}
"""A part of what vLLM 0.32.0 says on a CPU."""

NGRAM = {
    "method": "ngram",
    "num_speculative_tokens": 3,
    "prompt_lookup_min": 1,
    "prompt_lookup_max": 3,
    "draft_model_config": {"dtype": "torch.float32"},
    "model": None,
}


def described(**config: Any) -> dict[str, Any]:
    return DESCRIBED | {"config": DESCRIBED["config"] | config}


@pytest.mark.parametrize(
    ("knob", "value"),
    [
        ("dtype", "torch.float32"),
        ("seed", 1234),
        ("enforce_eager", True),
        ("max_model_len", 4096),
        ("logprobs_mode", "raw_logprobs"),
        ("block_size", 128),
        ("max_num_seqs", 8),
        ("async_scheduling", False),
        ("distributed_executor_backend", "uni"),
        ("cudagraph_mode", 0),
        ("compilation_backend", "inductor"),
        ("enable_prefix_caching", False),
        ("kv_cache_dtype", "auto"),
        ("scheduling_policy", "fcfs"),
        ("compilation_mode", 0),
        ("model_runner", "CPUModelRunner"),
        ("attention_backend", "CPU_ATTN"),
        ("env.VLLM_USE_FLASHINFER_SAMPLER", "False"),
        ("speculative_config", None),
        # Neither what this vLLM lacks, nor what a text model lacks, is an error.
        ("moe_backend", None),
        ("mm_processor_cache_gb", None),
    ],
)
def test_knob(knob: str, value: object) -> None:
    knobs = effective_knobs(DESCRIBED)
    assert knobs[knob] == value
    assert type(knobs[knob]) is type(value)


def test_speculative_config_keeps_what_decides() -> None:
    assert effective_knobs(described(speculative_config=NGRAM))["speculative_config"] == {
        "method": "ngram",
        "num_speculative_tokens": 3,
        "prompt_lookup_min": 1,
        "prompt_lookup_max": 3,
    }


def test_multimodal_settings_are_found_where_there_are_some() -> None:
    model = {"multimodal_config": {"mm_processor_cache_gb": 0.0}}
    assert effective_knobs(described(model_config=model))["mm_processor_cache_gb"] == 0.0


def test_all_that_was_asked_for_is_there() -> None:
    wanted = {
        "model": "tiny-qwen3",
        "dtype": "float32",
        "enforce_eager": True,
        "max_num_seqs": 8,
        "distributed_executor_backend": "uni",
        "limit_mm_per_prompt": {"image": 1},
    }
    assert unmet(wanted, effective_knobs(DESCRIBED)) == []


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ({"dtype": "bfloat16"}, "dtype: asked for 'bfloat16', but the engine runs with 'torch.fl"),
        ({"enforce_eager": False}, "enforce_eager: asked for False, but the engine runs with True"),
        ({"max_num_seqs": 4}, "max_num_seqs: asked for 4, but the engine runs with 8"),
        ({"enable_prefix_caching": True}, "asked for True, but the engine runs with False"),
        ({"mm_processor_cache_gb": 0}, "asked for 0, but the engine runs with None"),
        ({"speculative_config": {"method": "ngram"}}, "but the engine runs with None"),
    ],
)
def test_setting_that_the_engine_has_otherwise(wanted: dict[str, Any], words: str) -> None:
    (message,) = unmet(wanted, effective_knobs(DESCRIBED))
    assert words in message


def test_speculative_config_is_compared_by_what_both_name() -> None:
    knobs = effective_knobs(described(speculative_config=NGRAM))
    wanted = {"method": "ngram", "num_speculative_tokens": 3, "model": "tiny-qwen3-draft"}
    assert unmet({"speculative_config": wanted}, knobs) == []
    (message,) = unmet({"speculative_config": wanted | {"num_speculative_tokens": 5}}, knobs)
    assert message.startswith("speculative_config: asked for ")


class Backend(enum.Enum):
    """As vLLM's AttentionBackendEnum: the values are paths of classes, and one is empty."""

    FLASH_ATTN = "vllm.v1.attention.backends.flash_attn.FlashAttentionBackend"
    TORCH_SDPA = ""


@pytest.mark.parametrize("backend", Backend)
def test_attention_backend_of_an_encoder_is_given_by_name(backend: Backend) -> None:
    dumped = {"model_config": {"multimodal_config": {"mm_encoder_attn_backend": backend.value}}}
    multimodal = SimpleNamespace(mm_encoder_attn_backend=backend)
    config = SimpleNamespace(model_config=SimpleNamespace(multimodal_config=multimodal))
    named = with_names(dumped, config)
    assert named["model_config"]["multimodal_config"]["mm_encoder_attn_backend"] == backend.name


def test_model_without_an_encoder_has_no_backend_for_it() -> None:
    config = SimpleNamespace(model_config=SimpleNamespace(multimodal_config=None))
    dumped = {"model_config": {"multimodal_config": None}}
    assert with_names(dumped, config) == {"model_config": {"multimodal_config": None}}
