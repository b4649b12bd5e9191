"""What a model runner computed, step by step, seen from inside vLLM's worker.

The same for both of vLLM's model runners, in one process and in several, offline and in a server:
all of them call `execute_model` with the scheduler's output. Where vLLM has no such thing any more
there is no trace, so that what it would witness is missing and a cell `unverified`.
"""

from __future__ import annotations

import functools
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from vllm_parity.engine import graphs

if TYPE_CHECKING:
    from collections.abc import Iterator

TracedStep = dict[str, Any]
"""One step that computed tokens: `requests`, `prefill_requests` of these, `tokens`, those of new
requests that the prefix cache had (`prefix_cache_hits`), and `replays` of CUDA graphs by mode and
tokens; on a GPU `gpu_seconds`, from the beginning of the model's run to its end, and
`peak_memory_bytes`, the most that torch had allocated in this process since the last drain."""


class Trace:
    """The steps of one model runner since they were last drained."""

    def __init__(self, runner: Any) -> None:  # noqa: ANN401 - vLLM's
        """Watch a model runner from now on."""
        graphs.watch()
        self._steps: list[TracedStep] | None = []
        self._clock = _Clock()
        try:
            original = runner.execute_model
        except AttributeError:
            self._steps = None
            return

        @functools.wraps(original)
        def execute_model(scheduled: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
            step = self._begin(scheduled)
            if step is None:
                return original(scheduled, *args, **kwargs)
            graphs.count_into(step["replays"])
            with self._clock.timing(step):
                return original(scheduled, *args, **kwargs)

        runner.execute_model = execute_model

    def drain(self) -> list[TracedStep] | None:
        """Return the steps since the last call, and forget them; None where none can be seen."""
        graphs.count_into(Counter())
        if self._steps is None:
            return None
        steps, self._steps = self._steps, []
        return self._clock.read(steps)

    def _begin(self, scheduled: Any) -> TracedStep | None:  # noqa: ANN401 - vLLM's
        if self._steps is None:
            return None
        try:
            step = _step(scheduled)
        except (AttributeError, TypeError):
            # A step that cannot be read would leave a trace that is wrong.
            self._steps = None
            return None
        if not step["tokens"]:
            return None
        self._steps.append(step)
        return step


def _step(scheduled: Any) -> TracedStep:  # noqa: ANN401 - vLLM's SchedulerOutput
    """Read what the scheduler asks for: new requests, and known ones that have said nothing yet.

    The latter are those of a prompt that is computed in several chunks.
    """
    known = scheduled.scheduled_cached_reqs
    chunked = sum(said == 0 for said in known.num_output_tokens)
    return {
        "requests": len(scheduled.num_scheduled_tokens),
        "prefill_requests": len(scheduled.scheduled_new_reqs) + chunked,
        "tokens": scheduled.total_num_scheduled_tokens,
        "prefix_cache_hits": sum(new.num_computed_tokens for new in scheduled.scheduled_new_reqs),
        "replays": Counter(),
    }


class _Clock:
    """The card's own time of each step, and its memory; on a CPU nothing."""

    def __init__(self) -> None:
        import torch

        self._cuda: Any = torch.cuda if torch.cuda.is_available() else None

    @contextmanager
    def timing(self, step: TracedStep) -> Iterator[None]:
        """Have two events around a step, of which the card itself keeps the time."""
        if self._cuda is None:
            yield
            return
        begin, end = (self._cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        yield
        end.record()
        step["events"] = (begin, end)
        step["peak_memory_bytes"] = self._cuda.max_memory_allocated()

    def read(self, steps: list[TracedStep]) -> list[TracedStep]:
        """Put the times in the place of the events that they lie between."""
        if self._cuda is not None:
            self._cuda.synchronize()
            for step in steps:
                begin, end = step.pop("events")
                step["gpu_seconds"] = begin.elapsed_time(end) / 1000
            self._cuda.reset_peak_memory_stats()
        return steps
