"""What vLLM does not count is no witness, and no crash."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING

from vllm_parity.engine import extension

if TYPE_CHECKING:
    import pytest


def counting(monkeypatch: pytest.MonkeyPatch, **counts: int) -> None:
    module = ModuleType("vllm.compilation.counter")
    module.compilation_counter = SimpleNamespace(**counts)  # type: ignore[attr-defined]
    for name in ("vllm", "vllm.compilation"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, "vllm.compilation.counter", module)
    monkeypatch.setattr(extension, "_seen", 0)


def test_each_engine_has_what_was_compiled_since_the_one_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counts = {"num_backend_compilations": 2, "num_aot_compiles": 1, "num_aot_artifacts_loaded": 4}
    counting(monkeypatch, **counts)
    assert extension._compiled_graphs() == {"compiled_graphs": 7}
    assert extension._compiled_graphs() == {"compiled_graphs": 0}


def test_counter_of_another_kind_leaves_no_witness(monkeypatch: pytest.MonkeyPatch) -> None:
    counting(monkeypatch, num_backend_compilations=2)
    assert extension._compiled_graphs() == {}
    monkeypatch.setitem(sys.modules, "vllm.compilation.counter", None)
    assert extension._compiled_graphs() == {}
