"""The noxfile has a session for each family that the matrix has, and says what is wrong with it."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from vllm_parity.hardware import probe_machine
from vllm_parity.matrix import Cell, Execution, Family, Platform, Tier, load_matrix

ROOT = Path(__file__).parents[2]


def nox(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run nox in a checkout, in this environment: nothing is installed or downloaded."""
    return subprocess.run(
        # What is run here needs no environment, so it needs no uv either.
        [sys.executable, "-m", "nox", "--no-venv", "-f", str(root / "noxfile.py"), *arguments],
        cwd=root,
        env=os.environ | {"NOX_SCRIPT_MODE": "none", "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


def listed(root: Path) -> list[dict[str, Any]]:
    """Return all sessions, not only those that run by default."""
    done = nox(root, "--list", "--json", "-k", "not nothing")
    assert done.returncode == 0, done.stderr
    sessions: list[dict[str, Any]] = json.loads(done.stdout)
    return sessions


@pytest.fixture(scope="module")
def sessions() -> list[dict[str, Any]]:
    return listed(ROOT)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a copy of what nox reads, to be changed."""
    for name in ("configs", "src"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("noxfile.py", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def change(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


MATRIX = load_matrix()


def session_of(cell: Cell) -> str:
    return f"{cell.platform}_{cell.family}({cell.execution})"


def matrix_sessions() -> list[str]:
    """Return the sessions that matrix.toml implies, each once, in the order of the axes."""
    implied = {session_of(cell) for cell in MATRIX.cells}
    every = itertools.product(Platform, Family, Execution)
    return [name for p, f, e in every if (name := f"{p}_{f}({e})") in implied]


def test_matrix_sessions_are_those_of_the_matrix(sessions: list[dict[str, Any]]) -> None:
    assert [one["session"] for one in sessions if one["tags"]] == matrix_sessions()


def test_other_sessions(sessions: list[dict[str, Any]]) -> None:
    others = {one["name"] for one in sessions if not one["tags"]}
    assert {"smoke", "tests", "lint", "lock"} <= others


def test_family_is_described_in_the_matrix(sessions: list[dict[str, Any]]) -> None:
    described = {one["session"]: one["description"] for one in sessions if one["tags"]}
    assert described == {session_of(c): MATRIX.families[c.family].brief for c in MATRIX.cells}


def test_every_session_says_what_it_does(sessions: list[dict[str, Any]]) -> None:
    assert all(one["description"] for one in sessions)


def test_tags_are_platform_family_execution_and_the_tiers_of_the_cells(
    sessions: list[dict[str, Any]],
) -> None:
    tags = {one["session"]: set(one["tags"]) for one in sessions if one["tags"]}
    for cell in MATRIX.cells:
        tiers = {tier for tier in Tier if cell.is_in(tier)}
        assert {cell.platform, cell.family, cell.execution} | tiers <= tags[session_of(cell)]
    for name, found in tags.items():
        cells = [cell for cell in MATRIX.cells if session_of(cell) == name]
        for tier in found & set(Tier):
            assert any(cell.is_in(Tier(tier)) for cell in cells)


@pytest.mark.parametrize("tier", Tier)
def test_tier_as_a_tag_chooses_the_sessions_with_its_cells(tier: Tier) -> None:
    done = nox(ROOT, "--list", "--json", "-t", tier)
    names = {one["session"] for one in json.loads(done.stdout)}
    assert names == {session_of(cell) for cell in MATRIX.cells if cell.is_in(tier)}


def test_keywords_choose_platform_and_execution() -> None:
    done = nox(ROOT, "--list", "--json", "-k", "cuda and graph")
    names = {one["session"] for one in json.loads(done.stdout)}
    assert names == {f"cuda_{family}(graph)" for family in Family}


def test_list_is_a_screenful() -> None:
    lines = nox(ROOT, "--list").stdout.splitlines()
    assert len(lines) <= 40
    # The line that names the noxfile is as long as its path.
    assert max(len(line) for line in lines if "noxfile.py" not in line) <= 120
    rows = [line for line in lines if line[:2] in {"* ", "- "}]
    assert len(matrix_sessions()) < len(rows)
    assert [row.split()[1] for row in rows if row[0] == "*"] == ["tests", "lint"]


# Sessions as they run


def commands(done: subprocess.CompletedProcess[str]) -> str:
    """Return what nox and its commands said, without colours."""
    return done.stdout + done.stderr


@pytest.mark.skipif(bool(probe_machine().devices(Platform.ROCM)), reason="there is an AMD GPU")
def test_session_that_cannot_run_here_fails_before_anything_is_installed(tmp_path: Path) -> None:
    done = nox(ROOT, "-s", "rocm_spec_decode", "--envdir", str(tmp_path))
    said = commands(done)
    assert done.returncode == 1
    assert said.count("failed with exit code 4") == 3
    assert "needs an AMD GPU" in said
    assert "`vllm-parity plan --platform rocm --family spec_decode --execution eager`" in said
    assert not list(tmp_path.iterdir())


def test_tag_of_a_tier_runs_its_cells_alone(tmp_path: Path) -> None:
    record = ROOT / "tests" / "data" / "machines" / "no-gpu.json"
    options = ("-t", "pr", "-k", "rocm and eager", "--envdir", str(tmp_path))
    said = commands(nox(ROOT, *options, "--", "--machine", str(record)))
    planned = [c for c in MATRIX.cells if c.platform is Platform.ROCM and c.is_in(Tier.PR)]
    count = sum(c.execution is Execution.EAGER and c.family is Family.STREAMING for c in planned)
    assert f"none of {count} cells of the tier can run here (not_run)" in said
    assert "failed with exit code 3" in said
    assert not list(tmp_path.iterdir())


def test_options_for_pytest_do_not_end_the_check_of_the_machine(tmp_path: Path) -> None:
    record = ROOT / "tests" / "data" / "machines" / "no-gpu.json"
    options = ("-s", "rocm_streaming(eager)", "--envdir", str(tmp_path / "envs"))
    given = ("--machine", str(record), "--results", str(tmp_path / "results"), "-x")
    assert "failed with exit code 4" in commands(nox(ROOT, *options, "--", *given))


def test_variable_that_contradicts_a_cell_is_an_error_before_anything_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    done = nox(ROOT, "-s", "smoke", "--envdir", str(tmp_path))
    assert "OMP_NUM_THREADS=7 is set here, but the cells chosen need OMP_NUM_THREADS=2" in commands(
        done
    )
    assert not list(tmp_path.iterdir())


def test_new_cells_make_new_sessions(checkout: Path) -> None:
    cells = '["eager", "compiled"]\nprefix_cache = ["off", "on"]'
    change(checkout / "configs" / "matrix.toml", cells, cells.replace("compiled", "graph"))
    names = [one["session"] for one in listed(checkout)]
    assert "cpu_batch_invariance(graph)" in names


def test_new_summary_is_shown(checkout: Path) -> None:
    change(checkout / "configs" / "matrix.toml", "in one piece, against streamed", "plain or not")
    assert "plain or not" in {one["description"] for one in listed(checkout)}


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (
            'execution = "eager"',
            'execution = "eagre"',
            "]: execution: unknown value 'eagre'; allowed: eager, compiled, graph; did you mean",
        ),
        ("[families.streaming]", "[families.streams]", "families: unknown family 'streams'"),
        ("cpu = 8", "cpu = = 8", "is not TOML: Invalid value (at line "),
    ],
    ids=["value", "family", "syntax"],
)
def test_mistake_in_the_matrix_is_one_line_and_2(
    checkout: Path, old: str, new: str, words: str
) -> None:
    path = checkout / "configs" / "matrix.toml"
    change(path, old, new)
    done = nox(checkout, "--session", "smoke")
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"vllm-parity: {path}: ")
    assert words in line
    assert done.stdout == ""


def test_missing_matrix_is_one_line_and_2(checkout: Path) -> None:
    (checkout / "configs" / "matrix.toml").unlink()
    done = nox(checkout, "--list")
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert "no configuration file matrix.toml: looked for " in done.stderr


def test_unknown_session_is_an_error() -> None:
    assert nox(ROOT, "--session", "smoek").returncode == 3


def test_noxfile_needs_nothing_but_nox() -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT / 'src')!r});"
        "from vllm_parity import contracts, doctor, hardware, install, matrix;"
        "matrix.load_matrix(), matrix.load_platforms(), contracts.load_contracts()"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-I", "-c", code], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
