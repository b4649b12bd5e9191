"""What pytest-xdist's controller and workers hand each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest

_KEY = "vllm_parity"


def give(node: Any, *, run_id: str, number: int, variables: dict[str, str]) -> None:  # noqa: ANN401
    """On the controller: hand a worker its part of the run, and the variables of its device."""
    node.workerinput[_KEY] = {"run_id": run_id, "number": number, "variables": variables}


def given(config: pytest.Config) -> dict[str, Any] | None:
    """On a worker: return what :func:`give` handed over; None elsewhere."""
    found: dict[str, Any] | None = getattr(config, "workerinput", {}).get(_KEY)
    return found


def give_back(config: pytest.Config, told: dict[str, Any]) -> None:
    """On a worker: tell the controller what was started."""
    config.workeroutput[_KEY] = told  # type: ignore[attr-defined]


def given_back(node: Any) -> dict[str, Any]:  # noqa: ANN401 - xdist's WorkerController
    """On the controller: return what a worker told; nothing where it crashed."""
    told: dict[str, Any] = getattr(node, "workeroutput", {}).get(_KEY, {})
    return told
