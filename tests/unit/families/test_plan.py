"""The plan of every cell: one contrast, the witnesses that prove it, and nothing else moved."""

from __future__ import annotations

import functools
import json
import pkgutil
from dataclasses import replace
from typing import Any

import pytest

from vllm_parity.engine.extension import ParityExtension
from vllm_parity.engine.stats import witness
from vllm_parity.errors import ConfigError
from vllm_parity.families import Plan, load_config, make_plan
from vllm_parity.judge.witness import parse_requirement
from vllm_parity.matrix import (
    Cell,
    Contrast,
    Execution,
    Family,
    Method,
    Platform,
    Switch,
    Transport,
    load_platforms,
)
from vllm_parity.matrix.axes import Dtype
from vllm_parity.models import DraftModel, SeedModel

CONFIG = load_config()
CELLS = CONFIG.matrix.cells
COUNTED = {*witness([]), "compiled_graphs", "chunks", "tool_calls"}
"""All that is ever witnessed."""

LIMITS = ("max_tokens", "max_completion_tokens")

every_cell = pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell.id)


def named(cell_id: str) -> Cell:
    return next(cell for cell in CELLS if cell.id == cell_id)


TEXT = named("cpu-batch_invariance-text-eager-apc_off")
WARM = named("cpu-batch_invariance-text-eager-apc_on-warm")
NGRAM = named("cpu-spec_decode-ngram-raw_logprobs-eager-apc_off")
DRAFT = named("cpu-spec_decode-draft_model-raw_logprobs-eager-apc_off")
CHAT = named("cpu-streaming-text-eager-apc_off")


@functools.cache
def plan(cell: Cell) -> Plan:
    return make_plan(cell, CONFIG)


def differing(one: Plan) -> set[str]:
    """Return the knobs in which the arms of a plan differ."""
    reference = one.reference.engine | one.reference.run
    candidate = one.candidate.engine | one.candidate.run
    missing = object()
    return {
        knob
        for knob in reference | candidate
        if reference.get(knob, missing) != candidate.get(knob, missing)
    }


# What holds for every cell of the matrix


@every_cell
def test_arms_differ_in_the_contrast_alone(cell: Cell) -> None:
    planned = plan(cell)
    expected = {cell.contrast.value} | ({"nudged_weight"} if cell.negative_control else set())
    assert differing(planned) == expected == set(planned.contrast)
    assert planned.follows == ()


@every_cell
def test_only_a_negative_control_nudges_a_weight_and_only_in_its_candidate(cell: Cell) -> None:
    planned = plan(cell)
    assert (planned.nudge is not None) is cell.negative_control
    assert "nudged_weight" not in planned.reference.engine | planned.reference.run
    if planned.nudge is not None:
        assert planned.nudge == CONFIG.models[cell.model].nudge
        assert planned.nudge.delta != 0
        weight = planned.candidate.run["nudged_weight"]
        assert weight.startswith(f"{planned.nudge.parameter}[{planned.nudge.index}] by ")


@every_cell
def test_settings_are_those_of_cell_family_and_platform(cell: Cell) -> None:
    for arm in (plan(cell).reference, plan(cell).candidate):
        assert arm.engine["model"] == cell.model
        assert arm.engine["dtype"] == cell.dtype
        assert pkgutil.resolve_name(arm.engine["worker_extension_cls"]) is ParityExtension
        assert arm.engine["enable_prefix_caching"] is (cell.prefix_cache is Switch.ON)
        assert arm.engine["enforce_eager"] is (cell.execution is Execution.EAGER)
        family = CONFIG.matrix.families[cell.family].engine
        for settings in (cell.engine, family, CONFIG.platforms[cell.platform].engine):
            assert settings.items() <= arm.engine.items()


@every_cell
def test_every_requirement_can_be_read_and_is_counted_somewhere(cell: Cell) -> None:
    requirements = [parse_requirement(text) for text in plan(cell).require]
    assert {one.name for one in requirements} <= COUNTED
    assert {one.arm for one in requirements} == {"reference", "candidate"}


