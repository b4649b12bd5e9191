"""Records of one cell, by hand."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

DATA = Path(__file__).parents[2] / "data"
GOOD = json.loads((DATA / "good-batch_invariance.json").read_text(encoding="utf-8"))
BAD = json.loads((DATA / "mutated-one-bit.json").read_text(encoding="utf-8"))
CELL = "cpu-batch_invariance-text-eager-apc_off"
OTHER = "cpu-batch_invariance-image-eager-apc_off"
NUDGED = "cpu-batch_invariance-text-eager-apc_off-nudged"


def document(
    data: dict[str, Any] = GOOD,
    at: str | None = None,
    *,
    environment: dict[str, str] | None = None,
    knobs: dict[str, Any] | None = None,
    **changes: Any,
) -> dict[str, Any]:
    """Return an observation; `environment` and `knobs` (of all arms) are what differs in it."""
    made = copy.deepcopy({**data, "cell": CELL, **changes})
    if at is not None:
        made["recorded_at"] = at
    made["environment"] |= environment or {}
    for arm in made["arms"].values():
        if arm is not None:
            arm["knobs"] |= knobs or {}
    return made


def failed(at: str, **changes: Any) -> dict[str, Any]:
    """Return the record of a run whose engine did not start: little is known of it."""
    arms = {"reference": None, "candidate": None, "control": None}
    error = {"arm": None, "kind": "died", "message": "an engine did not start: killed"}
    made = document(GOOD, at, arms=arms, error=error, **changes)
    made["environment"] = {"vllm_parity": "0.1.0"}
    return made


def write(path: Path, data: dict[str, Any]) -> Path:
    """Write a record, and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(data), encoding="utf-8")
    return path


def day(number: int) -> str:
    """Return a time on a day of December 2026."""
    return f"2026-12-{number:02}T12:00:00Z"
