"""Faults of others that stand in the way, each with its cause and when it may go."""

from __future__ import annotations


def apply_workarounds() -> None:
    """Apply all of them; called once in a worker, before its first engine."""
    _let_engines_follow_ngram()


def let_engine_have_its_layers() -> None:
    """Let the next engine make all its layers itself; called before each engine of a worker.

    vLLM keeps rotary embeddings in a table of the process (`layers/rotary_embedding`, as of
    0.32.0), by their sizes and not by how the engine that made them runs: an eager engine takes
    those of a compiled one before it, and gets other numbers, by 8.6e-6 on the CPU. The end of any
    engine empties the table, so that of two arms one may have them and the other not. May go when
    the table is an engine's own.
    """
    try:
        from vllm.model_executor.layers import rotary_embedding
    except ImportError:
        return
    getattr(rotary_embedding, "_ROPE_DICT", {}).clear()


def _let_engines_follow_ngram() -> None:
    """Let further engines start in a process after one with ngram speculation.

    For each CPU engine vLLM scans all loaded modules (`triton_utils/dispatcher.py`, as of 0.32.0)
    with ``hasattr(x, "__dict__")`` and ``vars(x).get(...)``. ngram loads numba, and llvmlite's
    `lib` answers to *any* attribute, `__dict__` too, with a function wrapper: the scan fails with
    "'_lib_fn_wrapper' object has no attribute 'get'". Giving that name a real dictionary in the
    wrapper's own table is enough. May go when vLLM's scan uses ``type(x)`` or catches this.
    """
    try:
        from llvmlite.binding import ffi
    except ImportError:
        return
    table = getattr(ffi.lib, "_fntab", None)
    if isinstance(table, dict):
        table.setdefault("__dict__", {})