@every_cell
def test_execution_is_witnessed_on_both_arms(cell: Cell) -> None:
    shown = {
        Execution.EAGER: "compiled_graphs<=0",
        Execution.COMPILED: "compiled_graphs",
        Execution.GRAPH: "graph_replays",
    }[cell.execution]
    assert {shown, f"reference.{shown}"} <= set(plan(cell).require)


@every_cell
def test_cache_is_witnessed_as_it_is_set(cell: Cell) -> None:
    unused = {"prefix_cache_hits<=0", "reference.prefix_cache_hits<=0"}
    required = set(plan(cell).require)
    if cell.prefix_cache is Switch.OFF:
        assert unused <= required
    else:
        assert "prefix_cache_hits" in required


@every_cell
def test_four_requests_for_each_sampling_setting_all_distinct(cell: Cell) -> None:
    planned = plan(cell)
    sampling = CONFIG.matrix.families[cell.family].sampling
    assert [one.id for one in planned.requests] == [
        f"{name}-{number}" for name in sampling for number in range(4)
    ]
    if cell.transport is Transport.TOOLS:
        return  # a call has a limit of its own, and ends by itself: see test_workload.py
    for one in planned.requests:
        assert one.sampling == sampling[one.id.rpartition("-")[0]]
        assert one.expect_tokens in {sampling[one.id.rpartition("-")[0]].get(key) for key in LIMITS}


@every_cell
def test_settings_travel_as_json(cell: Cell) -> None:
    for arm in (plan(cell).reference, plan(cell).candidate):
        assert json.loads(json.dumps(arm.engine)) == arm.engine


@every_cell
def test_plan_is_the_same_each_time(cell: Cell) -> None:
    one, two = make_plan(cell, CONFIG), make_plan(cell, CONFIG)
    assert (one.reference, one.candidate, one.variables, one.require) == (
        two.reference,
        two.candidate,
        two.variables,
        two.require,
    )


@every_cell
def test_variables_are_those_of_the_platform_and_of_host_or_server(cell: Cell) -> None:
    platform = load_platforms()[cell.platform]
    server = cell.family is Family.STREAMING
    own = platform.server_variables if server else platform.host_variables
    expected = platform.variables | own
    assert plan(cell).variables == {name: one.value for name, one in expected.items()}


@pytest.mark.parametrize(
    ("cell", "name"),
    [(TEXT, "cpu-batch-float32"), (NGRAM, "cpu-spec-float32"), (CHAT, "strict")],
    ids=["batch", "drafts", "stream"],
)
def test_contract_on_a_cpu_is_close_and_of_a_stream_bitwise(cell: Cell, name: str) -> None:
    assert plan(cell).contract.name == name


# Batch invariance


def test_each_alone_against_all_in_one_batch() -> None:
    planned = plan(TEXT)
    assert planned.reference.run == {"batch_size": 1}
    assert planned.candidate.run == {"batch_size": 4}
    assert {"max_running_requests>=4", "reference.max_running_requests<=1"} <= set(planned.require)


@pytest.mark.parametrize(
    "cell",
    [cell for cell in CELLS if cell.contrast is Contrast.BATCH_SIZE],
    ids=lambda cell: cell.id,
)
def test_whole_batch_has_room_in_the_engine(cell: Cell) -> None:
    planned = plan(cell)
    assert planned.candidate.engine["max_num_seqs"] >= len(planned.requests)


def test_cold_against_warm_proves_hits_and_their_absence() -> None:
    planned = plan(WARM)
    assert planned.reference.run == {"prefix_cache_state": "cold"}
    assert planned.candidate.run == {"prefix_cache_state": "warm"}
    assert {"prefix_cache_hits", "reference.prefix_cache_hits<=0"} <= set(planned.require)
    assert planned.reference.engine["enable_prefix_caching"] is True


def test_offline_engine_tells_its_steps() -> None:
    engine = plan(TEXT).reference.engine
    assert engine["disable_log_stats"] is False
    assert engine["enable_logging_iteration_details"] is True
    assert engine["distributed_executor_backend"] == "uni"


# Speculative decoding


@pytest.mark.parametrize("cell", [NGRAM, DRAFT], ids=lambda cell: cell.id)
def test_drafts_are_accepted_and_rejected_and_only_where_drafted(cell: Cell) -> None:
    assert {
        "spec_draft_tokens",
        "spec_accepted_tokens",
        "spec_rejected_tokens",
        "reference.spec_draft_tokens<=0",
    } <= set(plan(cell).require)


