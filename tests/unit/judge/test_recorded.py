"""What real devices did is judged here as it was there; see tests/data/recorded/README.md."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import pytest

from vllm_parity.judge import Judgement, judge
from vllm_parity.judge.explain import explain
from vllm_parity.observation import Observation, load_observation
from vllm_parity.verdict import Verdict

RECORDED = Path(__file__).parents[2] / "data" / "recorded"
FOLDERS = sorted(path for path in RECORDED.iterdir() if path.is_dir())
RECORDS = [path for folder in FOLDERS for path in sorted(folder.glob("*.json"))]
H200 = RECORDED / "h200-0.26.0"
TEXT = "cuda-batch_invariance-text"
IMAGE = "cuda-batch_invariance-image-graph-apc_off-flash_attn-enc_flash_attn-bi"


@functools.cache
def observed(name: str) -> tuple[Observation, Judgement]:
    observation = load_observation(H200 / f"{name}.json")
    return observation, judge(observation)


def told(folder: Path) -> dict[str, Any]:
    """Return the recorded verdicts of a folder, by the names of its files."""
    path = folder.with_name(f"{folder.name}.verdicts.json")
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def verdict(name: str) -> Verdict:
    return observed(name)[1].verdict


def witness(name: str, arm: str = "candidate") -> dict[str, Any]:
    return dict(getattr(observed(name)[0].arms, arm).witness)


def text(observation: Observation) -> dict[str, Any]:
    """Return the environment of an observation."""
    return dict(observation.environment)


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_verdict_is_the_recorded_one(path: Path) -> None:
    expected = told(path.parent)[path.name]
    judgement = judge(load_observation(path))
    assert {
        "verdict": judgement.verdict,
        "codes": sorted({reason.code for reason in judgement.reasons}),
        "worst": judgement.worst and judgement.worst.abs,
        "positions": judgement.compared.positions,
    } == expected


def test_nothing_is_recorded_twice_or_left_over() -> None:
    for folder in FOLDERS:
        assert set(told(folder)) == {path.name for path in folder.iterdir()} != set()
        size = sum(path.stat().st_size for path in folder.iterdir())
        assert size <= 5_000_000
    beside = {path.name for path in RECORDED.iterdir() if path.is_file()}
    assert beside == {"README.md", *(f"{folder.name}.verdicts.json" for folder in FOLDERS)}


def test_they_are_of_that_device_and_vllm() -> None:
    for path in RECORDS:
        environment = text(load_observation(path))
        device, _, version = path.parent.name.rpartition("-")
        assert environment["vllm"] == version
        assert device.lower() in environment["device"].lower()
    assert {text(load_observation(path))["arch"] for path in H200.iterdir()} == {"sm_90"}


# What docs/findings.md says


def test_default_execution_of_images_was_full_graphs_of_the_whole_batch() -> None:
    assert verdict(IMAGE) is Verdict.PASS
    found = witness(IMAGE)
    assert found["graph_replays_full_4"] == found["decode_steps"] == 7
    assert found["min_full_graph_requests"] == found["max_running_requests"] == 4
    assert witness(IMAGE, "reference")["graph_replays_full_1"] == 28


def test_the_same_forced_to_eager_mode_is_unverified_for_its_witness_alone() -> None:
    observation, judgement = observed(f"{IMAGE}.enforce-eager")
    assert json.loads(text(observation)["forced"]) == {"enforce_eager": True}
    assert judgement.verdict is Verdict.UNVERIFIED
    assert {reason.code for reason in judgement.reasons} == {"witness"}
    assert witness(f"{IMAGE}.enforce-eager")["graph_replays"] == 0


@pytest.mark.parametrize("attention", ["flash_attn", "triton_attn", "flex_attention"])
def test_eager_mode_breaks_at_256_tokens_and_graphs_do_not(attention: str) -> None:
    names = {
        (size, execution): f"{TEXT}-n8_{size}-{execution}-apc_off-{attention}-bi"
        for size in ("small", "large")
        for execution in ("eager", "compiled", "graph")
    }
    broken = {place for place, name in names.items() if verdict(name) is not Verdict.PASS}
    assert broken == {("large", "eager")}
    assert verdict(names["large", "eager"]) is Verdict.DIVERGED
    for (size, _), name in names.items():
        assert (witness(name)["max_step_tokens"] >= 256) is (size == "large")
        assert witness(name, "reference")["max_step_tokens"] < 256


def test_prefill_was_in_piecewise_graphs_where_it_fits_and_in_none_where_not() -> None:
    short = witness(f"{TEXT}-n2_small-graph-apc_off-flash_attn-bi")
    assert (short["prefill_steps_piecewise"], short["prefill_steps_outside_graphs"]) == (1, 0)
    long = witness(f"{TEXT}-n8_large-graph-apc_off-flash_attn-bi")
    assert (long["prefill_steps_piecewise"], long["prefill_steps_outside_graphs"]) == (0, 1)


def test_pair_that_is_not_pinned_names_the_runner() -> None:
    observation, judgement = observed("cuda-spec_decode-ngram-raw_logprobs-graph-apc_off.unpinned")
    assert judgement.verdict is Verdict.INVALID_PAIR
    messages = [reason.message for reason in judgement.reasons if reason.code == "extra_knob"]
    assert any("model_runner" in message for message in messages)
    assert any("async_scheduling" in message for message in messages)
    said = explain(observation, judgement)
    assert "'vllm.v1.worker.gpu.model_runner.GPUModelRunner'" in said
    assert "'vllm.v1.worker.gpu_model_runner.GPUModelRunner'" in said


@pytest.mark.parametrize("transport", ["text", "image_url"])
@pytest.mark.parametrize("mode", ["", "-bi"])
def test_stream_is_not_what_a_warm_cache_changes(transport: str, mode: str) -> None:
    base = f"cuda-streaming-{transport}-graph"
    assert verdict(f"{base}-apc_off{mode}") is Verdict.PASS
    assert verdict(f"{base}-apc_on{mode}") is Verdict.PASS
    cold = f"{base}-apc_on-cold{mode}"
    assert verdict(cold) is Verdict.NOISY
    assert witness(cold, "reference")["prefix_cache_hits"] == 0
    assert witness(cold, "control")["prefix_cache_hits"] > 0


def test_another_attention_backend_is_the_same_cold_and_warm_in_batch_invariant_mode() -> None:
    assert verdict(f"{TEXT}-graph-apc_on-flash_attn-bi-warm") is Verdict.DIVERGED
    assert verdict(f"{TEXT}-graph-apc_on-triton_attn-bi-warm") is Verdict.PASS
    assert verdict("cuda-streaming-text-graph-apc_on-cold-bi.triton") is Verdict.PASS


def test_negative_controls_diverged() -> None:
    nudged = [path.stem for path in RECORDS if path.stem.endswith("-nudged")]
    assert len(nudged) == 3
    assert {verdict(name) for name in nudged} == {Verdict.DIVERGED}


def test_each_arm_witnesses_what_it_cost() -> None:
    for path in RECORDS:
        arms = load_observation(path).arms
        for arm in (arms.reference, arms.candidate, arms.control):
            assert arm is not None
            assert arm.witness["gpu_seconds"] > 0
            assert 10**8 < arm.witness["peak_memory_bytes"] < 10**10
