"""Causes on real vLLM, on a CPU: what the numbers themselves have, and what was planted."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
FLOAT32 = "cpu-batch_invariance-text-eager-apc_off"
BFLOAT16 = f"{FLOAT32}-bfloat16"


def planted(folder: Path, variables: dict[str, str], suspects: dict[str, str]) -> list[str]:
    """Have vLLM load the fault, and the matrix set its variables; return the options for it."""
    shutil.copy(Path(__file__).with_name("planted.py"), folder)
    info = folder / "planted-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: planted\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[vllm.general_plugins]\nplanted = planted:register\n")
    matrix, listed = folder / "matrix.toml", folder / "suspects.toml"
    words = ", ".join(f'{name} = "{value}"' for name, value in variables.items())
    entry = f'\n[[settings]]\nwhen = {{ platform = "cpu" }}\nvariables = {{ {words} }}\nwhy = "x"\n'
    matrix.write_text((ROOT / "configs" / "matrix.toml").read_text() + entry)
    entries = [
        f'[[suspects]]\nname = "{name.lower()}"\nwhen = {{ platform = "cpu" }}\n'
        f'variables = {{ {name} = "{other}" }}\nmoves = ["env.{name}"]\nwhy = "x"\n'
        for name, other in suspects.items()
    ]
    usual = (ROOT / "configs" / "suspects.toml").read_text()
    listed.write_text("\n".join([*entries, usual]))
    return ["--matrix", str(matrix), "--suspects", str(listed)]


def run(folder: Path, command: str, *arguments: str) -> dict[str, Any]:
    """Run a command of vllm-parity beside vLLM, and return its JSON."""
    given = [*arguments, "--json", "--results", str(folder / "results")]
    done = subprocess.run(
        [sys.executable, "-m", "vllm_parity.cli", command, *given],
        env={**os.environ, "PYTHONPATH": str(folder), "PLANTED_COUNT": str(folder / "count")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def attribute(folder: Path, *arguments: str) -> dict[str, Any]:
    return run(folder, "attribute", *arguments)


def test_float32_shows_a_batch_and_bfloat16_does_not(tmp_path: Path) -> None:
    found = attribute(tmp_path, FLOAT32, "--suspect", "dtype", "--suspect", "max_num_seqs")
    assert (found["kind"], found["culprits"]) == ("single", [["dtype"]])
    # The records alone name it as well.
    grid = run(tmp_path, "attribute", str(tmp_path / "results" / "attribute" / FLOAT32))
    assert (grid["kind"], grid["culprits"]) == ("single", [["dtype"]])


def test_cpu_threads(tmp_path: Path) -> None:
    found = attribute(tmp_path, FLOAT32, "--suspect", "cpu_threads", "--suspect", "max_num_seqs")
    assert (found["kind"], found["culprits"]) == ("single", [["env.OMP_NUM_THREADS"]])


def test_two_settings_that_are_to_blame_only_together(tmp_path: Path) -> None:
    names = ("TORCH_PLANTED_A", "TORCH_PLANTED_B")
    options = planted(tmp_path, dict.fromkeys(names, "1"), dict.fromkeys(names, "0"))
    wanted = [
        "torch_planted_a",
        "torch_planted_b",
        "cpu_threads",
        "max_num_seqs",
        "chunked_prefill",
    ]
    chosen = [word for name in wanted for word in ("--suspect", name)]
    found = attribute(tmp_path, BFLOAT16, *options, *chosen)
    assert found["kind"] == "interaction"
    assert found["culprits"] == [[f"env.{name}" for name in names]]
    assert len(found["probes"]) - 1 <= 20


def test_a_candidate_that_answers_otherwise_in_three_of_ten_runs(tmp_path: Path) -> None:
    options = planted(tmp_path, {"TORCH_PLANTED_RATE": "0.3"}, {"TORCH_PLANTED_RATE": "0"})
    chosen = ["--suspect", "torch_planted_rate", "--suspect", "max_num_seqs"]
    found = attribute(tmp_path, BFLOAT16, *options, *chosen)
    assert found["kind"] == "nondeterministic"
    assert found["culprits"] == [["env.TORCH_PLANTED_RATE"]]
    low, high = found["controls"]["interval"]
    assert low < 0.3 < high


@pytest.fixture(autouse=True)
def _no_conflict(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the variables of the cells to the matrix."""
    for name in [name for name in os.environ if name.startswith("OMP_")]:
        monkeypatch.delenv(name)
