"""Does the same request give the same numbers when only one thing about how it is run changed?"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vllm_parity.contracts import load_contracts
    from vllm_parity.judge import Judgement, explain, judge
    from vllm_parity.observation import Contract, Observation, load_observation
    from vllm_parity.parity import assert_parity

__version__ = "0.1.0"

__all__ = [
    "Contract",
    "Judgement",
    "Observation",
    "assert_parity",
    "explain",
    "judge",
    "load_contracts",
    "load_observation",
]

_HOMES = {
    "Contract": "vllm_parity.observation",
    "Judgement": "vllm_parity.judge.findings",
    "Observation": "vllm_parity.observation",
    "assert_parity": "vllm_parity.parity",
    "explain": "vllm_parity.judge.explain",
    "judge": "vllm_parity.judge",
    "load_contracts": "vllm_parity.contracts",
    "load_observation": "vllm_parity.observation",
}


def __getattr__(name: str) -> object:
    """Import a public name when it is first asked for: numpy is not for everyone's startup."""
    if name not in _HOMES:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    module = importlib.import_module(_HOMES[name])
    # The package `judge` can be called: import would put it in this place sooner or later anyway.
    value = module if name == "judge" else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
