"""The configuration files fit together, or it is said which does not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from vllm_parity.configs import config_path
from vllm_parity.errors import ConfigError
from vllm_parity.families import load_config

if TYPE_CHECKING:
    from pathlib import Path


def changed(folder: Path, old: str, new: str) -> Path:
    """Write the project's matrix with a change at the first place of `old`."""
    text = config_path("matrix.toml").read_text(encoding="utf-8")
    assert old in text
    path = folder / "matrix.toml"
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    return path


def test_project_files_fit() -> None:
    config = load_config()
    assert {cell.model for cell in config.matrix.cells} <= set(config.models)
    assert {cell.platform for cell in config.matrix.cells} <= set(config.platforms)


AUDIO = 'model = "tiny-qwen2-audio"'


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("tiny-qwen3", "tiny-qwen4", "/matrix.toml: the cell cpu-batch_invariance-text-eager-apc"),
        ("tiny-qwen3", "tiny-qwen4", "_off: unknown model 'tiny-qwen4'; known models: tiny-eagle"),
        ("tiny-qwen3-vl", "tiny-qwen3", "apc_off: tiny-qwen3 takes text, not image"),
        (AUDIO, 'model = "tiny-qwen3-vl"', "tiny-qwen3-vl takes text, image, video, not audio"),
        ('"cpu"', '"rocm"', "platforms.toml: no table [rocm], which the cell rocm-batch_invarian"),
    ],
)
def test_what_does_not_fit_is_named(tmp_path: Path, old: str, new: str, words: str) -> None:
    path = changed(tmp_path, old, new)
    with pytest.raises(ConfigError) as caught:
        load_config(path)
    assert str(caught.value).startswith((f"{path}: ", "platforms.toml: "))
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_another_matrix_is_read(tmp_path: Path) -> None:
    path = changed(tmp_path, "seed = 1234", "seed = 4321")
    families = load_config(path).matrix.families
    assert families != load_config().matrix.families
