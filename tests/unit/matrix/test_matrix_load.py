"""matrix.toml: lists become cells, and every mistake is named with its place."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from vllm_parity.errors import ConfigError
from vllm_parity.matrix import (
    Contrast,
    Execution,
    Family,
    Modality,
    Platform,
    Switch,
    Tier,
    load_matrix,
)
from vllm_parity.matrix.load import FAMILY_AXES, FAMILY_CONTRASTS

if TYPE_CHECKING:
    from pathlib import Path

SMALL = """
[tiers.smoke]
purpose = "all"
minutes = 8

[families.batch_invariance]
summary = "alone, against together"
engine = { seed = 1234 }
sampling.greedy = { temperature = 0.0, max_tokens = 8 }

[families.spec_decode]
summary = "plain, against drafted"
engine = { seed = 42 }
sampling.plain = { max_tokens = 32 }
methods.ngram = { method = "ngram", num_speculative_tokens = 3 }

[[cells]]
family = "batch_invariance"
platform = "cpu"
model = "tiny-qwen3-vl"
modality = ["image", "video"]
execution = ["eager", "compiled"]
prefix_cache = "off"
engine = { mm_processor_cache_gb = 0 }
timeout_s = 60
tiers = "smoke"

[[cells]]
family = "spec_decode"
platform = ["cuda", "rocm"]
model = "tiny-qwen3"
method = "ngram"
logprobs_mode = "raw_logits"
execution = "graph"
prefix_cache = "off"
negative_control = true
dtype = "bfloat16"
tiers = ["smoke"]
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "matrix.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_lists_become_one_cell_per_combination_the_shared_axes_slowest(tmp_path: Path) -> None:
    assert [cell.id for cell in load_matrix(write(tmp_path, SMALL)).cells] == [
        "cpu-batch_invariance-image-eager-apc_off",
        "cpu-batch_invariance-video-eager-apc_off",
        "cpu-batch_invariance-image-compiled-apc_off",
        "cpu-batch_invariance-video-compiled-apc_off",
        "cuda-spec_decode-ngram-raw_logits-graph-apc_off-bfloat16-nudged",
        "rocm-spec_decode-ngram-raw_logits-graph-apc_off-bfloat16-nudged",
    ]


def test_all_that_a_cell_says_is_kept(tmp_path: Path) -> None:
    image, *_, drafted = load_matrix(write(tmp_path, SMALL)).cells
    assert (image.family, image.platform) == (Family.BATCH_INVARIANCE, Platform.CPU)
    assert (image.model, image.modality) == ("tiny-qwen3-vl", Modality.IMAGE)
    assert (image.execution, image.prefix_cache) == (Execution.EAGER, Switch.OFF)
    assert (image.engine, image.timeout_s) == ({"mm_processor_cache_gb": 0}, 60.0)
    assert (image.dtype, image.negative_control) == ("float32", False)
    assert (drafted.dtype, drafted.negative_control) == ("bfloat16", True)
    assert (drafted.engine, drafted.timeout_s, drafted.tiers) == ({}, 300.0, (Tier.SMOKE,))


def test_usual_contrast_of_a_family_need_not_be_said(tmp_path: Path) -> None:
    contrasts = {cell.contrast for cell in load_matrix(write(tmp_path, SMALL)).cells}
    assert contrasts == {Contrast.BATCH_SIZE, Contrast.SPECULATIVE_CONFIG}


