"""The witness: what was counted at run time, as opposed to what was asked for.

It has two sources. The model runner's own steps (:mod:`vllm_parity.engine.trace`) tell what was
computed together, what the prefix cache spared them, and which graphs computed it. vLLM's stat
loggers tell of the cache of images and the like, and of drafts.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vllm_parity.engine.trace import TracedStep

Counts = dict[str, int]
"""What one engine step told a stat logger; see :meth:`CountRecorder.record`."""

_COUNTS = ("mm_cache_hits", "spec_draft_tokens", "spec_accepted_tokens")


class CountRecorder:
    """A vLLM stat logger (see `vllm.v1.metrics.loggers`) that keeps all counts until drained."""

    def __init__(self) -> None:
        self._counts: list[Counts] = []

    def record(
        self,
        scheduler_stats: Any,  # noqa: ANN401 - vLLM's SchedulerStats
        iteration_stats: Any,  # noqa: ANN401
        mm_cache_stats: Any = None,  # noqa: ANN401 - a MultiModalCacheStats
        engine_idx: int = 0,
    ) -> None:
        """Keep the counts of one step."""
        if scheduler_stats is None:
            return
        spec = scheduler_stats.spec_decoding_stats
        self._counts.append(
            {
                "mm_cache_hits": mm_cache_stats.hits if mm_cache_stats else 0,
                "spec_draft_tokens": spec.num_draft_tokens if spec else 0,
                "spec_accepted_tokens": spec.num_accepted_tokens if spec else 0,
            }
        )

    def log(self) -> None:
        """Do nothing: the counts are drained, not logged."""

    def log_engine_initialized(self) -> None:
        """Do nothing."""

    def record_sleep_state(self, is_awake: int, level: int) -> None:
        """Do nothing."""

    def drain(self) -> list[Counts]:
        """Return the counts since the last call, and forget them."""
        counts, self._counts = self._counts, []
        return counts


def counted(counts: list[Counts]) -> dict[str, int]:
    """Return what stat loggers witness: tokens drafted, and images and such found in the cache."""
    total = {name: sum(one[name] for one in counts) for name in _COUNTS}
    rejected = total["spec_draft_tokens"] - total["spec_accepted_tokens"]
    return {**total, "spec_rejected_tokens": rejected}


def traced(steps: list[TracedStep] | None) -> dict[str, float]:
    """Return what the steps of a model runner witness; nothing where they could not be seen.

    `max_running_requests` and `max_step_tokens` are the most that one step computed. A prefill
    step computes a prompt, or a chunk of one (`prefill_chunks` in all); a decode step none, and
    `min_decode_requests` is the fewest requests that one had. `prefix_cache_hits` are the tokens
    that new requests found cached. `graph_replays` counts CUDA graphs, also those of each mode,
    and of each mode and number of tokens: a FULL one is a whole step, a PIECEWISE one a piece of
    the model. `min_full_graph_requests` is the fewest requests that a FULL one computed.
    `gpu_seconds` is the time that the card spent in these steps, `peak_memory_bytes` the most that
    torch had allocated in the process.
    """
    if steps is None:
        return {}
    decodes = [step for step in steps if not step["prefill_requests"]]
    prefills = [step for step in steps if step["prefill_requests"]]
    full = [step for step in steps if "FULL" in _modes(step)]
    found: dict[str, float] = {
        "steps": len(steps),
        "max_running_requests": max((step["requests"] for step in steps), default=0),
        "max_step_tokens": max((step["tokens"] for step in steps), default=0),
        "prefill_chunks": sum(step["prefill_requests"] for step in steps),
        "prefix_cache_hits": sum(step["prefix_cache_hits"] for step in steps),
        "decode_steps": len(decodes),
        "min_decode_requests": min((step["requests"] for step in decodes), default=0),
        "decode_steps_outside_full_graphs": sum("FULL" not in _modes(step) for step in decodes),
        "min_full_graph_requests": min((step["requests"] for step in full), default=0),
        "prefill_steps_piecewise": sum("PIECEWISE" in _modes(step) for step in prefills),
        "prefill_steps_outside_graphs": sum(not step["replays"] for step in prefills),
        **_replays(steps),
    }
    if any("gpu_seconds" in step for step in steps):
        found["gpu_seconds"] = round(sum(step["gpu_seconds"] for step in steps), 6)
        found["peak_memory_bytes"] = max(step["peak_memory_bytes"] for step in steps)
    return found


def _modes(step: TracedStep) -> set[str]:
    return {shape.partition(":")[0] for shape in step["replays"]}


def _replays(steps: list[TracedStep]) -> dict[str, int]:
    """Return the number of replays: of all, of each mode, of each mode and number of tokens."""
    found = Counter({"graph_replays": 0})
    for step in steps:
        for shape, count in step["replays"].items():
            mode, _, tokens = shape.lower().partition(":")
            found["graph_replays"] += count
            found[f"graph_replays_{mode}"] += count
            found[f"graph_replays_{mode}_{tokens}"] += count
    return dict(sorted(found.items()))
