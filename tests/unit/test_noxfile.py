"""The noxfile has a session for each family that the matrix has, and says what is wrong with it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from vllm_parity.matrix import Family, Platform, load_matrix

ROOT = Path(__file__).parents[2]


def nox(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run nox in a checkout, in this environment: nothing is installed or downloaded."""
    return subprocess.run(
        [sys.executable, "-m", "nox", "--noxfile", str(root / "noxfile.py"), *arguments],
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


def matrix_sessions() -> list[str]:
    """Return the sessions that matrix.toml implies, each group of cells once, in order."""
    cells = load_matrix().cells
    return [
        f"{platform}_{family}({group})"
        for platform in Platform
        for family in Family
        for group in dict.fromkeys(
            cell.group for cell in cells if (cell.platform, cell.family) == (platform, family)
        )
    ]


def test_matrix_sessions_are_those_of_the_matrix(sessions: list[dict[str, Any]]) -> None:
    assert [one["session"] for one in sessions if one["tags"]] == matrix_sessions()


def test_every_cell_is_in_one_session(sessions: list[dict[str, Any]]) -> None:
    names = [one["session"] for one in sessions]
    assert len(names) == len(set(names))
    for cell in load_matrix().cells:
        assert f"{cell.platform}_{cell.family}({cell.group})" in names


def test_other_sessions(sessions: list[dict[str, Any]]) -> None:
    others = {one["name"] for one in sessions if not one["tags"]}
    assert {"smoke", "tests", "lint", "lock"} <= others


def test_family_is_described_by_its_summary_in_the_matrix(sessions: list[dict[str, Any]]) -> None:
    families = load_matrix().families
    described = {one["session"]: one["description"] for one in sessions if one["tags"]}
    assert described == {
        f"{cell.platform}_{cell.family}({cell.group})": families[cell.family].summary
        for cell in load_matrix().cells
    }


def test_every_session_says_what_it_does(sessions: list[dict[str, Any]]) -> None:
    assert all(one["description"] for one in sessions)


def test_tags_are_platform_and_family(sessions: list[dict[str, Any]]) -> None:
    for one in sessions:
        if one["tags"]:
            assert one["name"] == "_".join(one["tags"])


def test_list_is_short_enough_to_be_read() -> None:
    done = nox(ROOT, "--list")
    rows = [line for line in done.stdout.splitlines() if line[:2] in {"* ", "- "}]
    assert len(matrix_sessions()) < len(rows) <= 40
    assert [row.split()[1] for row in rows if row[0] == "*"] == ["tests", "lint"]


def test_new_cells_make_new_sessions(checkout: Path) -> None:
    change(checkout / "configs" / "matrix.toml", '["eager", "compiled"]', '["eager", "graph"]')
    names = [one["session"] for one in listed(checkout)]
    assert "cpu_batch_invariance(graph-apc_off)" in names


def test_new_summary_is_shown(checkout: Path) -> None:
    change(checkout / "configs" / "matrix.toml", "in one piece, against", "whole, against")
    shown = {one["description"] for one in listed(checkout)}
    assert "a chat completion whole, against the same one streamed" in shown


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (
            'execution = "eager"',
            'execution = "eagre"',
            "]: execution: unknown value 'eagre'; allowed: eager, compiled, graph; did you mean",
        ),
        ("[families.streaming]", "[families.streams]", "families: unknown family 'streams'"),
        ("minutes = 8", "minutes = = 8", "is not TOML: Invalid value (at line "),
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
        "from vllm_parity import contracts, install, matrix;"
        "matrix.load_matrix(), matrix.load_platforms(), contracts.load_contracts()"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-I", "-c", code], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
