"""Replays of CUDA graphs are counted whoever replays them, each with its mode and tokens."""

from __future__ import annotations

import enum
import sys
from collections import Counter
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from vllm_parity.engine import graphs


class Mode(enum.Enum):
    PIECEWISE = 1
    FULL = 2


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Put a torch with CUDA graphs in place; vLLM's modules are not there."""

    class CUDAGraph:
        def replay(self) -> str:
            return "replayed"

    fake = ModuleType("torch")
    fake.cuda = SimpleNamespace(CUDAGraph=CUDAGraph)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch", fake)
    for name in (
        "vllm.compilation.cuda_graph",
        "vllm.v1.worker.gpu.cudagraph_utils",
        "vllm.forward_context",
    ):
        monkeypatch.setitem(sys.modules, name, None)
    return fake


@pytest.fixture
def counts() -> Counter[str]:
    """Return where replays are counted."""
    found: Counter[str] = Counter()
    graphs.count_into(found)
    return found


def module(monkeypatch: pytest.MonkeyPatch, name: str, **names: Any) -> None:
    made = ModuleType(name)
    vars(made).update(names)
    monkeypatch.setitem(sys.modules, name, made)


def test_every_replay_is_counted_once_however_often_it_is_watched(
    torch: ModuleType, counts: Counter[str]
) -> None:
    graphs.watch()
    graphs.watch()
    graph = torch.cuda.CUDAGraph()
    assert [graph.replay() for _ in range(3)] == ["replayed"] * 3
    assert counts == {graphs.UNKNOWN: 3}
    graphs.count_into(Counter())
    graph.replay()
    assert counts == {graphs.UNKNOWN: 3}


def test_mode_and_tokens_are_those_of_what_replays(
    torch: ModuleType, counts: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class CUDAGraphWrapper:
        def __init__(self, mode: Mode) -> None:
            self.runtime_mode = mode

        def __call__(self) -> None:
            torch.cuda.CUDAGraph().replay()

    class CudaGraphManager:
        def run_fullgraph(self, desc: object) -> object:
            torch.cuda.CUDAGraph().replay()
            return desc

    batch = SimpleNamespace(num_tokens=64)
    module(monkeypatch, "vllm.compilation.cuda_graph", CUDAGraphWrapper=CUDAGraphWrapper)
    module(monkeypatch, "vllm.v1.worker.gpu.cudagraph_utils", CudaGraphManager=CudaGraphManager)
    module(
        monkeypatch,
        "vllm.forward_context",
        is_forward_context_available=lambda: True,
        get_forward_context=lambda: SimpleNamespace(batch_descriptor=batch),
    )
    graphs.watch()
    CUDAGraphWrapper(Mode.PIECEWISE)()
    CUDAGraphWrapper(Mode.FULL)()
    desc = SimpleNamespace(num_tokens=4)
    assert CudaGraphManager().run_fullgraph(desc) is desc
    torch.cuda.CUDAGraph().replay()
    assert counts == {"PIECEWISE:64": 1, "FULL:64": 1, "FULL:4": 1, graphs.UNKNOWN: 1}


def test_replay_that_fails_leaves_the_next_ones_their_own_mode(
    torch: ModuleType, counts: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class CudaGraphManager:
        def run_fullgraph(self, desc: object) -> object:
            msg = f"no memory for {desc}"
            raise RuntimeError(msg)

    module(monkeypatch, "vllm.v1.worker.gpu.cudagraph_utils", CudaGraphManager=CudaGraphManager)
    graphs.watch()
    with pytest.raises(RuntimeError, match="no memory"):
        CudaGraphManager().run_fullgraph(SimpleNamespace(num_tokens=4))
    torch.cuda.CUDAGraph().replay()
    assert counts == {graphs.UNKNOWN: 1}


def test_vllm_that_tells_nothing_is_run_and_counted_all_the_same(
    torch: ModuleType, counts: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class CUDAGraphWrapper:
        def __call__(self) -> str:
            return str(torch.cuda.CUDAGraph().replay())

    module(monkeypatch, "vllm.compilation.cuda_graph", CUDAGraphWrapper=CUDAGraphWrapper)
    graphs.watch()
    assert CUDAGraphWrapper()() == "replayed"
    assert counts == {graphs.UNKNOWN: 1}


def test_torch_without_graphs(torch: ModuleType, counts: Counter[str]) -> None:
    torch.cuda = SimpleNamespace()  # type: ignore[attr-defined]
    graphs.watch()
    assert not counts
