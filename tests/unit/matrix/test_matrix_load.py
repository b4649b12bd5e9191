"""matrix.toml: lists become cells, and every mistake is named with its place."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

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
    Variable,
    load_matrix,
)
from vllm_parity.matrix.axes import Dtype
from vllm_parity.matrix.expand import FAMILY_AXES, FAMILY_CONTRASTS
from vllm_parity.matrix.match import AXES, matches

SMALL = """
[tiers.smoke]
purpose = "all"
minutes = { cpu = 8 }

[[tiers.smoke.cells]]
platform = "cpu"
execution = "eager"

[tiers.pr]
purpose = "more"
minutes = { cpu = 9, cuda = 10 }

[[tiers.pr.cells]]
modality = ["image", "video"]

[families.batch_invariance]
summary = "alone, against together"
brief = "together"
engine = { seed = 1234 }
sampling.greedy = { temperature = 0.0, max_tokens = 8 }

[families.spec_decode]
summary = "plain, against drafted"
brief = "drafted"
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

[[cells]]
family = "spec_decode"
platform = ["cuda", "rocm"]
model = "llama-3.2-1b-instruct"
method = "ngram"
logprobs_mode = ["raw_logits", "raw_logprobs"]
execution = "graph"
prefix_cache = "off"
negative_control = true
dtype = "float16"
exclude = [{ platform = "rocm", logprobs_mode = "raw_logprobs", why = "it is slow there" }]

[[settings]]
when = { platform = "rocm" }
engine = { max_num_seqs = 1 }
variables = { SKINNY = "0" }
why = "rows decide"

[[witnesses]]
when = { execution = "graph" }
require = ["graph_replays>=3", "reference.steps", "control.kind==x"]
why = "it is what they are for"

[[requirements]]
when = { execution = "graph", model = "llama-3.2-1b-instruct" }
architecture = "sm_80"
vllm = "0.26"
engine_arguments = ["logprobs_mode"]
why = "graphs"
"""


MATRIX = load_matrix()
LLAMA = "llama-3.2-1b-instruct"


def write(folder: Path, text: str) -> Path:
    path = folder / "matrix.toml"
    path.write_text(text, encoding="utf-8")
    return path


CELLS_8B = """
[[cells]]
family = "spec_decode"
platform = ["cuda", "rocm"]
model = "llama-3.1-8b-instruct"
method = "ngram"
logprobs_mode = "raw_logits"
execution = "graph"
prefix_cache = "off"
negative_control = true
dtype = "float16"

