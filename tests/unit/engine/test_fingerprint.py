"""Which variables of a process are recorded, and which never are."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import pytest

from vllm_parity.engine.fingerprint import _device, recorded, visible_variables


def test_variables_of_vllm_and_its_libraries_are_recorded_and_no_secret_or_place() -> None:
    environment = {
        "VLLM_BATCH_INVARIANT": "1",
        "OMP_NUM_THREADS": "2",
        "CUDA_MODULE_LOADING": "LAZY",
        "CUDA_VISIBLE_DEVICES": "0",
        "VLLM_API_KEY": "secret",
        "HF_TOKEN": "secret",
        "VLLM_CACHE_ROOT": "/somewhere",
        "VLLM_PORT": "8000",
        "VLLM_PARITY_CACHE": "/somewhere",
        "EDITOR": "ed",
    }
    marked = recorded(environment)
    assert marked == {**environment, "PARITY_RECORDED": marked["PARITY_RECORDED"]}
    names = marked["PARITY_RECORDED"].split()
    assert names == ["CUDA_MODULE_LOADING", "OMP_NUM_THREADS", "VLLM_BATCH_INVARIANT"]


@pytest.mark.parametrize(
    ("name", "arch", "expected"),
    [("NVIDIA H200", "NVIDIA H200", "sm_90"), ("AMD", "gfx942:sramecc+:xnack-", "gfx942")],
)
def test_gpu_is_named_with_its_architecture(name: str, arch: str, expected: str) -> None:
    properties = SimpleNamespace(name=name, gcnArchName=arch, major=9, minor=0)
    cuda = SimpleNamespace(is_available=lambda: True, get_device_properties=lambda _: properties)
    assert _device(SimpleNamespace(cuda=cuda)) == {"device": name, "arch": expected}


def test_without_a_gpu_it_is_the_processor() -> None:
    cpu = SimpleNamespace(get_cpu_capability=lambda: "AVX512")
    torch = SimpleNamespace(
        cuda=SimpleNamespace(is_available=lambda: False), backends=SimpleNamespace(cpu=cpu)
    )
    found = _device(torch)
    assert found["arch"] == "AVX512"
    assert found["device"]


def test_what_vllm_sets_for_itself_later_is_not_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = ModuleType("vllm")
    envs = ModuleType("vllm.envs")
    envs.VLLM_BATCH_INVARIANT = True  # type: ignore[attr-defined]
    fake.envs = envs  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "vllm", fake)
    monkeypatch.setenv("PARITY_RECORDED", "OMP_NUM_THREADS VLLM_BATCH_INVARIANT")
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    monkeypatch.setenv("VLLM_BATCH_INVARIANT", "1")
    monkeypatch.setenv("VLLM_OBJECT_STORAGE_SHM_BUFFER_NAME", "another one each time")
    assert visible_variables() == {"OMP_NUM_THREADS": "2", "VLLM_BATCH_INVARIANT": "True"}
