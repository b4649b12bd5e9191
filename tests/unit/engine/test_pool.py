"""A pool starts each process and engine once, lets be tried again once, and says why."""

from __future__ import annotations

import os
import signal
import socket
import time
from typing import TYPE_CHECKING, Any

import pytest

from vllm_parity.engine.pool import Pool
from vllm_parity.engine.request import Request
from vllm_parity.engine.server import free_port
from vllm_parity.errors import ConfigError, EngineError, Failure, StartError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SETTINGS: dict[str, Any] = {"model": "m", "enforce_eager": True}
OTHER: dict[str, Any] = {"model": "m", "enforce_eager": False}
REQUEST = Request(id="a", prompt="abc", sampling={"max_tokens": 2})
CHAT = {"model": "model", "messages": [{"role": "user"}], "max_completion_tokens": 3}


@pytest.fixture
def pool(fake_vllm: Path, tmp_path: Path) -> Iterator[Pool]:
    assert not fake_vllm.exists()
    pool = Pool(logs=tmp_path, resolve=dict)
    yield pool
    pool.close()


def soon() -> float:
    return time.monotonic() + 20


def test_same_settings_share_an_engine_and_others_share_its_host(pool: Pool) -> None:
    first = pool.engine({}, SETTINGS, deadline=soon())
    assert pool.engine({}, dict(reversed(SETTINGS.items())), deadline=soon()) is first
    other = pool.engine({}, OTHER, deadline=soon())
    assert other.host is first.host
    assert first.generate([REQUEST], together=True).outputs
    assert pool.started == {"hosts": 1, "engines": 2}
    assert pool.incidents == []


THIRD: dict[str, Any] = {"model": "m", "seed": 3}


def limited(tmp_path: Path, **limits: Any) -> Pool:
    return Pool(logs=tmp_path, resolve=dict, warm=2, **limits)


def test_engines_end_together_where_one_more_is_wanted_than_may_be_warm(
    fake_vllm: Path, tmp_path: Path
) -> None:
    assert not fake_vllm.exists()
    pool = limited(tmp_path)
    try:
        first = pool.engine({}, SETTINGS, deadline=soon())
        pool.engine({}, OTHER, deadline=soon())
        third = pool.engine({}, THIRD, deadline=soon())
        assert third.host is first.host
        assert third.generate([REQUEST], together=True).outputs
        again = pool.engine({}, SETTINGS, deadline=soon())
        assert again is not first
        assert again.generate([REQUEST], together=True).outputs
        assert pool.started == {"hosts": 1, "engines": 4}
        assert pool.incidents == []
    finally:
        pool.close()


@pytest.mark.parametrize(
    ("fault", "left_bytes", "incident"),
    [
        ("", -1.0, "a host was replaced: engines that ended left 0.0 GiB of the GPU allocated"),
        ("shutdown 1 refuse", 1.0, "a host was replaced: its engines did not end"),
        ("shutdown 1 die", 1.0, "a host was replaced: the engine host was killed by SIGKILL"),
    ],
)
def test_host_is_replaced_where_its_engines_leave_too_much_or_do_not_end(
    fake_vllm: Path, tmp_path: Path, fault: str, left_bytes: float, incident: str
) -> None:
    if fault:
        fake_vllm.write_text(fault)
    pool = limited(tmp_path, left_bytes=left_bytes)
    try:
        for settings in (SETTINGS, OTHER, THIRD):
            engine = pool.engine({}, settings, deadline=soon())
        assert engine.generate([REQUEST], together=True).outputs
        assert pool.started == {"hosts": 2, "engines": 3}
        assert [one[: len(incident)] for one in pool.incidents] == [incident]
    finally:
        pool.close()


def test_other_variables_are_another_host(pool: Pool) -> None:
    first = pool.engine({}, SETTINGS, deadline=soon())
    second = pool.engine({"OMP_NUM_THREADS": "1"}, SETTINGS, deadline=soon())
    assert second.host is not first.host
    assert pool.started == {"hosts": 2, "engines": 2}


def test_dead_host_is_replaced_and_its_engines_with_it(pool: Pool) -> None:
    engine = pool.engine({}, SETTINGS, deadline=soon())
    os.kill(engine.host.process.pid, signal.SIGKILL)
    with pytest.raises(EngineError):
        engine.generate([REQUEST], together=True)
    again = pool.engine({}, SETTINGS, deadline=soon())
    assert again.generate([REQUEST], together=True).outputs
    assert pool.started == {"hosts": 2, "engines": 2}
    (incident,) = pool.incidents
    assert "killed by SIGKILL" in incident


@pytest.mark.parametrize(
    ("fault", "message", "kind"),
    [
        ("refuse", "ValueError: fake fault in start", Failure.REFUSED),
        ("die", "killed by SIGKILL during 'start'", Failure.DIED),
        ("hang", "'start' did not finish in the time limit", Failure.TIMEOUT),
    ],
)
def test_start_that_fails_once_may_be_tried_again_in_a_fresh_host(
    pool: Pool, fake_vllm: Path, fault: str, message: str, kind: Failure
) -> None:
    fake_vllm.write_text(f"start 1 {fault}")
    with pytest.raises(StartError, match=message) as caught:
        pool.engine({}, SETTINGS, deadline=time.monotonic() + (1 if fault == "hang" else 20))
    assert caught.value.kind is kind
    assert pool.engine({}, SETTINGS, deadline=soon()).generate([REQUEST], together=True).outputs
    assert pool.started == {"hosts": 2, "engines": 2}
    first, second = pool.incidents
    assert first.startswith("an engine did not start: ")
    assert second.startswith("a host was replaced: ")