"""


def test_lists_become_one_cell_per_combination_the_shared_axes_slowest(tmp_path: Path) -> None:
    assert [cell.id for cell in load_matrix(write(tmp_path, SMALL)).cells] == [
        "cpu-batch_invariance-image-eager-apc_off",
        "cpu-batch_invariance-video-eager-apc_off",
        "cpu-batch_invariance-image-compiled-apc_off",
        "cpu-batch_invariance-video-compiled-apc_off",
        f"cuda-spec_decode-ngram-raw_logits-{LLAMA}-graph-apc_off-float16-nudged",
        f"cuda-spec_decode-ngram-raw_logprobs-{LLAMA}-graph-apc_off-float16-nudged",
        f"rocm-spec_decode-ngram-raw_logits-{LLAMA}-graph-apc_off-float16-nudged",
    ]


def test_all_that_a_cell_says_is_kept(tmp_path: Path) -> None:
    image, *_, drafted = load_matrix(write(tmp_path, SMALL)).cells
    assert (image.family, image.platform) == (Family.BATCH_INVARIANCE, Platform.CPU)
    assert (image.model, image.modality) == ("tiny-qwen3-vl", Modality.IMAGE)
    assert (image.execution, image.prefix_cache) == (Execution.EAGER, Switch.OFF)
    assert (image.engine, image.timeout_s) == ({"mm_processor_cache_gb": 0}, 60.0)
    assert (image.dtype, image.negative_control) == ("float32", False)
    assert (drafted.dtype, drafted.negative_control) == ("float16", True)
    assert (drafted.engine, drafted.timeout_s, drafted.tier) == ({}, 300.0, Tier.FULL)


def test_cell_belongs_to_the_smallest_tier_that_names_it(tmp_path: Path) -> None:
    tiers = [cell.tier for cell in load_matrix(write(tmp_path, SMALL)).cells]
    assert tiers == [Tier.SMOKE] * 2 + [Tier.PR] * 2 + [Tier.FULL] * 3


def test_what_is_excluded_is_counted_with_its_reason(tmp_path: Path) -> None:
    (excluded,) = load_matrix(write(tmp_path, SMALL)).exclusions
    assert (excluded.count, excluded.why) == (1, "it is slow there")
    assert excluded.when == "spec_decode: platform rocm, logprobs_mode raw_logprobs"


def test_rules_are_kept(tmp_path: Path) -> None:
    matrix = load_matrix(write(tmp_path, SMALL))
    (settings,), (requirement,) = matrix.settings, matrix.requirements
    *_, rocm = matrix.cells
    assert matches(rocm, settings.when)
    assert matches(rocm, requirement.when)
    assert not matches(matrix.cells[0], settings.when)
    assert settings.engine == {"max_num_seqs": 1}
    assert settings.variables == {"SKINNY": Variable(value="0", why="rows decide")}
    assert (requirement.architecture, requirement.vllm) == ("sm_80", "0.26")
    assert (requirement.engine_arguments, requirement.devices) == (("logprobs_mode",), None)


def test_witnesses_are_kept(tmp_path: Path) -> None:
    matrix = load_matrix(write(tmp_path, SMALL))
    (rule,) = matrix.witnesses
    assert [matches(cell, rule.when) for cell in matrix.cells] == [False] * 4 + [True] * 3
    assert rule.require == ("graph_replays>=3", "reference.steps", "control.kind==x")


def test_built_in_models_make_one_cell_of_those_that_are_then_the_same(tmp_path: Path) -> None:
    text = SMALL.replace("[[settings]]", CELLS_8B + "[[settings]]")
    ids = [cell.id for cell in load_matrix(write(tmp_path, text)).built_in().cells]
    assert ids[4:] == [
        "cuda-spec_decode-ngram-raw_logits-graph-apc_off-float16-nudged",
        "cuda-spec_decode-ngram-raw_logprobs-graph-apc_off-float16-nudged",
        "rocm-spec_decode-ngram-raw_logits-graph-apc_off-float16-nudged",
    ]


def test_usual_contrast_of_a_family_need_not_be_said(tmp_path: Path) -> None:
    contrasts = {cell.contrast for cell in load_matrix(write(tmp_path, SMALL)).cells}
    assert contrasts == {Contrast.BATCH_SIZE, Contrast.SPECULATIVE_CONFIG}


def test_families_and_tiers(tmp_path: Path) -> None:
    matrix = load_matrix(write(tmp_path, SMALL))
    assert matrix.tiers[Tier.PR].minutes == {Platform.CPU: 9, Platform.CUDA: 10}
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
        ('execution = "eager"', "execution = []", "tiers.smoke.cells[0]: execution = [] must lis"),
        (
            'execution = "eager"',
            'exec = "eager"',
            "tiers.smoke.cells[0]: unknown key 'exec'; allow",
        ),
        ('execution = "eager"', 'execution = "graph"', "tiers.smoke.cells[0]: no cell is named"),
        ('["image", "video"]\n\n[fa', '"text"\n\n[fa', "tiers.pr.cells[0]: no cell is named by th"),
        (', why = "it is slow there"', "", "cells[1].exclude[0]: the key 'why' is missing"),
        ('{ platform = "rocm", logprobs_mode = "raw_logprobs", why', "{ why", "must name at least"),
        ('exclude = [{ platform = "rocm"', 'exclude = [{ platform = "cpu"', "is excluded by this"),
        ('"rows decide"', "1", "settings[0]: why = 1 must be a string"),
        (
            '{ SKINNY = "0" }',
            "{ SKINNY = 0 }",
            "settings[0].variables: SKINNY = 0 must be a string",
        ),
        ('"graph_replays>=3"', '"graph_replays>3"', "witnesses[0]: require: 'graph_replays>3' is"),
        ('"it is what they are for"', "1", "witnesses[0]: why = 1 must be a string"),
        (
            '["graph_replays>=3", "reference.steps", "control.kind==x"]',
            "[]",
            "witnesses[0]: require: it is empty",
        ),
        ('when = { execution = "graph" }', 'when = { method = "eagle" }', "witnesses[0]: when: no"),
        ('when = { platform = "rocm" }', 'when = { method = "eagle" }', "settings[0]: when: no c"),
        (
            'when = { execution = "graph", model = "llama-3.2-1b-instruct" }',
            'when = { method = "eagle" }',
            "requirements[0]: when: no cell is named by this; correct it, or delete the entry",
        ),
        ("timeout_s = 60", 'workload = "n8_small"', "off has no batch of texts to size"),
        ("timeout_s = 60", 'cache_start = "cold"', "has the contrast prefix_cache_state for that"),
        (
            "negative_control = true",
            'cache_start = "cold"',
            "cache_start: the cell cuda-spec_decode-ngram-raw_logits-llama-3.2-1b-instruct-gr",
        ),
        ('vllm = "0.26"', 'vllm = "new"', "vllm = 'new' must be a version such as '0.26.0'"),
        (
            'model = "llama-3.2-1b-instruct"',
            'model = "llama"',
            "model: unknown model 'llama'; allo",
        ),
        ('model = "tiny-qwen3-vl"', 'model = "tiny-qwen3"', "tiny-qwen3 takes text, not image"),
        ('"raw_logits"', '"raw"', "cells[1]: logprobs_mode: unknown value 'raw'"),
        ('family = "batch_inv', 'family = "batch_env', "cells[0]: family: unknown value 'batch_en"),
        ('modality = ["image", "video"]\nex', "ex", "cells[0]: the key 'modality' is missing"),
        ('method = "ngram"\nl', 'method = "ngram"\nmodality = "text"\nl', "unknown key 'modality'"),
        ("model = ", "mode = ", "cells[0]: the key 'model' is missing"),
        ("timeout_s = 60", "timeout = 60", "cells[0]: unknown key 'timeout'"),
        ("timeout_s = 60", "timeout_s = 0", "cells[0]: timeout_s = 0.0 must be more than 0"),
        ("timeout_s = 60", "timeout_s = nan", "cells[0]: timeout_s = nan must be more than 0"),
        ("timeout_s = 60", "timeout_s = inf", "cells[0]: timeout_s = inf must be more than 0"),
        ("timeout_s = 60", 'contrast = "stream"', "contrast: unknown value 'stream'; allowed: bat"),
        (
            '"float16"',
            '"float61"',
            "cells[1]: dtype: unknown value 'float61'; allowed: float32",
        ),
        ("cpu = 8", "cpu = 8.5", "tiers.smoke.minutes: cpu = 8.5 must be a whole number"),
        ("[tiers.smoke]", "[tiers.smoky]", "tiers: unknown tier 'smoky'; allowed: smoke, pr, n"),
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
    second, rest = second.split("[[settings]]")
    cells = "[[cells]]".join((head, first, second, second))
    path = write(tmp_path, f"{cells}[[settings]]{rest}")
    with pytest.raises(ConfigError, match=r"cells\[2\]: the cell cuda-spec_decode-\S+ is there al"):
        load_matrix(path)


@pytest.mark.parametrize(
    ("old", "new", "table"),
    [
        ("methods.ngram = ", "methods.draft_model = ", "families.spec_decode.methods.ngram"),
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
    smoke = [cell for cell in MATRIX.cells if cell.is_in(Tier.SMOKE)]
    assert len(smoke) >= 18
    assert {cell.family for cell in smoke} == set(Family)
    assert {cell.platform for cell in smoke} == {Platform.CPU}


def test_tiers_hold_every_family_on_every_platform_and_grow() -> None:
    for tier in (Tier.PR, Tier.NIGHTLY, Tier.FULL):
        found = {(cell.family, cell.platform) for cell in MATRIX.cells if cell.is_in(tier)}
        assert found == {(family, platform) for family in Family for platform in Platform}
    assert {cell.tier for cell in MATRIX.cells} == set(Tier)


@pytest.mark.parametrize("platform", Platform)
@pytest.mark.parametrize("family", Family)
def test_each_family_has_a_negative_control_on_each_platform(
    family: Family, platform: Platform
) -> None:
    cells = [c for c in MATRIX.cells if (c.family, c.platform) == (family, platform)]
    assert sum(cell.negative_control for cell in cells) >= 1
    assert sum(not cell.negative_control for cell in cells) >= 5


def test_every_value_of_every_axis_has_a_cell() -> None:
    for name, kind in AXES.items():
        found = {getattr(cell, name) for cell in MATRIX.cells} - {None}
        missing = set(kind) - found - ({Dtype.FLOAT16} if name == "dtype" else set())
        assert not missing, f"{name}: no cell has {missing}"


def test_ids_are_the_recorded_ones() -> None:
    """Records are named by ids for years: whoever changes one changes this list as well."""
    path = Path(__file__).parents[2] / "data" / "cells.txt"
    listed = path.read_text(encoding="utf-8").split()
    ids = {cell.id for one in (MATRIX, MATRIX.built_in()) for cell in one.cells}
    assert sorted(ids) == listed, "were they meant? then run tests/data/make_cells.py"
