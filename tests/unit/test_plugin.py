"""Whole runs of pytest over the parity tests, with the fake vLLM in place of the real one."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from vllm_parity import load_observation

if TYPE_CHECKING:
    from collections.abc import Callable

    Run = Callable[..., subprocess.CompletedProcess[str]]

ROOT = Path(__file__).parents[2]
TEXT = "cpu-batch_invariance-text-eager-apc_off"


def observations(tmp_path: Path) -> dict[str, str]:
    """Load every record of the one run there is; return what each error says."""
    (folder,) = (tmp_path / "results").iterdir()
    loaded = [load_observation(path) for path in sorted(folder.glob("*.json"))]
    assert all(one.environment["vllm"] == "0.0.fake" for one in loaded if not one.error)
    return {one.cell: one.error.message if one.error else "" for one in loaded}


def test_smoke_runs_every_cell_and_counts_what_it_started(run: Run, tmp_path: Path) -> None:
    done = run("--tier", "smoke")
    assert done.returncode == 0, done.stdout
    assert "21 of 21 cells green; worst: pass" in done.stdout
    assert (
        "started: 1 hosts for 1 distinct environments, 14 engines for 14 distinct settings,"
        " 2 servers for 2 distinct server settings" in done.stdout
    )
    assert len(observations(tmp_path)) == 21
    assert "not_run" not in done.stdout
    (line,) = (tmp_path / "results").glob("*/meta/run.jsonl")
    summary = json.loads(line.read_text())
    assert summary["worst"] == "pass"
    assert len(summary["cells"]) == 21


def test_cell_forced_to_eager_mode_is_unverified_and_says_so(run: Run, tmp_path: Path) -> None:
    cell = "cpu-batch_invariance-text-compiled-apc_off"
    done = run("--cell", cell, "--enforce-eager", "--engine", "max_num_seqs=6")
    assert done.returncode == 5, done.stdout
    assert "compiled_graphs is required of the candidate, and it is 0" in done.stdout
    (path,) = (tmp_path / "results").glob(f"*/{cell}.json")
    record = json.loads(path.read_text())
    forced = {"enforce_eager": True, "max_num_seqs": 6}
    assert json.loads(record["environment"]["forced"]) == forced
    for arm in ("reference", "candidate", "control"):
        assert forced.items() <= record["arms"][arm]["knobs"].items()


def test_forced_argument_that_is_none_is_refused(run: Run) -> None:
    done = run("--tier", "smoke", "--engine", "enforce_eager")
    assert done.returncode == 2, done.stdout
    assert "vllm-parity: --engine enforce_eager: expected NAME=VALUE" in done.stdout


def test_killed_host_is_an_error_of_its_cell_alone(
    run: Run, tmp_path: Path, fake_vllm: Path
) -> None:
    # The first cell makes nine calls: four requests alone, twice, and all together.
    fake_vllm.write_text("generate 12 die")
    done = run("--tier", "smoke", "--family", "batch_invariance")
    assert done.returncode == 7, done.stdout
    assert "7 of 8 cells green; worst: error" in done.stdout
    assert "because a host was replaced: the engine host was killed by SIGKILL" in done.stdout
    errors = {cell: error for cell, error in observations(tmp_path).items() if error}
    assert list(errors) == ["cpu-batch_invariance-text-eager-apc_off-nudged"]
    assert "the fault: die" in errors["cpu-batch_invariance-text-eager-apc_off-nudged"]


def test_negative_control_that_finds_nothing_is_red(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_VLLM_NUMB", "1")
    done = run("--cell", TEXT, "--cell", f"{TEXT}-nudged")
    assert done.returncode == 5, done.stdout
    assert "This is a negative control" in done.stdout
    assert "1 of 2 cells green; worst: unverified" in done.stdout


def test_divergence_is_red_and_says_how_to_see_it_again(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_VLLM_VARIANT", "1")
    done = run("--cell", TEXT)
    assert done.returncode == 1, done.stdout
    assert f'nox -s "cpu_batch_invariance(eager)" -- --cell {TEXT}' in done.stdout
    assert "Traceback" not in done.stdout


def test_live_line_names_the_stages_of_a_cell(run: Run) -> None:
    (line,) = (
        line for line in run("--cell", TEXT).stdout.splitlines() if "starting a host" in line
    )
    assert line.startswith(TEXT)
    assert line.index("starting an engine") < line.index("generating") < line.index("pass,")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--tier", "smok"],
            "--tier: unknown value 'smok'; allowed: smoke, pr, nightly, full; did you",
        ),
        (["--family", "video"], "--family: unknown value 'video'; allowed: batch_invariance"),
        (["--cell", "cpu-x"], "--cell: unknown cell 'cpu-x'; allowed: "),
        (
            ["--platform", "cpu", "--execution", "graph"],
            "no cell of matrix.toml has platform cpu, execution graph",
        ),
        (["--server-port", "99999"], "99999 is no port: they go from 1 to 65535"),
        (["--matrix", "nowhere.toml"], "nowhere.toml: no such configuration file"),
        (["--results", "/proc/none"], "/proc/none/"),
    ],
)
def test_wrong_option_is_one_message_and_exit_code_2(
    run: Run, arguments: list[str], message: str
) -> None:
    done = run(*arguments)
    assert done.returncode == 2
    assert f"! _pytest.outcomes.Exit: vllm-parity: {message}" in done.stdout
    assert done.stdout.count(message) == 1
    assert ".py:" not in done.stdout + done.stderr


def test_model_that_is_not_there_is_named(run: Run, tmp_path: Path) -> None:
    text = (ROOT / "configs" / "matrix.toml").read_text(encoding="utf-8")
    matrix = tmp_path / "matrix.toml"
    matrix.write_text(text.replace('"tiny-qwen3"', '"tiny-qwen4"', 1), encoding="utf-8")
    done = run("--matrix", str(matrix))
    assert done.returncode == 2
    assert "unknown model 'tiny-qwen4'; " in done.stdout


def test_variable_that_is_set_otherwise_is_refused(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    done = run("--cell", TEXT)
    assert done.returncode == 2
    assert (
        "OMP_NUM_THREADS=7 is set here, but the cells chosen need OMP_NUM_THREADS=2" in done.stdout
    )


def test_port_in_use_is_refused_before_anything_starts(run: Run, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        done = run("--server-port", str(taken.getsockname()[1]))
    assert done.returncode == 2
    assert "cannot be used (Address already in use); name another with --server-port" in done.stdout
    assert not (tmp_path / "results").exists()


def test_every_server_port_is_checked_before_anything_starts(run: Run, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        done = run("--server-port", str(taken.getsockname()[1] - 1))
    assert done.returncode == 2
    assert "cannot be used (Address already in use)" in done.stdout
    assert not (tmp_path / "results").exists()


def test_collecting_starts_nothing_and_imports_no_vllm(
    command: Callable[..., list[str]], tmp_path: Path
) -> None:
    python, *rest = command("--collect-only", "-q")
    done = subprocess.run(
        [python, "-X", "importtime", *rest], cwd=ROOT, capture_output=True, text=True, check=True
    )
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "vllm_parity.matrix" in imported
    assert not {name for name in imported if name.partition(".")[0] in {"vllm", "torch"}}
    assert TEXT in done.stdout
    assert not (tmp_path / "results").exists()


def test_interrupt_leaves_no_process(command: Callable[..., list[str]], fake_vllm: Path) -> None:
    fake_vllm.write_text("generate 2 hang")
    with subprocess.Popen(
        command("--tier", "smoke"), cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as process:
        while fake_vllm.exists():
            time.sleep(0.05)
        children = _children(process.pid)
        process.send_signal(signal.SIGINT)
        assert "KeyboardInterrupt" in process.communicate(timeout=60)[0]
    assert len(children) >= 1
    assert not [pid for pid in children if Path(f"/proc/{pid}").exists()]


def _children(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8")
    return [int(child) for child in text.split()]


def test_plugin_can_be_named_where_the_project_is_not_installed(
    command: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    words = command("-p", "vllm_parity.plugin", "--collect-only", "--tier", "smoke")
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "21 tests collected" in done.stdout


# What this machine cannot run

NO_GPU = str(ROOT / "tests" / "data" / "machines" / "no-gpu.json")
TOOLS = ("--family", "streaming", "--prefix-cache", "off", "--execution", "eager")


def test_tier_lists_what_cannot_run_here_with_the_reason(run: Run, tmp_path: Path) -> None:
    done = run("--tier", "pr", "--machine", NO_GPU, *TOOLS)
    assert done.returncode == 3, done.stdout
    cell = "rocm-streaming-text-qwen3-1.7b-eager-apc_off"
    assert f"not run: {cell}: needs an AMD GPU, and there is none" in done.stdout
    (path,) = (tmp_path / "results").glob(f"*/{cell}.json")
    assert load_observation(path).not_run == "needs an AMD GPU, and there is none"
    assert "cpu-streaming-text-eager-apc_off" in done.stdout
    assert "worst: not_run" in done.stdout


def test_named_cell_that_cannot_run_here_is_4_before_anything_starts(
    run: Run, tmp_path: Path
) -> None:
    done = run("--cell", "rocm-streaming-text-*", "--machine", NO_GPU)
    assert done.returncode == 4, done.stdout
    assert "needs an AMD GPU, and there is none" in done.stdout
    assert "vllm-parity plan --cell" in done.stdout
    assert not (tmp_path / "results").exists()


def test_waived_not_run_is_green(run: Run, tmp_path: Path) -> None:
    waivers = tmp_path / "waivers.toml"
    waivers.write_text(
        '[[waivers]]\ncell = "[cr]*-streaming-*"\nverdict = "not_run"\nreason = "no GPU here"\n'
        'issue = "https://example.org/1"\nends = 2999-01-01\n',
        encoding="utf-8",
    )
    done = run("--tier", "pr", "--machine", NO_GPU, *TOOLS, "--waivers", str(waivers))
    assert done.returncode == 6, done.stdout
    assert "waived as not_run, but passes: take the waiver out" in done.stdout
    assert "not_run (see below)" in done.stdout
    assert "needs an AMD GPU, and there is none (waived until 2999-01-01: https://ex" in done.stdout


@pytest.mark.parametrize(
    "mark", ['family="batch"', '"streaming"', "", 'family="streaming", tier="pr"']
)
def test_mark_is_checked(command: Callable[..., list[str]], tmp_path: Path, mark: str) -> None:
    path = tmp_path / "test_wrong.py"
    path.write_text(f"import pytest\n@pytest.mark.parity({mark})\ndef test(cell, parity): ...\n")
    words = [word for word in command("--tier", "smoke") if word != "tests/parity"]
    done = subprocess.run(
        [*words, str(path)], cwd=ROOT, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 2, done.stdout
    assert "must be parity(family=NAME), of batch_invariance, spec_decode, streaming" in done.stdout