def test_start_that_fails_twice_is_not_tried_a_third_time(pool: Pool, fake_vllm: Path) -> None:
    fake_vllm.write_text("start 1 refuse always")
    with pytest.raises(StartError):
        pool.engine({}, SETTINGS, deadline=soon())
    errors = []
    for _ in range(2):
        with pytest.raises(EngineError) as caught:
            pool.engine({}, SETTINGS, deadline=soon())
        errors.append(caught.value)
    assert errors[0] is errors[1]
    assert type(errors[0]) is EngineError
    assert pool.started == {"hosts": 2, "engines": 2}


def test_next_engine_after_a_failed_start_gets_a_fresh_host(pool: Pool, fake_vllm: Path) -> None:
    fake_vllm.write_text("start 1 refuse")
    with pytest.raises(StartError):
        pool.engine({}, SETTINGS, deadline=soon())
    assert pool.engine({}, OTHER, deadline=soon()).generate([REQUEST], together=True).outputs
    assert pool.started == {"hosts": 2, "engines": 2}


def test_setting_that_did_not_take_effect_is_an_error(pool: Pool) -> None:
    with pytest.raises(EngineError, match="kv_cache_dtype: asked for 'fp8', but the engine runs"):
        pool.engine({}, {**SETTINGS, "kv_cache_dtype": "fp8"}, deadline=soon())


def test_variable_that_did_not_reach_the_engine_is_an_error(pool: Pool) -> None:
    with pytest.raises(EngineError, match="a setting did not take effect: NOBODY_READS was lost"):
        pool.engine({"NOBODY_READS": "1"}, SETTINGS, deadline=soon())


def test_server_answers_plain_and_streamed(pool: Pool) -> None:
    pool.boot({}, SETTINGS)
    server = pool.server({}, SETTINGS)
    assert pool.server({}, SETTINGS) is server
    answer = server.chat(CHAT)
    events, done, after_done = server.chat_stream(CHAT)
    text = "".join(e["choices"][0]["delta"]["content"] for e in events if e["choices"])
    assert text == answer["choices"][0]["message"]["content"]
    assert (done, after_done) == (True, 0)
    assert pool.started == {"servers": 1}


def test_server_that_dies_at_boot_may_be_tried_again(pool: Pool, fake_vllm: Path) -> None:
    fake_vllm.write_text("boot 1 die")
    with pytest.raises(StartError, match="was killed by SIGKILL before it answered"):
        pool.server({}, SETTINGS)
    assert pool.server({}, SETTINGS).chat(CHAT)["choices"]
    assert pool.started == {"servers": 2}
    (incident,) = pool.incidents
    assert incident.startswith("a server did not start: ")


def test_server_that_never_starts_is_an_error_that_is_remembered(
    pool: Pool, fake_vllm: Path
) -> None:
    fake_vllm.write_text("boot 1 refuse always")
    kinds = []
    for _ in range(3):
        with pytest.raises(EngineError, match="fake fault in boot") as caught:
            pool.server({}, SETTINGS)
        kinds.append((type(caught.value), caught.value.kind))
    assert kinds == [
        (StartError, Failure.DIED),
        (EngineError, Failure.DIED),
        (EngineError, Failure.DIED),
    ]
    assert pool.started == {"servers": 2}


def test_server_whose_port_was_taken_meanwhile_may_be_tried_on_the_next(
    fake_vllm: Path, tmp_path: Path
) -> None:
    assert not fake_vllm.exists()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        pool = Pool(logs=tmp_path, resolve=dict, server_port=port)
        try:
            with pytest.raises(StartError, match=f"port {port} of 127.0.0.1 cannot be used"):
                pool.server({}, SETTINGS)
            assert pool.server({}, SETTINGS).chat(CHAT)["choices"]
        finally:
            pool.close()


def test_server_that_dies_later_is_replaced(pool: Pool, fake_vllm: Path) -> None:
    server = pool.server({}, SETTINGS)
    fake_vllm.write_text("chat 1 die")
    with pytest.raises(EngineError, match="the server was killed by SIGKILL"):
        server.chat(CHAT)
    assert pool.server({}, SETTINGS).chat(CHAT)["choices"]
    assert "a server was killed by SIGKILL and was replaced" in pool.incidents


def test_slow_answer_is_a_timeout_and_the_next_server_is_fresh(pool: Pool, fake_vllm: Path) -> None:
    server = pool.server({}, SETTINGS)
    fake_vllm.write_text("chat 1 hang")
    server.deadline = time.monotonic() + 0.5
    with pytest.raises(EngineError, match="had no answer in time"):
        server.chat(CHAT)
    assert pool.server({}, SETTINGS).chat(CHAT)["choices"]
    assert pool.started == {"servers": 2}


def test_retired_server_ends_and_whoever_asks_again_gets_another(pool: Pool) -> None:
    server = pool.server({}, SETTINGS)
    pool.retire({}, SETTINGS)
    assert server.process.exit_status() is not None
    pool.retire({}, SETTINGS)
    pool.retire({}, {**SETTINGS, "seed": 7})
    assert pool.server({}, SETTINGS).chat(CHAT)["choices"]
    assert pool.started == {"servers": 2}
    assert pool.incidents == []


def test_closing_ends_a_server_that_still_boots(pool: Pool, fake_vllm: Path) -> None:
    fake_vllm.write_text("boot 1 hang")
    pool.boot({}, SETTINGS)
    while pool.started["servers"] == 0:
        time.sleep(0.01)
    started = time.monotonic()
    pool.close()
    assert time.monotonic() - started < 10


def test_wanted_port_that_is_in_use_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=f"port {port} of 127.0.0.1 cannot be used"):
            free_port(port)
    assert free_port(port) == port
    assert free_port() > 0
