"""Faults of others that stand in the way, each with its cause and when it may go."""

from __future__ import annotations


def apply_workarounds() -> None:
    """Apply all of them; called once in a worker, before its first engine."""
    _let_engines_follow_ngram()


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
