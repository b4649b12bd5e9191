"""Steps are read off the scheduler's output; what cannot be read leaves no trace, and no crash."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from vllm_parity.engine import graphs
from vllm_parity.engine.trace import Trace


class Event:
    """An event of a card whose clock goes on by 5 ms with each."""

    clock = 0.0

    def __init__(self, *, enable_timing: bool) -> None:
        assert enable_timing
        self.at = 0.0

    def record(self) -> None:
        Event.clock += 5.0
        self.at = Event.clock

    def elapsed_time(self, end: Event) -> float:
        return end.at - self.at


class Runner:
    """A model runner that replays a graph in each step."""

    def __init__(self, cuda: Any) -> None:
        self.cuda = cuda
        self.ran: list[Any] = []

    def execute_model(self, scheduled: Any, intermediate: object = None) -> object:
        self.ran.append((scheduled, intermediate))
        self.cuda.CUDAGraph().replay()
        return "output"


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Any:
    class CUDAGraph:
        def replay(self) -> None: ...

    found = SimpleNamespace(
        CUDAGraph=CUDAGraph,
        Event=Event,
        is_available=lambda: False,
        synchronize=lambda: None,
        max_memory_allocated=lambda: 1 << 20,
        reset_peak_memory_stats=lambda: None,
    )
    fake = ModuleType("torch")
    fake.cuda = found  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch", fake)
    return found


def scheduled(
    *, new: tuple[int, ...] = (), said: tuple[int, ...] = (), tokens: int = 1
) -> SimpleNamespace:
    """Return a scheduler's output: new requests by their cached tokens, known by tokens said."""
    return SimpleNamespace(
        scheduled_new_reqs=[SimpleNamespace(num_computed_tokens=hits) for hits in new],
        scheduled_cached_reqs=SimpleNamespace(num_output_tokens=list(said)),
        num_scheduled_tokens=dict.fromkeys(range(len(new) + len(said)), 1),
        total_num_scheduled_tokens=tokens,
    )


def test_new_requests_and_chunks_are_prefill_and_the_rest_decodes(cuda: Any) -> None:
    runner = Runner(cuda)
    trace = Trace(runner)
    first = scheduled(new=(16, 0), said=(0, 3), tokens=40)
    assert runner.execute_model(first, "from elsewhere") == "output"
    runner.execute_model(scheduled(said=(1, 1, 4), tokens=3))
    assert runner.ran[0] == (first, "from elsewhere")
    assert trace.drain() == [
        {
            "requests": 4,
            "prefill_requests": 3,
            "tokens": 40,
            "prefix_cache_hits": 16,
            "replays": {graphs.UNKNOWN: 1},
        },
        {
            "requests": 3,
            "prefill_requests": 0,
            "tokens": 3,
            "prefix_cache_hits": 0,
            "replays": {graphs.UNKNOWN: 1},
        },
    ]
    assert trace.drain() == []


def test_step_without_tokens_is_none(cuda: Any) -> None:
    runner = Runner(cuda)
    trace = Trace(runner)
    runner.execute_model(scheduled(tokens=0))
    assert (len(runner.ran), trace.drain()) == (1, [])


def test_replays_after_a_step_are_that_steps_until_the_next(cuda: Any) -> None:
    runner = Runner(cuda)
    trace = Trace(runner)
    runner.execute_model(scheduled(new=(0,)))
    cuda.CUDAGraph().replay()  # as a drafting model does, once the step's tokens are sampled
    runner.execute_model(scheduled(said=(1,)))
    steps = trace.drain() or []
    cuda.CUDAGraph().replay()
    assert [step["replays"][graphs.UNKNOWN] for step in steps] == [2, 1]


def test_each_engine_of_a_process_has_its_own_steps(cuda: Any) -> None:
    runners = [Runner(cuda), Runner(cuda)]
    traces = [Trace(runner) for runner in runners]
    runners[0].execute_model(scheduled(new=(0,)))
    assert [len(trace.drain() or []) for trace in traces] == [1, 0]


def test_card_tells_time_and_memory(cuda: Any) -> None:
    cuda.is_available = lambda: True
    runner = Runner(cuda)
    trace = Trace(runner)
    runner.execute_model(scheduled(new=(0,)))
    (step,) = trace.drain() or []
    assert (step["gpu_seconds"], step["peak_memory_bytes"]) == (0.005, 1 << 20)
    assert "events" not in step


def test_scheduler_that_says_other_things_leaves_no_trace_and_runs_on(cuda: Any) -> None:
    runner = Runner(cuda)
    trace = Trace(runner)
    runner.execute_model(scheduled(new=(0,)))
    assert runner.execute_model(SimpleNamespace(total_num_scheduled_tokens=1)) == "output"
    assert trace.drain() is None
    runner.execute_model(scheduled(new=(0,)))
    assert trace.drain() is None


def test_runner_of_another_kind_leaves_no_trace(cuda: Any) -> None:
    assert Trace(SimpleNamespace()).drain() is None
    assert cuda.CUDAGraph().replay() is None
