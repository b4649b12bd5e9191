"""Runs spread over workers of pytest-xdist: a GPU for each, one run of all."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from vllm_parity import load_observation
from vllm_parity.engine.pool import key_of
from vllm_parity.families import load_config, make_plan
from vllm_parity.matrix import Models

if TYPE_CHECKING:
    from collections.abc import Callable

    Run = Callable[..., subprocess.CompletedProcess[str]]

MACHINES = Path(__file__).parents[1] / "data" / "machines"
FIRST = "GPU-5c1a0d52-7e0b-9d5e-3a1c-0f6c2b7e9a41"
SECOND = "GPU-b8f3c6d9-24a7-1e0f-8c52-6d9e4f1a7b03"
# The fake vLLM does not know what the project's waivers say of the real one.
NO_WAIVERS = ("--waivers", os.devnull)
CUDA = (
    *("--platform", "cuda", "--models", "built-in", "--tier", "pr", "--execution", "eager"),
    *NO_WAIVERS,
)
TWO = ("-n", "2", "--machine", str(MACHINES / "h100-x2.json"))
SPEC = (*CUDA, "--family", "spec_decode")


def summary(tmp_path: Path, name: str = "run") -> dict[str, Any]:
    (path,) = (tmp_path / "results").glob(f"*/meta/{name}.jsonl")
    loaded: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return loaded


def gpus(tmp_path: Path) -> dict[str, str]:
    """Return for each cell's record the GPU that its engine could see."""
    (folder,) = (tmp_path / "results").iterdir()
    loaded = [load_observation(path) for path in folder.glob("*.json")]
    return {one.cell: one.environment.get("gpu", "none") for one in loaded}


def test_each_worker_has_its_gpu_and_each_engine_its_worker(run: Run, tmp_path: Path) -> None:
    done = run(*CUDA, *TWO)
    assert done.returncode == 0, done.stdout
    seen = gpus(tmp_path)
    assert set(seen.values()) == {FIRST, SECOND}
    assert f"{len(seen)} of {len(seen)} cells green; worst: pass" in done.stdout
    config = load_config(None, Models.BUILT_IN)
    by_engine = defaultdict(set)
    for cell in config.matrix.cells:
        if cell.id in seen:
            plan = make_plan(cell, config)
            by_engine[key_of(plan.variables, plan.reference.engine)].add(seen[cell.id])
    assert {len(one) for one in by_engine.values()} == {1}


def test_workers_make_one_run_with_the_sum_of_what_they_started(run: Run, tmp_path: Path) -> None:
    done = run(*CUDA, *TWO)
    whole, *parts = (summary(tmp_path, name) for name in ("run", "run-gw0", "run-gw1"))
    assert sorted(whole["cells"]) == sorted(cell for part in parts for cell in part["cells"])
    assert {cell["verdict"] for cell in whole["cells"].values()} <= {"pass", "diverged"}
    for name in ("hosts", "engines", "servers"):
        assert whole["started"][name] == sum(part["started"].get(name, 0) for part in parts)
    # What workers share is a kind of host alone.
    assert whole["started"]["engines"] == whole["distinct"]["engines"]
    assert whole["started"]["servers"] == whole["distinct"]["servers"]
    assert "  on 2 workers, each with hosts of its own" in done.stdout
    lines = [line for line in done.stdout.splitlines() if line.startswith(("gw0 ", "gw1 "))]
    assert len(lines) == len(whole["cells"])
    assert list((tmp_path / "results").glob("*/meta/gw1-host-1.log"))


