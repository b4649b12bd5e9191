"""Counting the replays of CUDA graphs, inside vLLM's worker.

vLLM's own count is there for one of its two model runners alone. Here `CUDAGraph.replay` itself is
counted, and what vLLM replays is told by the two places that it does so from. A name of vLLM's
that is not there leaves the mode unknown, never the count.
"""

from __future__ import annotations

import functools
from collections import Counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

_replays: Counter[str] = Counter()
_mode = ["UNKNOWN"]


def watch() -> None:
    """Count from now on; calling it again changes nothing."""
    import torch

    graph = getattr(torch.cuda, "CUDAGraph", None)
    if graph is None or hasattr(graph.replay, "counted_by_vllm_parity"):
        return
    _wrap(graph, "replay", _count)
    # PIECEWISE graphs, and FULL ones of the first model runner.
    _wrap_named("vllm.compilation.cuda_graph", "CUDAGraphWrapper", "__call__", _of_wrapper)
    # FULL graphs of the second.
    _wrap_named(
        "vllm.v1.worker.gpu.cudagraph_utils", "CudaGraphManager", "run_fullgraph", _of_manager
    )


def drain() -> dict[str, int]:
    """Return how many graphs of each mode were replayed since the last call.

    A PIECEWISE step replays one graph for each piece of the model.
    """
    found = dict(_replays)
    _replays.clear()
    return found


def witness(replays: dict[str, int]) -> dict[str, int]:
    """Return what was counted as a witness shows it: the sum, and each mode's part."""
    return {"graph_replays": sum(replays.values())} | {
        f"graph_replays_{mode.lower()}": count for mode, count in sorted(replays.items())
    }


def _count() -> None:
    _replays[_mode[-1]] += 1


def _of_wrapper(wrapper: Any, *_: Any) -> str:  # noqa: ANN401 - vLLM's
    return str(getattr(getattr(wrapper, "runtime_mode", None), "name", "UNKNOWN"))


def _of_manager(*_: Any) -> str:  # noqa: ANN401 - vLLM's
    return "FULL"


def _wrap_named(module: str, kind: str, method: str, mode_of: Callable[..., str]) -> None:
    """Have a method of vLLM's tell the mode of what is replayed within it."""
    import importlib

    try:
        found = getattr(importlib.import_module(module), kind)
        original = getattr(found, method)
    except (ImportError, AttributeError):
        return

    @functools.wraps(original)
    def told(self: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - vLLM's
        _mode.append(mode_of(self, *args))
        try:
            return original(self, *args, **kwargs)
        finally:
            _mode.pop()

    setattr(found, method, told)


def _wrap(kind: Any, method: str, tell: Callable[[], None]) -> None:  # noqa: ANN401
    original = getattr(kind, method)

    @functools.wraps(original)
    def counted(self: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        tell()
        return original(self, *args, **kwargs)

    counted.counted_by_vllm_parity = True  # type: ignore[attr-defined]
    setattr(kind, method, counted)