def test_families_and_tiers(tmp_path: Path) -> None:
    matrix = load_matrix(write(tmp_path, SMALL))
    assert matrix.tiers[Tier.SMOKE].minutes == 8
    family = matrix.families[Family.SPEC_DECODE]
    assert family.summary == "plain, against drafted"
    assert family.engine == {"seed": 42}
    assert family.sampling == {"plain": {"max_tokens": 32}}
    assert family.methods == {"ngram": {"method": "ngram", "num_speculative_tokens": 3}}


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('"eager", ', '"eagre", ', "cells[0]: execution: unknown value 'eagre'; allowed: eager, "),
        ('platform = "cpu"', 'platform = "tpu"', "cells[0]: platform: unknown value 'tpu'"),
        ('"image", "video"', '"smell"', "cells[0]: modality: unknown value 'smell'; allowed: te"),
        ('"off"', '"of"', "prefix_cache: unknown value 'of'; allowed: off, on; did you mean"),
        ('"off"', "false", "cells[0]: prefix_cache = False must be a list"),
        ('tiers = "smoke"', "tiers = []", "cells[0]: tiers = [] must list at least one value"),
        ('"raw_logits"', '"raw"', "cells[1]: logprobs_mode: unknown value 'raw'"),
        ('family = "batch_inv', 'family = "batch_env', "cells[0]: family: unknown value 'batch_en"),
        ('modality = ["image", "video"]', "", "cells[0]: the key 'modality' is missing"),
        ('method = "ngram"\nl', 'method = "ngram"\nmodality = "text"\nl', "unknown key 'modality'"),
        ("model = ", "mode = ", "cells[0]: the key 'model' is missing"),
        ("timeout_s = 60", "timeout = 60", "cells[0]: unknown key 'timeout'"),
        ("timeout_s = 60", "timeout_s = 0", "cells[0]: timeout_s = 0.0 must be more than 0"),
        ("timeout_s = 60", "timeout_s = nan", "cells[0]: timeout_s = nan must be more than 0"),
        ("timeout_s = 60", "timeout_s = inf", "cells[0]: timeout_s = inf must be more than 0"),
        ("timeout_s = 60", 'contrast = "stream"', "contrast: unknown value 'stream'; allowed: bat"),
        (
            '"bfloat16"',
            '"bfloat61"',
            "cells[1]: dtype: unknown value 'bfloat61'; allowed: float32",
        ),
        ("minutes = 8", "minutes = 8.5", "tiers.smoke: minutes = 8.5 must be a whole number"),
        ("[tiers.smoke]", "[tiers.smoky]", "tiers: unknown tier 'smoky'; allowed: smoke; did you"),
        ("families.spec_decode]", "families.spec]", "families: unknown family 'spec'; allowed: "),
        ("methods.ngram", "methods.eagel", "methods: unknown method 'eagel'; allowed: ngram, "),
        ("engine = { seed = 42 }", "", "families.spec_decode: the key 'engine' is missing"),
        ("{ max_tokens = 32 }", "{ n = 1 }", "sampling.plain: the key 'max_tokens' is missing"),
        ("{ max_tokens = 32 }", "{ max_tokens = '8' }", "max_tokens = '8' must be a whole number"),
        ("[[cells]]", "[[cell]]", "matrix.toml: the key 'cells' is missing"),
        ("[tiers.smoke]", "seed = 1\n[tiers.smoke]", "matrix.toml: unknown key 'seed'; allowed: "),
        (
            'modality = ["image", "video"]\nexecution = ["eager", "compiled"]',
            'modality = "image"\nexecution = ["eager", "eager"]',
            "cells[0]: execution = ['eager', 'eager'] must list at least one value, each once",
        ),
    ],
)
def test_mistake_is_named(tmp_path: Path, old: str, new: str, words: str) -> None:
    assert old in SMALL
    path = write(tmp_path, SMALL.replace(old, new))
    with pytest.raises(ConfigError) as caught:
        load_matrix(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_cell_that_is_there_already(tmp_path: Path) -> None:
    head, first, second = SMALL.split("[[cells]]")
    path = write(tmp_path, "[[cells]]".join((head, first, second, second)))
    with pytest.raises(ConfigError, match=r"cells\[2\]: the cell cuda-spec_decode-\S+ is there al"):
        load_matrix(path)


@pytest.mark.parametrize(
    ("old", "new", "table"),
    [
        ("methods.ngram = ", "methods.draft_model = ", "families.spec_decode.methods.ngram"),
        ('[tiers.smoke]\npurpose = "all"\nminutes = 8', "[tiers]", "tiers.smoke"),
        (
            SMALL[SMALL.index("[families.spec_decode]") : SMALL.index("[[cells]]")],
            "",
            "families.spec_decode",
        ),
    ],
)
def test_table_that_a_cell_needs(tmp_path: Path, old: str, new: str, table: str) -> None:
    path = write(tmp_path, SMALL.replace(old, new))
    with pytest.raises(ConfigError, match=rf"the cell \S+ needs a table \[{table}\]"):
        load_matrix(path)


def test_each_family_has_axes_and_contrasts_of_its_own() -> None:
    assert set(FAMILY_AXES) == set(FAMILY_CONTRASTS) == set(Family)
    axes = Counter(axis for own in FAMILY_AXES.values() for axis in own)
    contrasts = Counter(one for own in FAMILY_CONTRASTS.values() for one in own)
    assert set(axes.values()) == {1}
    assert contrasts == Counter(Contrast)


# The project's own matrix


def test_smoke_has_all_families_and_enough_cells() -> None:
    smoke = [cell for cell in load_matrix().cells if Tier.SMOKE in cell.tiers]
    assert len(smoke) >= 18
    assert {cell.family for cell in smoke} == set(Family)
    assert {cell.platform for cell in smoke} == {Platform.CPU}


@pytest.mark.parametrize("family", Family)
def test_each_family_has_a_negative_control(family: Family) -> None:
    cells = [cell for cell in load_matrix().cells if cell.family is family]
    assert sum(cell.negative_control for cell in cells) >= 1
    assert sum(not cell.negative_control for cell in cells) >= 5
