"""A witness is counted from steps: nothing is added that no step showed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from vllm_parity.engine.stats import CountRecorder, counted, traced


def step(
    requests: int, tokens: int, *, prefill: int = 0, hits: int = 0, **replays: int
) -> dict[str, Any]:
    """Return a traced step; `replays` are such as ``FULL_4=1``."""
    return {
        "requests": requests,
        "prefill_requests": prefill,
        "tokens": tokens,
        "prefix_cache_hits": hits,
        "replays": {name.replace("_", ":"): count for name, count in replays.items()},
    }


def stats(drafts: tuple[int, int] | None = None) -> Any:
    """Return vLLM's SchedulerStats as far as it is read: tokens drafted, and accepted."""
    return SimpleNamespace(
        spec_decoding_stats=drafts
        and SimpleNamespace(num_draft_tokens=drafts[0], num_accepted_tokens=drafts[1]),
    )


def test_no_step_witnesses_nothing() -> None:
    assert set(traced([]).values()) == {0}


def test_steps_that_cannot_be_seen_witness_not_even_that() -> None:
    assert traced(None) == {}


def test_batch_of_four() -> None:
    found = traced([step(4, 137, prefill=4), *[step(4, 4)] * 7])
    assert found["steps"] == 8
    assert found["max_running_requests"] == 4
    assert found["max_step_tokens"] == 137
    assert found["prefill_chunks"] == 4
    assert (found["decode_steps"], found["min_decode_requests"]) == (7, 4)


def test_requests_one_after_another_are_no_batch() -> None:
    found = traced([step(1, 30, prefill=1), *[step(1, 1)] * 3] * 4)
    assert (found["steps"], found["max_running_requests"]) == (16, 1)
    assert found["max_step_tokens"] == 30


def test_step_that_prefills_and_decodes_is_a_prefill_step() -> None:
    found = traced([step(5, 33, prefill=2)])
    assert (found["max_running_requests"], found["max_step_tokens"]) == (5, 33)
    assert (found["decode_steps"], found["prefill_steps_outside_graphs"]) == (0, 1)


def test_chunks_of_one_prompt_are_counted_and_hits_add_up() -> None:
    found = traced([step(1, 32, prefill=1, hits=48), *[step(1, 32, prefill=1)] * 2])
    assert (found["prefill_chunks"], found["prefix_cache_hits"]) == (3, 48)


def test_graphs_are_counted_by_mode_and_by_tokens() -> None:
    steps = [
        step(4, 60, prefill=4, PIECEWISE_64=9),
        step(4, 4, FULL_4=1),
        step(3, 3, FULL_4=1),
        step(2, 2, FULL_2=1),
    ]
    found = traced(steps)
    assert {name: count for name, count in found.items() if name.startswith("graph_")} == {
        "graph_replays": 12,
        "graph_replays_full": 3,
        "graph_replays_full_2": 1,
        "graph_replays_full_4": 2,
        "graph_replays_piecewise": 9,
        "graph_replays_piecewise_64": 9,
    }
    assert found["min_full_graph_requests"] == 2
    assert found["decode_steps_outside_full_graphs"] == 0
    assert (found["prefill_steps_piecewise"], found["prefill_steps_outside_graphs"]) == (1, 0)


def test_decode_step_without_a_full_graph_is_told() -> None:
    found = traced([step(4, 4, FULL_4=1), step(4, 4, PIECEWISE_4=9), step(4, 4)])
    assert found["decode_steps_outside_full_graphs"] == 2


def test_prefill_in_a_full_graph_is_in_a_graph() -> None:
    found = traced([step(2, 16, prefill=2, FULL_16=1)])
    assert (found["prefill_steps_piecewise"], found["prefill_steps_outside_graphs"]) == (0, 0)


def test_prefill_longer_than_any_graph_is_told() -> None:
    found = traced([step(8, 900, prefill=8)])
    assert (found["prefill_steps_piecewise"], found["prefill_steps_outside_graphs"]) == (0, 1)


def test_time_of_the_card_adds_up_and_its_memory_is_the_most() -> None:
    cost = [
        {"gpu_seconds": 0.25, "peak_memory_bytes": 9},
        {"gpu_seconds": 0.5, "peak_memory_bytes": 7},
    ]
    found = traced([{**step(1, 1), **one} for one in cost])
    assert (found["gpu_seconds"], found["peak_memory_bytes"]) == (0.75, 9)
    assert "gpu_seconds" not in traced([step(1, 1)])


def test_drafts_add_up() -> None:
    recorder = CountRecorder()
    for drafts in ((3, 2), None, (3, 3)):
        recorder.record(stats(drafts), None)
    assert counted(recorder.drain()) == {
        "mm_cache_hits": 0,
        "spec_draft_tokens": 6,
        "spec_accepted_tokens": 5,
        "spec_rejected_tokens": 1,
    }


def test_images_in_the_cache_are_counted() -> None:
    recorder = CountRecorder()
    recorder.record(stats(), None, mm_cache_stats=SimpleNamespace(hits=4))
    assert counted(recorder.drain())["mm_cache_hits"] == 4


def test_recorder_forgets_what_was_drained() -> None:
    recorder = CountRecorder()
    recorder.record(stats(), None)
    assert len(recorder.drain()) == 1
    assert recorder.drain() == []


def test_call_without_scheduler_stats_counts_nothing() -> None:
    recorder = CountRecorder()
    recorder.record(None, None)
    assert recorder.drain() == []


@pytest.mark.parametrize("calls", [1, 2])
def test_vllm_may_call_the_rest_of_a_stat_logger(calls: int) -> None:
    recorder = CountRecorder()
    recorder.log_engine_initialized()
    for _ in range(calls):
        recorder.record(stats(), None, mm_cache_stats=None, engine_idx=0)
    recorder.log()
    recorder.record_sleep_state(is_awake=1, level=0)
    assert len(recorder.drain()) == calls
