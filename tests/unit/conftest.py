"""What many unit tests need: a patient hypothesis, and the fake vLLM in place of the real one."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import pytest
from hypothesis import settings

# Collecting a thousand tests makes many objects and no garbage: a quarter of the time was spent on
# looking for some.
gc.set_threshold(50_000, 20, 100)

FAKES = Path(__file__).parents[1] / "fakes"

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
