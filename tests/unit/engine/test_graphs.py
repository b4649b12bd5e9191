"""Replays of CUDA graphs are counted whoever replays them, each with its mode."""

from __future__ import annotations

import enum
import sys
from types import ModuleType, SimpleNamespace

import pytest

from vllm_parity.engine import graphs


class Mode(enum.Enum):
    PIECEWISE = 1
    FULL = 2


class CUDAGraph:
    def replay(self) -> str:
        return "replayed"


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Put a torch with CUDA graphs in place; vLLM's modules are not there."""

    class Graph(CUDAGraph):
        def replay(self) -> str:
            return super().replay()

    fake = ModuleType("torch")
    fake.cuda = SimpleNamespace(CUDAGraph=Graph)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch", fake)
    monkeypatch.setitem(sys.modules, "vllm.compilation.cuda_graph", None)
    monkeypatch.setitem(sys.modules, "vllm.v1.worker.gpu.cudagraph_utils", None)
    graphs.drain()
    return fake


def test_every_replay_is_counted_until_drained(torch: ModuleType) -> None:
    graphs.watch()
    graphs.watch()
    graph = torch.cuda.CUDAGraph()
    assert [graph.replay() for _ in range(3)] == ["replayed"] * 3
    assert graphs.drain() == {"UNKNOWN": 3}
    assert graphs.drain() == {}


def test_mode_is_that_of_what_replays(torch: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    class CUDAGraphWrapper:
        def __init__(self, mode: Mode) -> None:
            self.runtime_mode = mode

        def __call__(self) -> None:
            torch.cuda.CUDAGraph().replay()

    class CudaGraphManager:
        def run_fullgraph(self, desc: object) -> object:
            torch.cuda.CUDAGraph().replay()
            return desc

    for name, kind in (
        ("vllm.compilation.cuda_graph", CUDAGraphWrapper),
        ("vllm.v1.worker.gpu.cudagraph_utils", CudaGraphManager),
    ):
        module = ModuleType(name)
        setattr(module, kind.__name__, kind)
        monkeypatch.setitem(sys.modules, name, module)
    graphs.watch()
    CUDAGraphWrapper(Mode.PIECEWISE)()
    CUDAGraphWrapper(Mode.FULL)()
    assert CudaGraphManager().run_fullgraph("desc") == "desc"
    torch.cuda.CUDAGraph().replay()
    assert graphs.drain() == {"PIECEWISE": 1, "FULL": 2, "UNKNOWN": 1}


def test_torch_without_graphs(torch: ModuleType) -> None:
    torch.cuda = SimpleNamespace()  # type: ignore[attr-defined]
    graphs.watch()
    assert graphs.drain() == {}


def test_witness_names_modes_and_their_sum() -> None:
    assert graphs.witness({"FULL": 7, "PIECEWISE": 2}) == {
        "graph_replays": 9,
        "graph_replays_full": 7,
        "graph_replays_piecewise": 2,
    }
    assert graphs.witness({}) == {"graph_replays": 0}
