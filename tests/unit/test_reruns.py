"""What fails to start is tried once more, and both attempts are kept; a verdict never is."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable

    Run = Callable[..., subprocess.CompletedProcess[str]]

MACHINES = Path(__file__).parents[1] / "data" / "machines"
TEXT = "cpu-batch_invariance-text-eager-apc_off"
CHAT = "cpu-streaming-text-eager-apc_off"


def summary(tmp_path: Path) -> dict[str, Any]:
    (path,) = (tmp_path / "results").glob("*/meta/run.jsonl")
    loaded: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return loaded


def attempts(tmp_path: Path) -> list[str]:
    return sorted(path.name for path in (tmp_path / "results").glob("*/meta/attempts/*"))


@pytest.mark.parametrize(
    ("cell", "fault", "started", "incident"),
    [
        (TEXT, "start 1 refuse", "2 hosts", "an engine did not start: ValueError: fake fault"),
        (TEXT, "start 1 die", "2 hosts", "an engine did not start: the engine host was killed"),
        (CHAT, "boot 1 die", "2 servers", "a server did not start: the server was killed"),
        (CHAT, "boot 1 refuse", "2 servers", "a server did not start: the server exited with 1"),
    ],
)
def test_start_that_fails_once_is_tried_again_and_both_attempts_are_kept(
    run: Run, tmp_path: Path, fake_vllm: Path, cell: str, fault: str, started: str, incident: str
) -> None:
    fake_vllm.write_text(fault)
    done = run("--cell", cell)
    assert done.returncode == 0, done.stdout
    assert f"{started} for 1 distinct" in done.stdout
    assert f"because {incident}" in done.stdout
    assert ": did not start, once more: " in done.stdout
    assert f"tried 2 times: {cell}: first attempt in " in done.stdout
    assert re.search(r"= 1 passed, .*1 rerun in", done.stdout)
    assert "1 of 1 cells green" in done.stdout
    assert attempts(tmp_path) == [f"{cell}-1.json"]
    assert summary(tmp_path)["cells"][cell]["attempts"] == 2


def test_start_that_fails_twice_is_red_for_every_cell_that_needs_it(
    run: Run, tmp_path: Path, fake_vllm: Path
) -> None:
    fake_vllm.write_text("start 1 refuse always")
    done = run("--cell", TEXT, "--cell", f"{TEXT}-nudged", "--force-reruns", "3")
    assert done.returncode == 7, done.stdout
    assert "0 of 2 cells green; worst: error" in done.stdout
    assert re.search(r"= 2 failed, .*1 rerun in", done.stdout)
    assert summary(tmp_path)["started"] == {"hosts": 2, "engines": 2}
    assert attempts(tmp_path) == [f"{TEXT}-1.json"]


@pytest.mark.parametrize(
    "option",
    [
        ("--reruns", "3"),
        ("--force-reruns", "3"),
        ("--reruns", "3", "--reruns-mode", "append"),
        ("--reruns", "3", "--only-rerun", "."),
    ],
)
@pytest.mark.parametrize(
    ("variable", "code", "verdict"),
    [("VARIANT", 1, "diverged"), ("NUMB", 5, "unverified"), ("FAULT", 7, "error")],
)
def test_verdict_is_never_rerun_whatever_the_options(
    run: Run,
    tmp_path: Path,
    fake_vllm: Path,
    monkeypatch: pytest.MonkeyPatch,
    option: tuple[str, ...],
    variable: str,
    code: int,
    verdict: str,
) -> None:
    if variable == "FAULT":
        fake_vllm.write_text("generate 3 die")
    else:
        monkeypatch.setenv(f"FAKE_VLLM_{variable}", "1")
    done = run("--cell", TEXT, "--cell", f"{TEXT}-nudged", *option)
    assert done.returncode == code, done.stdout
    assert f"worst: {verdict}" in done.stdout
    assert not re.search(r"\d rerun|once more", done.stdout)
    assert not attempts(tmp_path)


def test_without_the_plugin_nothing_is_retried_and_that_is_said(run: Run, fake_vllm: Path) -> None:
    fake_vllm.write_text("start 1 refuse")
    done = run("--cell", TEXT, "-p", "no:rerunfailures")
    assert done.returncode == 7, done.stdout
    assert "It was not tried again: that takes pytest-rerunfailures" in done.stdout


def test_retry_on_a_worker_is_recorded_by_the_controller(
    run: Run, tmp_path: Path, fake_vllm: Path
) -> None:
    fake_vllm.write_text("start 1 refuse")
    machine = str(MACHINES / "h100-x2.json")
    cells = ("--cell", "*-text-*-eager-*", "--platform", "cuda", "--tier", "pr")
    built_in = ("--models", "built-in", "--waivers", os.devnull)
    done = run(*cells, *built_in, "-n", "2", "--machine", machine)
    assert done.returncode == 0, done.stdout
    whole = summary(tmp_path)
    assert max(cell["attempts"] for cell in whole["cells"].values()) == 2
    assert len(attempts(tmp_path)) == 1
    assert any("an engine did not start" in one for one in whole["incidents"])
    assert "1 rerun" in done.stdout
