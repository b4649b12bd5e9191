"""Counting the replays of CUDA graphs, inside vLLM's worker.

vLLM's own count is there for one of its two model runners alone. Here `CUDAGraph.replay` itself is
counted, and the mode and the number of tokens are told by the two places that vLLM replays from. A
name of vLLM's that is not there leaves these unknown, never the count.
"""

from __future__ import annotations

import functools
from collections import Counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

UNKNOWN = "UNKNOWN:0"
"""What is counted where nothing tells a graph's mode and tokens."""

_told = [UNKNOWN]
_counts: list[Counter[str]] = [Counter()]


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


def count_into(counts: Counter[str]) -> None:
    """Count replays there from now on: by mode and tokens, such as ``FULL:4``.

    The tokens are those that the graph was captured for: at least as many as the step has.
    """
    _counts[0] = counts


def _count() -> None:
    _counts[0][_told[-1]] += 1


def _of_wrapper(wrapper: Any, *_: Any) -> str:  # noqa: ANN401 - vLLM's
    from vllm.forward_context import get_forward_context, is_forward_context_available

    if not is_forward_context_available():
        return UNKNOWN
    tokens = getattr(get_forward_context().batch_descriptor, "num_tokens", 0)
    return f"{wrapper.runtime_mode.name}:{tokens}"


def _of_manager(_: Any, descriptor: Any = None, *__: Any) -> str:  # noqa: ANN401 - vLLM's
    return f"FULL:{getattr(descriptor, 'num_tokens', 0)}"


def _wrap_named(module: str, kind: str, method: str, telling: Callable[..., str]) -> None:
    """Have a method of vLLM's tell the mode and tokens of what is replayed within it."""
    import importlib

    try:
        found = getattr(importlib.import_module(module), kind)
        original = getattr(found, method)
    except (ImportError, AttributeError):
        return

    @functools.wraps(original)
    def told(self: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - vLLM's
        try:
            _told.append(telling(self, *args))
        except (ImportError, AttributeError):
            _told.append(UNKNOWN)
        try:
            return original(self, *args, **kwargs)
        finally:
            _told.pop()

    setattr(found, method, told)


def _wrap(kind: Any, method: str, tell: Callable[[], None]) -> None:  # noqa: ANN401
    original = getattr(kind, method)

    @functools.wraps(original)
    def counted(self: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        tell()
        return original(self, *args, **kwargs)

    counted.counted_by_vllm_parity = True  # type: ignore[attr-defined]
    setattr(kind, method, counted)
