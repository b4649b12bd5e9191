"""The plan of every cell: one contrast, the witnesses that prove it, and nothing else moved."""

from __future__ import annotations

import functools
import json
import pkgutil
from dataclasses import replace
from typing import Any

import pytest
from each import each

from vllm_parity.engine.extension import ParityExtension
from vllm_parity.engine.stats import counted, traced
from vllm_parity.errors import ConfigError
from vllm_parity.families import Plan, load_config, make_plan
from vllm_parity.judge.witness import parse_requirement
from vllm_parity.matrix import (
    CacheStart,
    Cell,
    Contrast,
    DraftModel,
    Execution,
    Family,
    Method,
    Models,
    Platform,
    SeedModel,
    Switch,
    Transport,
    load_platforms,
)
from vllm_parity.matrix.axes import Dtype
from vllm_parity.matrix.match import matches

CONFIG = load_config()
CELLS = CONFIG.matrix.cells
COUNTED = {
    *counted([]),
    *traced([]),
    "graph_replays_full",
    "compiled_graphs",
    "chunks",
    "tool_calls",
}
"""All that is ever witnessed."""

LIMITS = ("max_tokens", "max_completion_tokens")

every_cell = each(CELLS)


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
        assert planned.nudge == CONFIG.matrix.models[cell.model].nudge
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
        expected = CONFIG.platforms[cell.platform].engine | family
        if cell.attention:
            expected["attention_backend"] = cell.attention
        for rule in CONFIG.matrix.settings:
            if matches(cell, rule.when):
                expected |= rule.engine
        assert (expected | cell.engine).items() <= arm.engine.items()


@every_cell
def test_every_requirement_can_be_read_and_is_counted_somewhere(cell: Cell) -> None:
    requirements = [parse_requirement(text) for text in plan(cell).require]
    assert {one.name for one in requirements} <= COUNTED
    assert {"reference", "candidate"} <= {one.arm for one in requirements}


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
    used = {"prefix_cache_hits", "reference.prefix_cache_hits"}
    required = set(plan(cell).require)
    if cell.prefix_cache is Switch.OFF:
        assert unused <= required
    elif cell.contrast is Contrast.PREFIX_CACHE_STATE:
        assert {"prefix_cache_hits", "reference.prefix_cache_hits<=0"} <= required
    elif cell.cache_start is CacheStart.COLD:
        assert "reference.prefix_cache_hits<=0" in required
    else:
        assert used <= required
    images = {"mm_cache_hits", "reference.mm_cache_hits"}
    assert (images <= required) is (cell.mm_cache is Switch.ON)


