"""What many unit tests need: a patient hypothesis, and the fake vLLM in place of the real one."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from collections.abc import Callable

    Run = Callable[..., subprocess.CompletedProcess[str]]

# Collecting a thousand tests makes many objects and no garbage: a quarter of the time was spent on
# looking for some.
gc.set_threshold(50_000, 20, 100)

ROOT = Path(__file__).parents[2]
FAKES = ROOT / "tests" / "fakes"

# A busy machine is no finding; and where a change is judged, it is judged by the same examples.
settings.register_profile("patient", deadline=None, max_examples=60, derandomize="CI" in os.environ)
settings.load_profile("patient")


@pytest.fixture
def fake_vllm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Have child processes import the fake vLLM; return the file that asks it for a fault."""
    fault = tmp_path / "fault"
    monkeypatch.setenv("PYTHONPATH", str(FAKES), prepend=os.pathsep)
    monkeypatch.setenv("FAKE_VLLM_FAULT", str(fault))
    return fault


@pytest.fixture(scope="session")
def model_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def command(
    fake_vllm: Path, tmp_path: Path, model_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., list[str]]:
    """Return a function from arguments of pytest to a command that runs the parity tests."""
    assert not fake_vllm.exists()
    monkeypatch.setenv("VLLM_PARITY_CACHE", str(model_cache))
    for name in [
        name for name in os.environ if name.startswith(("OMP_", "VLLM_U", "PYTEST_", "CUDA_"))
    ]:
        monkeypatch.delenv(name)

    def build(*arguments: str) -> list[str]:
        results = str(tmp_path / "results")
        return [sys.executable, "-m", "pytest", "tests/parity", "--results", results, *arguments]

    return build


@pytest.fixture
def run(command: Callable[..., list[str]]) -> Run:
    """Return a function that runs the parity tests with some arguments of pytest."""

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command(*arguments), cwd=ROOT, capture_output=True, text=True, timeout=100, check=False
        )

    return run
