"""A witness is counted from steps: nothing is added that no step showed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from vllm_parity.engine.stats import StepRecorder, witness


def stats(
    *,
    prefill: tuple[int, int] = (0, 0),
    decode: tuple[int, int] = (0, 0),
    cache: tuple[int, int] = (0, 0),
    drafts: tuple[int, int] | None = None,
    details: bool = True,
) -> Any:
    """Return vLLM's SchedulerStats as far as it is read: (requests, tokens), (queries, hits)."""
    return SimpleNamespace(
        iteration_details=SimpleNamespace(
            num_ctx_requests=prefill[0],
            num_ctx_tokens=prefill[1],
            num_generation_requests=decode[0],
            num_generation_tokens=decode[1],
        )
        if details
        else None,
        prefix_cache_stats=SimpleNamespace(queries=cache[0], hits=cache[1]),
        spec_decoding_stats=drafts
        and SimpleNamespace(num_draft_tokens=drafts[0], num_accepted_tokens=drafts[1]),
    )


def witnessed(*steps: Any) -> dict[str, int]:
    recorder = StepRecorder()
    for step in steps:
        recorder.record(step, None)
    return witness(recorder.drain())


def test_nothing_recorded_witnesses_nothing() -> None:
    found = witnessed()
    assert set(found.values()) == {0}


def test_batch_of_four() -> None:
    steps = [stats(prefill=(4, 137))] + [stats(decode=(4, 4))] * 7
    found = witnessed(*steps)
    assert found["steps"] == 8
    assert found["max_running_requests"] == 4
    assert found["max_step_tokens"] == 137
    assert found["prefill_chunks"] == 4
    assert found["spec_draft_tokens"] == found["spec_accepted_tokens"] == 0


def test_requests_one_after_another_are_no_batch() -> None:
    steps = [stats(prefill=(1, 30)), *[stats(decode=(1, 1))] * 3] * 4
    found = witnessed(*steps)
    assert (found["steps"], found["max_running_requests"]) == (16, 1)
    assert found["max_step_tokens"] == 30


def test_prefill_and_decode_of_one_step_run_together() -> None:
    found = witnessed(stats(prefill=(2, 30), decode=(3, 3)))
    assert (found["max_running_requests"], found["max_step_tokens"]) == (5, 33)


def test_chunks_of_one_prompt_are_counted() -> None:
    assert witnessed(*[stats(prefill=(1, 32))] * 3)["prefill_chunks"] == 3


def test_cache_and_drafts_add_up() -> None:
    found = witnessed(stats(cache=(300, 256), drafts=(3, 2)), stats(cache=(20, 0), drafts=(3, 3)))
    assert found["prefix_cache_queries"] == 320
    assert found["prefix_cache_hits"] == 256
    assert found["spec_draft_tokens"] == 6
    assert found["spec_accepted_tokens"] == 5
    assert found["spec_rejected_tokens"] == 1


def test_step_without_details_shows_no_requests() -> None:
    found = witnessed(stats(prefill=(4, 99), details=False, cache=(9, 8)))
    assert (found["steps"], found["max_running_requests"], found["prefill_chunks"]) == (1, 0, 0)
    assert found["prefix_cache_hits"] == 8


def test_recorder_forgets_what_was_drained() -> None:
    recorder = StepRecorder()
    recorder.record(stats(), None)
    assert len(recorder.drain()) == 1
    assert recorder.drain() == []


def test_call_without_scheduler_stats_is_no_step() -> None:
    recorder = StepRecorder()
    recorder.record(None, None)
    assert recorder.drain() == []


def test_vllm_may_call_the_rest_of_a_stat_logger() -> None:
    recorder = StepRecorder()
    recorder.log_engine_initialized()
    recorder.record(stats(), None, mm_cache_stats=None, engine_idx=0)
    recorder.log()
    recorder.record_sleep_state(is_awake=1, level=0)
    assert len(recorder.drain()) == 1