@every_cell
def test_as_many_requests_for_each_sampling_setting_all_distinct(cell: Cell) -> None:
    planned = plan(cell)
    family = CONFIG.matrix.families[cell.family]
    sampling = family.sampling
    count = family.workloads[cell.workload].requests if cell.workload else 4
    assert [one.id for one in planned.requests] == [
        f"{name}-{number}" for name in sampling for number in range(count)
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
def test_variables_are_those_of_platform_axes_and_of_host_or_server(cell: Cell) -> None:
    platform = load_platforms()[cell.platform]
    server = cell.family is Family.STREAMING
    own = platform.server_variables if server else platform.host_variables
    expected = platform.variables | own
    for rule in CONFIG.matrix.settings:
        if matches(cell, rule.when):
            expected |= rule.variables
    assert plan(cell).variables == {name: one.value for name, one in expected.items()}
    assert plan(cell).reasons == {name: one.why for name, one in expected.items()}


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


@each(cell for cell in CELLS if cell.contrast is Contrast.BATCH_SIZE)
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
    draft = CONFIG.matrix.models[speculative["model"]]
    assert isinstance(draft, DraftModel)
    assert draft.target == DRAFT.model
    assert "model" not in CONFIG.matrix.families[Family.SPEC_DECODE].methods[Method.DRAFT_MODEL]


@each(cell for cell in CELLS if cell.logprobs_mode)
def test_logprobs_mode_holds_on_both_arms(cell: Cell) -> None:
    arms = (plan(cell).reference, plan(cell).candidate)
    assert {arm.engine["logprobs_mode"] for arm in arms} == {str(cell.logprobs_mode)}


# Streaming


def test_stream_must_have_come_in_pieces() -> None:
    planned = plan(CHAT)
    assert (planned.reference.run, planned.candidate.run) == ({"stream": False}, {"stream": True})
    assert planned.reference.engine == planned.candidate.engine
    assert "chunks>=2" in planned.require


@each(cell for cell in CELLS if cell.family is Family.STREAMING)
def test_warm_cache_is_proven_on_both_arms_where_it_is_on(cell: Cell) -> None:
    hits = {"prefix_cache_hits", "reference.prefix_cache_hits"} & set(plan(cell).require)
    cold = cell.cache_start is CacheStart.COLD
    assert len(hits) == (0 if cell.prefix_cache is Switch.OFF else 1 if cold else 2)
    assert ("control.prefix_cache_hits" in plan(cell).require) is cold


# Workloads, caches and graphs of GPUs

GPU = [cell for cell in load_config(models=Models.BUILT_IN).matrix.cells if cell.workload]


def built_in(cell_id: str, **forced: Any) -> Plan:
    config = load_config(models=Models.BUILT_IN, forced=forced)
    return make_plan(next(cell for cell in config.matrix.cells if cell.id == cell_id), config)


@each(GPU)
def test_workload_is_of_token_ids_that_cross_256_together_or_not(cell: Cell) -> None:
    assert cell.workload is not None
    planned = built_in(cell.id)
    lengths = [len(one.prompt) for one in planned.requests]
    assert all(isinstance(one.prompt, tuple) for one in planned.requests)
    large = cell.workload.endswith("large")
    assert max(lengths) < 256
    assert (sum(lengths) >= 256) is large
    assert sum(lengths) <= planned.candidate.engine["max_num_batched_tokens"]
    assert ("max_step_tokens>=256" in planned.require) is large


def test_decode_steps_of_graph_cells_are_full_graphs_of_a_batch() -> None:
    planned = built_in("cuda-batch_invariance-image-graph-apc_off-flash_attn-enc_flash_attn-bi")
    assert {
        "graph_replays_full",
        "decode_steps_outside_full_graphs<=0",
        "min_full_graph_requests>=3",
        "reference.graph_replays_full",
    } <= set(planned.require)


def test_drafting_pins_runner_scheduling_and_graphs_on_both_arms() -> None:
    planned = built_in("cuda-spec_decode-ngram-raw_logprobs-graph-apc_on-cold")
    assert planned.variables["VLLM_USE_V2_MODEL_RUNNER"] == "0"
    for arm in (planned.reference, planned.candidate):
        assert arm.engine["async_scheduling"] is False
        assert arm.engine["compilation_config"] == {"cudagraph_capture_sizes": [4, 8, 16, 32]}
    assert {"prefix_cache_hits<=0", "reference.prefix_cache_hits<=0"} <= set(planned.require)


def test_stream_that_starts_cold_has_a_control_that_is_warm() -> None:
    required = built_in("cuda-streaming-text-graph-apc_on-cold").require
    assert "reference.prefix_cache_hits<=0" in required
    assert {"prefix_cache_hits", "control.prefix_cache_hits"} <= set(required)


def test_forced_argument_holds_on_both_arms_and_what_must_be_witnessed_stays() -> None:
    name = "cuda-batch_invariance-image-graph-apc_off-flash_attn-enc_flash_attn-bi"
    forced, usual = built_in(name, enforce_eager=True), built_in(name)
    for arm in (forced.reference, forced.candidate):
        assert arm.engine["enforce_eager"] is True
    assert forced.require == usual.require
    assert differing(forced) == differing(usual)


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
    models = {name: replace(model, nudge=None) for name, model in CONFIG.matrix.models.items()}
    cell = named("cpu-batch_invariance-text-eager-apc_off-nudged")
    with pytest.raises(ConfigError, match=r"^models\.toml: tiny-qwen3 has no nudge, which the cel"):
        make_plan(cell, replace(CONFIG, matrix=replace(CONFIG.matrix, models=models)))


def test_draft_model_needs_a_draft() -> None:
    target = CONFIG.matrix.models[DRAFT.model]
    assert isinstance(target, SeedModel)
    models = {**CONFIG.matrix.models, DRAFT.model: replace(target, drafts={})}
    with pytest.raises(ConfigError, match=r"^models\.toml: tiny-qwen3 has no drafts\.draft_model,"):
        make_plan(DRAFT, replace(CONFIG, matrix=replace(CONFIG.matrix, models=models)))


def test_contract_follows_the_platform() -> None:
    rocm = replace(NGRAM, platform=Platform.ROCM, dtype=Dtype.BFLOAT16)
    assert plan(rocm).contract.atol == 0.25


def test_rocm_drafts_for_one_sequence_at_a_time_without_skinny_gemm() -> None:
    planned = plan(next(c for c in CELLS if c.platform is Platform.ROCM and c.method))
    for arm in (planned.reference, planned.candidate):
        assert arm.engine["max_num_seqs"] == 1
        assert arm.engine["attention_backend"] == "TRITON_ATTN"
    assert planned.variables["VLLM_ROCM_USE_SKINNY_GEMM"] == "0"
    assert "atomics" in planned.reasons["VLLM_ROCM_USE_SKINNY_GEMM"]


def test_gpus_leave_the_flashinfer_sampler_out() -> None:
    for platform in (Platform.CUDA, Platform.ROCM):
        chosen = next(cell for cell in CELLS if cell.platform is platform)
        assert plan(chosen).variables["VLLM_USE_FLASHINFER_SAMPLER"] == "0"


def test_batch_invariant_mode_is_a_variable_of_the_cells_that_have_the_axis() -> None:
    name = "VLLM_BATCH_INVARIANT"
    found = {(cell.batch_invariant, plan(cell).variables.get(name)) for cell in CELLS}
    assert found == {(Switch.ON, "1"), (Switch.OFF, "0"), (None, None)}


def test_built_in_models_stay_off_the_hub() -> None:
    built_in = load_config(models=Models.BUILT_IN)
    for cell in built_in.matrix.cells:
        planned = make_plan(cell, built_in)
        assert planned.variables["HF_HUB_OFFLINE"] == "1"
        assert planned.reference.engine["model"].startswith(("tiny-", "small-"))
    real = next(cell for cell in CELLS if cell.models is Models.HUB)
    assert "HF_HUB_OFFLINE" not in plan(real).variables
