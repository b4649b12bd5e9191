"""A host does what it is told, and says in one error what went wrong."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from vllm_parity.engine.host import Host
from vllm_parity.engine.offline import OfflineEngine
from vllm_parity.engine.request import Request
from vllm_parity.errors import EngineError, Failure

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SETTINGS: dict[str, Any] = {"model": "m", "enforce_eager": True, "seed": 7}
REQUESTS = [
    Request(id=name, prompt=name * 3, sampling={"max_tokens": 4}, media=()) for name in ("a", "bc")
]


@pytest.fixture
def host(fake_vllm: Path, tmp_path: Path) -> Iterator[Host]:
    assert not fake_vllm.exists()
    host = Host(variables={"OMP_NUM_THREADS": "3"}, log=tmp_path / "host.log")
    yield host
    host.close()


def start(host: Host) -> OfflineEngine:
    return OfflineEngine(host, "k", host.ask("start", key="k", settings=SETTINGS))


def test_engine_is_described_by_its_process(host: Host) -> None:
    engine = start(host)
    assert engine.knobs["seed"] == 7
    assert engine.knobs["env.OMP_NUM_THREADS"] == "3"
    assert engine.environment == {"vllm": "0.0.fake"}


def test_requests_run_together_or_alone(host: Host) -> None:
    engine = start(host)
    together = engine.generate(REQUESTS, together=True)
    alone = engine.generate(REQUESTS, together=False)
    assert together.outputs == alone.outputs
    assert [one["prompt_tokens"] for one in together.outputs] == [3, 6]
    assert (together.witness["max_running_requests"], together.witness["steps"]) == (2, 4)
    assert (alone.witness["max_running_requests"], alone.witness["steps"]) == (1, 8)


def test_nan_survives_the_way(host: Host) -> None:
    engine = start(host)
    engine.set_weight("w", 0, value=float("nan"))
    (output,) = engine.generate(REQUESTS[:1], together=True).outputs
    own = str(output["outputs"][0]["token_ids"][0])
    assert np.isnan(output["outputs"][0]["logprobs"][0][own])


def test_refusal_leaves_the_host_usable(host: Host, fake_vllm: Path) -> None:
    fake_vllm.write_text("start 1 refuse")
    with pytest.raises(EngineError, match="ValueError: fake fault in start") as caught:
        start(host)
    assert caught.value.kind is Failure.REFUSED
    assert start(host).knobs["seed"] == 7


def test_death_is_told_with_the_last_lines_of_the_log(host: Host, fake_vllm: Path) -> None:
    engine = start(host)
    fake_vllm.write_text("generate 1 die")
    with pytest.raises(EngineError, match="was killed by SIGKILL during 'generate'") as caught:
        engine.generate(REQUESTS, together=True)
    assert caught.value.kind is Failure.DIED
    assert "the fault: die" in str(caught.value)
    assert "SIGKILL" in str(host.failure)


def test_death_between_calls_is_told_at_the_next(host: Host) -> None:
    engine = start(host)
    os.kill(host.process.pid, signal.SIGKILL)
    with pytest.raises(EngineError, match="was killed by SIGKILL"):
        engine.generate(REQUESTS, together=True)


def test_hang_ends_at_the_deadline_and_leaves_no_process(host: Host, fake_vllm: Path) -> None:
    engine = start(host)
    fake_vllm.write_text("generate 1 hang")
    host.deadline = time.monotonic() + 0.5
    with pytest.raises(EngineError, match="did not finish in the time limit") as caught:
        engine.generate(REQUESTS, together=True)
    assert caught.value.kind is Failure.TIMEOUT
    with pytest.raises(ProcessLookupError):
        os.kill(host.process.pid, 0)


def test_weight_is_put_back_exactly(host: Host) -> None:
    engine = start(host)
    moved = engine.set_weight("w", 0, delta=0.1)
    assert moved == {"before": 0.0, "after": 0.1}
    assert engine.set_weight("w", 0, value=moved["before"])["after"] == 0.0