@pytest.mark.parametrize(
    ("machine", "arguments", "code", "message"),
    [
        ("no-gpu", CUDA, 4, "-n 2: each worker needs a GPU of cuda: there is none; take fewer"),
        ("rtx4090", CUDA, 4, "-n 2: 2 workers would share NVIDIA GeForce RTX 4090"),
        ("h100-x2", ("--tier", "smoke"), 4, "the chosen cells run on the processors"),
        ("h100-x2", ("--tier", "pr"), 2, "several platforms (cpu, cuda, rocm), and each worker"),
        ("h100-x2", (*CUDA, "--dist", "each"), 2, "--dist each: cells with the same engine"),
        ("h100-x2", ("--platform", "cud"), 2, "--platform: unknown value 'cud'"),
        ("h100-x2", (), 2, "pytest-xdist: nothing says which cells"),
    ],
)
def test_workers_without_room_on_a_gpu_are_refused(
    run: Run, tmp_path: Path, machine: str, arguments: tuple[str, ...], code: int, message: str
) -> None:
    done = run(*arguments, "-n", "2", "--machine", str(MACHINES / f"{machine}.json"))
    assert done.returncode == code, done.stdout
    assert done.stdout.count(message) == 1
    assert ".py:" not in done.stdout + done.stderr
    assert not (tmp_path / "results").exists()


def test_n_auto_is_as_many_workers_as_gpus(run: Run) -> None:
    done = run(*SPEC, "-n", "auto", "--machine", str(MACHINES / "h100-x2.json"))
    assert done.returncode == 0, done.stdout
    assert "created: 2/2 workers" in done.stdout
    done = run("--cell", "cpu-streaming-text-eager-apc_off", "-n", "auto")
    assert done.returncode == 0, done.stdout
    assert "created: 1/1 worker" in done.stdout


def test_what_a_worker_gives_up_over_is_one_message(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VLLM_NO_USAGE_STATS", "0")
    done = run(*SPEC, *TWO)
    assert done.returncode == 2, done.stdout
    assert done.stdout.count("vllm-parity: VLLM_NO_USAGE_STATS=0 is set here") == 1


def test_cell_whose_worker_crashed_is_an_error_and_its_gpu_goes_to_the_next(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "killer.py").write_text(
        "import os\n"
        "def pytest_runtest_call(item):\n"
        "    if 'ngram-raw_logprobs-eager-apc_off' in item.name:\n"
        "        os._exit(9)\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    done = run("-p", "killer", *SPEC, *TWO)
    assert done.returncode == 7, done.stdout
    whole = summary(tmp_path)
    lost = [name for name, cell in whole["cells"].items() if cell["verdict"] == "error"]
    assert lost == ["cuda-spec_decode-ngram-raw_logprobs-eager-apc_off"]
    assert len(whole["cells"]) == len(gpus(tmp_path)) > 1
    crashed = re.search(r"^replacing crashed worker gw([01])$", done.stdout, re.MULTILINE)
    assert crashed
    number = int(crashed[1])
    successors = re.findall(r"^gw2 +(\S+)", done.stdout, re.MULTILINE)
    assert {gpus(tmp_path)[name] for name in successors} == {(FIRST, SECOND)[number]}
    assert f"died: pytest-xdist's worker gw{number} ended while it ran this cell" in done.stdout
    assert f"because gw{number} ended (Not properly terminated)" in done.stdout


def test_run_goes_on_where_each_worker_crashed(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killer = "import os\ndef pytest_runtest_call(item):\n    if 'ngram' in item.name: os._exit(9)\n"
    (tmp_path / "killer.py").write_text(killer)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    done = run("-p", "killer", *SPEC, *TWO)
    assert done.returncode == 7, done.stdout
    verdicts = {name: cell["verdict"] for name, cell in summary(tmp_path)["cells"].items()}
    assert {"ngram" in name for name, verdict in verdicts.items() if verdict == "error"} == {True}
    assert {"ngram" in name for name, verdict in verdicts.items() if verdict == "pass"} == {False}


def test_suite_without_cells_is_left_alone(
    command: Callable[..., list[str]], tmp_path: Path
) -> None:
    suite = tmp_path / "suite"
    suite.mkdir()
    (suite / "test_plain.py").write_text(
        "import pytest\n@pytest.mark.parametrize('n', range(8))\ndef test_it(n): pass\n"
    )
    python, *_ = command()
    done = subprocess.run(
        [python, "-m", "pytest", "-n", "2", "-v"],
        cwd=suite,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "scheduling tests via LoadScheduling" in done.stdout
    assert "8 passed" in done.stdout
    assert "parity" not in done.stdout.replace("vllm-parity-", "")
    assert sys.executable == python
