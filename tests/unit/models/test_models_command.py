"""The command `vllm-parity models`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

import pytest

from vllm_parity.configs import config_path
from vllm_parity.errors import ConfigError
from vllm_parity.matrix import load_models
from vllm_parity.models import command
from vllm_parity.models.command import add_models_arguments, run_models

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("VLLM_PARITY_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "models"


def run(*arguments: str) -> int:
    parser = argparse.ArgumentParser()
    add_models_arguments(parser)
    return run_models(parser.parse_args(arguments))


def test_list_makes_nothing(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--list") == 0
    out = capsys.readouterr().out
    assert all(name in out for name in load_models())
    assert not root.exists()


def test_named_model_is_made(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("tiny-qwen3") == 0
    captured = capsys.readouterr()
    (folder,) = root.glob("tiny-qwen3-*")
    assert captured.out.rstrip().endswith(str(folder))
    assert "660,864 parameters" in captured.out
    assert captured.err.startswith("tiny-qwen3: making ")


def test_unknown_model() -> None:
    with pytest.raises(ConfigError, match="unknown model 'nope'"):
        run("nope")


def test_pin_changes_the_hash_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pinned = config_path("models.toml").read_text(encoding="utf-8")
    sha256 = load_models()["tiny-qwen3"].sha256  # type: ignore[union-attr]
    path = tmp_path / "models.toml"
    path.write_text(pinned.replace(sha256, "0" * 64), encoding="utf-8")
    monkeypatch.setattr(command, "config_path", lambda _: path)
    assert run("--pin", "tiny-qwen3") == 0
    assert path.read_text(encoding="utf-8") == pinned
    assert f"{sha256}  (was another)" in capsys.readouterr().out
