"""A cell's id is flat, and says what is special about it."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from vllm_parity.matrix import (
    Cell,
    Contrast,
    Execution,
    Family,
    LogprobsMode,
    Method,
    Modality,
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
    tiers=(Tier.SMOKE,),
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
            "rocm-spec_decode-ngram-raw_logits-compiled-apc_off-nudged",
        ),
    ],
)
def test_id(cell: Cell, expected: str) -> None:
    assert cell.id == expected


def test_group_is_part_of_the_id() -> None:
    assert AUDIO.group == "eager-apc_on"
    assert AUDIO.group in AUDIO.id


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


@pytest.mark.parametrize("cell", load_matrix().cells, ids=lambda cell: cell.id)
def test_every_id_is_one_word_for_shells_files_and_nox(cell: Cell) -> None:
    assert re.fullmatch(r"[a-z0-9_.-]+", cell.id)
