"""What a run has cost is added up from what its arms witnessed."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from vllm_parity.ledger import gpu_cost
from vllm_parity.observation import load_observation

DATA = Path(__file__).parents[1] / "data"
H200 = DATA / "recorded" / "h200-0.26.0"


def judged(path: Path) -> Any:
    return SimpleNamespace(observation=load_observation(path))


def test_cost_is_of_all_arms_and_all_cells() -> None:
    paths = sorted(H200.glob("cuda-batch_invariance-text-n8_small-*.json"))
    each = [gpu_cost([judged(path)]) for path in paths]
    whole = gpu_cost([judged(path) for path in paths])
    assert whole["gpu_seconds"] == pytest.approx(sum(one["gpu_seconds"] for one in each), abs=0.01)
    assert whole["peak_memory_bytes"] == max(one["peak_memory_bytes"] for one in each)
    arms = load_observation(paths[0]).arms
    three = [arm.witness for arm in (arms.reference, arms.candidate, arms.control) if arm]
    assert each[0]["gpu_seconds"] == round(sum(one["gpu_seconds"] for one in three), 3)


def test_without_a_gpu_there_is_no_cost() -> None:
    assert gpu_cost([judged(DATA / "good-batch_invariance.json")]) == {}
    assert gpu_cost([judged(DATA / "mutated-hang.json")]) == {}
    assert gpu_cost([]) == {}
