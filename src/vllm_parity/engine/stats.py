"""What vLLM's scheduler did, step by step, and the witness that it makes.

A witness is what was counted at run time, as opposed to what was asked for.
"""

from __future__ import annotations

from typing import Any

Step = dict[str, Any]
"""One engine step; see :meth:`StepRecorder.record` for its fields."""


class StepRecorder:
    """A vLLM stat logger (see `vllm.v1.metrics.loggers`) that keeps every step until drained."""

    def __init__(self) -> None:
        self._steps: list[Step] = []

    def record(
        self,
        scheduler_stats: Any,  # noqa: ANN401 - vLLM's SchedulerStats
        iteration_stats: Any,  # noqa: ANN401
        mm_cache_stats: Any = None,  # noqa: ANN401 - a MultiModalCacheStats
        engine_idx: int = 0,
    ) -> None:
        """Keep one step."""
        if scheduler_stats is None:
            return
        details = scheduler_stats.iteration_details
        spec = scheduler_stats.spec_decoding_stats
        step = {
            "prefix_cache_queries": scheduler_stats.prefix_cache_stats.queries,
            "prefix_cache_hits": scheduler_stats.prefix_cache_stats.hits,
            "mm_cache_hits": mm_cache_stats.hits if mm_cache_stats else 0,
            "spec_draft_tokens": spec.num_draft_tokens if spec else 0,
            "spec_accepted_tokens": spec.num_accepted_tokens if spec else 0,
        }
        if details is not None:
            step |= {
                "prefill_requests": details.num_ctx_requests,
                "prefill_tokens": details.num_ctx_tokens,
                "decode_requests": details.num_generation_requests,
                "decode_tokens": details.num_generation_tokens,
            }
        self._steps.append(step)

    def log(self) -> None:
        """Do nothing: the steps are drained, not logged."""

    def log_engine_initialized(self) -> None:
        """Do nothing."""

    def record_sleep_state(self, is_awake: int, level: int) -> None:
        """Do nothing."""

    def drain(self) -> list[Step]:
        """Return the steps since the last call, and forget them."""
        steps, self._steps = self._steps, []
        return steps


def witness(steps: list[Step]) -> dict[str, int]:
    """Sum up steps.

    `max_running_requests` is the most requests that one step computed, `max_step_tokens` the most
    tokens, `prefill_chunks` the number of pieces in which prompts were computed, `mm_cache_hits`
    the number of images and the like that were found in the cache; the rest are totals of tokens.
    A step whose details vLLM did not give counts for nothing.
    """
    requests = [s.get("prefill_requests", 0) + s.get("decode_requests", 0) for s in steps]
    tokens = [s.get("prefill_tokens", 0) + s.get("decode_tokens", 0) for s in steps]
    return {
        "steps": len(steps),
        "max_running_requests": max(requests, default=0),
        "max_step_tokens": max(tokens, default=0),
        "prefill_chunks": sum(s.get("prefill_requests", 0) for s in steps),
        **{
            name: sum(s[name] for s in steps)
            for name in (
                "prefix_cache_queries",
                "prefix_cache_hits",
                "mm_cache_hits",
                "spec_draft_tokens",
                "spec_accepted_tokens",
            )
        },
        "spec_rejected_tokens": sum(
            s["spec_draft_tokens"] - s["spec_accepted_tokens"] for s in steps
        ),
    }