def test_ngram_is_as_the_matrix_says() -> None:
    assert plan(NGRAM).candidate.engine["speculative_config"] == {
        "method": "ngram",
        "num_speculative_tokens": 3,
        "prompt_lookup_min": 1,
        "prompt_lookup_max": 3,
    }
    assert "speculative_config" not in plan(NGRAM).reference.engine


def test_draft_model_is_the_draft_of_the_cells_model() -> None:
    speculative = plan(DRAFT).candidate.engine["speculative_config"]
    draft = CONFIG.models[speculative["model"]]
    assert isinstance(draft, DraftModel)
    assert draft.target == DRAFT.model
    assert "model" not in CONFIG.matrix.families[Family.SPEC_DECODE].methods[Method.DRAFT_MODEL]


@pytest.mark.parametrize(
    "cell", [cell for cell in CELLS if cell.logprobs_mode], ids=lambda cell: cell.id
)
def test_logprobs_mode_holds_on_both_arms(cell: Cell) -> None:
    arms = (plan(cell).reference, plan(cell).candidate)
    assert {arm.engine["logprobs_mode"] for arm in arms} == {str(cell.logprobs_mode)}


# Streaming


def test_stream_must_have_come_in_pieces() -> None:
    planned = plan(CHAT)
    assert (planned.reference.run, planned.candidate.run) == ({"stream": False}, {"stream": True})
    assert planned.reference.engine == planned.candidate.engine
    assert "chunks>=2" in planned.require


@pytest.mark.parametrize(
    "cell",
    [cell for cell in CELLS if cell.family is Family.STREAMING],
    ids=lambda cell: cell.id,
)
def test_warm_cache_is_proven_on_both_arms_where_it_is_on(cell: Cell) -> None:
    hits = {"prefix_cache_hits", "reference.prefix_cache_hits"} & set(plan(cell).require)
    assert len(hits) == (2 if cell.prefix_cache is Switch.ON else 0)
    assert plan(cell).reference.engine["enable_prompt_tokens_details"] is True


# What the matrix does not have


def test_graphs_are_witnessed_by_their_replays() -> None:
    planned = plan(replace(TEXT, execution=Execution.GRAPH))
    assert {"graph_replays", "reference.graph_replays"} <= set(planned.require)
    assert not any("compiled_graphs" in text for text in planned.require)
    assert "compilation_config" not in planned.reference.engine


def test_compiled_means_without_graphs() -> None:
    engine = plan(replace(TEXT, execution=Execution.COMPILED)).reference.engine
    assert engine["compilation_config"] == {"cudagraph_mode": "NONE"}


def test_settings_of_the_cell_win_over_those_of_its_family() -> None:
    settings: dict[str, Any] = {"max_num_seqs": 4}
    for arm in (plan(one).candidate for one in [replace(TEXT, engine=settings)]):
        assert arm.engine["max_num_seqs"] == 4


def test_negative_control_needs_a_nudge() -> None:
    models = {
        name: replace(model, nudge=None) if isinstance(model, SeedModel) else model
        for name, model in CONFIG.models.items()
    }
    cell = named("cpu-batch_invariance-text-eager-apc_off-nudged")
    with pytest.raises(ConfigError, match=r"^models\.toml: tiny-qwen3 has no nudge, which the cel"):
        make_plan(cell, replace(CONFIG, models=models))


def test_draft_model_needs_a_draft() -> None:
    target = CONFIG.models[DRAFT.model]
    assert isinstance(target, SeedModel)
    models = {**CONFIG.models, DRAFT.model: replace(target, drafts={})}
    with pytest.raises(ConfigError, match=r"^models\.toml: tiny-qwen3 has no draft for the"):
        make_plan(DRAFT, replace(CONFIG, models=models))


def test_contract_follows_the_platform() -> None:
    rocm = replace(NGRAM, platform=Platform.ROCM, dtype=Dtype.BFLOAT16)
    config = replace(CONFIG, platforms={Platform.ROCM: CONFIG.platforms[Platform.CPU]})
    assert make_plan(rocm, config).contract.atol == 0.25
