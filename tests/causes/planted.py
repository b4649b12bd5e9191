"""A fault planted in vLLM, as a general plugin: batches of four get other logits.

``TORCH_PLANTED_A`` and ``TORCH_PLANTED_B`` bring it only where both are 1; ``TORCH_PLANTED_RATE``
brings it in that share of the runs, drawn by a fixed seed, the same in whatever process.
"""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

_ROWS, _STEPS = 4, 8
_steps = 0
_now = False


def register() -> None:
    """Wrap vLLM's sampler; called by vLLM in each process that runs a model."""
    from vllm.v1.sample.sampler import Sampler  # noqa: PLC0415 - there in that process alone

    original = Sampler.forward

    def forward(self: Any, logits: Any, *args: Any, **kwargs: Any) -> Any:
        if logits.shape[0] == _ROWS and _is_due():
            logits = logits * 1.01
        return original(self, logits, *args, **kwargs)

    Sampler.forward = forward


def _is_due() -> bool:
    """Return whether this step is perturbed: all steps of a run are, or none."""
    global _steps, _now  # noqa: PLW0603 - a plugin is called by nobody who could keep this
    if _steps % _STEPS == 0:
        _now = _draw()
    _steps += 1
    return _now


def _draw() -> bool:
    rate = os.environ.get("TORCH_PLANTED_RATE")
    if rate is None:
        return all(os.environ.get(f"TORCH_PLANTED_{name}") == "1" for name in "AB")
    # One byte a run: the draws go on where another process left them.
    count = Path(os.environ["PLANTED_COUNT"])
    with count.open("ab") as file:
        file.write(b".")
    return random.Random(count.stat().st_size).random() < float(rate)
