"""A cell's id is flat, and says what is special about it."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from vllm_parity.matrix import (
    Attention,
    Cell,
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
    Tier,
    Transport,
    load_matrix,
)

IMAGE = Cell(
    family=Family.BATCH_INVARIANCE,
    platform=Platform.CPU,
    model="tiny-qwen3-vl",
    contrast=Contrast.BATCH_SIZE,
    execution=Execution.COMPILED,
    prefix_cache=Switch.OFF,
    dtype=Dtype.FLOAT32,
    tier=Tier.PR,
    modality=Modality.IMAGE,
)
NGRAM = replace(
    IMAGE,
    family=Family.SPEC_DECODE,
    contrast=Contrast.SPECULATIVE_CONFIG,
    modality=None,
    method=Method.NGRAM,
    logprobs_mode=LogprobsMode.RAW_LOGITS,
)
AUDIO = replace(
    IMAGE,
    family=Family.STREAMING,
    contrast=Contrast.STREAM,
    modality=None,
    transport=Transport.INPUT_AUDIO,
    execution=Execution.EAGER,
    prefix_cache=Switch.ON,
)


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        (IMAGE, "cpu-batch_invariance-image-compiled-apc_off"),
        (NGRAM, "cpu-spec_decode-ngram-raw_logits-compiled-apc_off"),
        (AUDIO, "cpu-streaming-input_audio-eager-apc_on"),
        (
            replace(IMAGE, contrast=Contrast.PREFIX_CACHE_STATE, prefix_cache=Switch.ON),
            "cpu-batch_invariance-image-compiled-apc_on-warm",
        ),
        (
            replace(NGRAM, negative_control=True, platform=Platform.ROCM),
            "rocm-spec_decode-ngram-raw_logits-compiled-apc_off-float32-nudged",
        ),
        (
            replace(
                IMAGE,
                platform=Platform.CUDA,
                dtype=Dtype.BFLOAT16,
                model="vl-2b",
                models=Models.HUB,
                attention=Attention.TRITON_ATTN,
                encoder_attention=EncoderAttention.TORCH_SDPA,
                mm_cache=Switch.ON,
                batch_invariant=Switch.ON,
            ),
            "cuda-batch_invariance-image-vl-2b-compiled-apc_off-triton_attn-enc_torch_sdpa-mmc_on-bi",
        ),
        (
            replace(IMAGE, mm_cache=Switch.OFF, batch_invariant=Switch.OFF, dtype=Dtype.BFLOAT16),
            "cpu-batch_invariance-image-compiled-apc_off-bfloat16",
        ),
    ],
)
def test_id(cell: Cell, expected: str) -> None:
    assert cell.id == expected


def test_larger_tiers_hold_what_smaller_ones_do() -> None:
    assert [tier for tier in Tier if IMAGE.is_in(tier)] == [Tier.PR, Tier.NIGHTLY, Tier.FULL]


def test_variant_holds_the_values_of_the_family_alone() -> None:
    assert [cell.variant for cell in (IMAGE, NGRAM, AUDIO)] == [
        ("image",),
        ("ngram", "raw_logits"),
        ("input_audio",),
    ]


def test_medium_is_what_the_requests_carry() -> None:
    text = replace(AUDIO, transport=Transport.TEXT)
    tools = replace(AUDIO, transport=Transport.TOOLS)
    image = replace(AUDIO, transport=Transport.IMAGE_URL)
    assert [cell.medium for cell in (IMAGE, NGRAM, AUDIO, text, tools, image)] == [
        "image",
        "text",
        "audio",
        "text",
        "text",
        "image",
    ]


def test_cells_can_be_counted_in_sets() -> None:
    assert len({IMAGE, replace(IMAGE), NGRAM, replace(IMAGE, engine={"seed": 1})}) == 3


def test_every_id_is_one_word_for_shells_files_and_nox() -> None:
    for cell in load_matrix().cells:
        assert re.fullmatch(r"[a-z0-9_.-]{1,110}", cell.id)
