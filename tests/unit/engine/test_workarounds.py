"""Workarounds do what they say, and nothing where what they work around is not there."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import pytest

from vllm_parity.engine.workarounds import apply_workarounds, let_engine_have_its_layers


class Lib:
    """What llvmlite's `lib` is: any attribute is a function, once looked up kept in a table."""

    __slots__ = ("_fntab",)

    def __init__(self) -> None:
        self._fntab: dict[str, object] = {}

    def __getattr__(self, name: str) -> object:
        return self._fntab.setdefault(name, print)


def scan(module: object) -> object:
    """Look at a module's attribute as vLLM's scan does."""
    return vars(module).get("jit") if hasattr(module, "__dict__") else None


@pytest.fixture
def lib(monkeypatch: pytest.MonkeyPatch) -> Lib:
    lib = Lib()
    binding = ModuleType("llvmlite.binding")
    binding.ffi = SimpleNamespace(lib=lib)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "llvmlite", ModuleType("llvmlite"))
    monkeypatch.setitem(sys.modules, "llvmlite.binding", binding)
    return lib


def test_scan_fails_without(lib: Lib) -> None:
    with pytest.raises(AttributeError):
        scan(lib)


def test_scan_works_with(lib: Lib) -> None:
    apply_workarounds()
    apply_workarounds()
    assert scan(lib) is None
    assert lib.some_function is print


def test_nothing_happens_without_llvmlite(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "llvmlite", None)
    apply_workarounds()


def test_nothing_happens_where_llvmlite_is_another(monkeypatch: pytest.MonkeyPatch) -> None:
    binding = ModuleType("llvmlite.binding")
    binding.ffi = SimpleNamespace(lib=object())  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "llvmlite", ModuleType("llvmlite"))
    monkeypatch.setitem(sys.modules, "llvmlite.binding", binding)
    apply_workarounds()


def module(monkeypatch: pytest.MonkeyPatch, name: str) -> ModuleType:
    """Put an empty module of this name, and those that hold it, in place."""
    parent: ModuleType | None = None
    parts = name.split(".")
    for depth, part in enumerate(parts, start=1):
        made = ModuleType(".".join(parts[:depth]))
        monkeypatch.setitem(sys.modules, made.__name__, made)
        if parent is not None:
            setattr(parent, part, made)
        parent = made
    assert parent is not None
    return parent


def test_engine_takes_no_rotary_embedding_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    let_engine_have_its_layers()
    layers = module(monkeypatch, "vllm.model_executor.layers.rotary_embedding")
    let_engine_have_its_layers()
    layers._ROPE_DICT = {(64, 128): object()}  # type: ignore[attr-defined]
    let_engine_have_its_layers()
    assert layers._ROPE_DICT == {}
