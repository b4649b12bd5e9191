"""A made model on disk is whole, checked and replaced when damaged."""

from __future__ import annotations

import errno
import hashlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from vllm_parity.errors import ConfigError, ModelError
from vllm_parity.matrix import load_models
from vllm_parity.models import cache, cache_root, model_path

if TYPE_CHECKING:
    from pathlib import Path

NAME = "tiny-qwen3"


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("VLLM_PARITY_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "models"


def folders(root: Path) -> list[str]:
    return sorted(path.name for path in root.iterdir() if path.is_dir())


def test_made_once_with_one_word(root: Path) -> None:
    words: list[str] = []
    first = model_path(NAME, notify=words.append)
    second = model_path(NAME, notify=words.append)
    assert first == second
    assert folders(root) == [first.name]
    assert first.name.startswith("tiny-qwen3-")
    (word,) = words
    assert word.startswith("tiny-qwen3: making 660,864 parameters in ")
    weights = (first / "model.safetensors").read_bytes()
    assert hashlib.sha256(weights).hexdigest() == load_models()[NAME].sha256  # type: ignore[union-attr]


def flip_weight(folder: Path) -> None:
    path = folder / "model.safetensors"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


def cut_weights(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1])


def change_config(folder: Path) -> None:
    path = folder / "config.json"
    path.write_bytes(path.read_bytes().replace(b'"silu"', b'"gelu"'))


def remove_tokenizer(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()


def add_weights(folder: Path) -> None:
    (folder / "more.safetensors").write_bytes(b"")


@pytest.mark.parametrize(
    ("harm", "reason"),
    [
        (flip_weight, "model.safetensors does not have the pinned SHA-256"),
        (cut_weights, "model.safetensors does not have the pinned SHA-256"),
        (change_config, "config.json is not what was written"),
        (remove_tokenizer, "missing: tokenizer.json"),
        (add_weights, "unexpected: more.safetensors"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_damage_is_found_and_repaired_with_a_word(root: Path, harm: object, reason: str) -> None:
    folder = model_path(NAME, notify=lambda _: None)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert callable(harm)
    harm(folder)
    words: list[str] = []
    assert model_path(NAME, notify=words.append) == folder
    assert words == [f"tiny-qwen3: the cached copy is damaged ({reason}): making it anew"]
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert folders(root) == [folder.name]


def test_many_makers_make_one(root: Path) -> None:
    words: list[str] = []
    with ThreadPoolExecutor(4) as pool:
        paths = set(pool.map(lambda _: model_path(NAME, notify=words.append), range(8)))
    assert len(paths) == 1
    assert len(words) == 1
    assert folders(root) == [paths.pop().name]


def test_full_disk_leaves_nothing_behind(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = cache._write

    def fail_on_weights(path: Path, content: bytes) -> None:
        if path.name == "model.safetensors":
            raise OSError(errno.ENOSPC, "No space left on device")
        write(path, content)

    monkeypatch.setattr(cache, "_write", fail_on_weights)
    with pytest.raises(ModelError, match=r"tiny-qwen3: .*No space left on device; set VLLM_PARITY"):
        model_path(NAME, notify=lambda _: None)
    assert folders(root) == []


def test_damaged_copy_stays_until_a_good_one_is_written(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = model_path(NAME, notify=lambda _: None)
    remove_tokenizer(folder)

    def fail(path: Path, content: bytes) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(cache, "_write", fail)
    with pytest.raises(ModelError, match="Input/output error"):
        model_path(NAME, notify=lambda _: None)
    assert folders(root) == [folder.name]


def test_left_over_of_a_killed_maker_is_removed(root: Path) -> None:
    folder = model_path(NAME, notify=lambda _: None)
    (root / f".{folder.name}.0123.tmp").mkdir()
    remove_tokenizer(folder)
    model_path(NAME, notify=lambda _: None)
    assert folders(root) == [folder.name]


def test_unwritable_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("VLLM_PARITY_CACHE", str(tmp_path / "file"))
    with pytest.raises(ModelError, match="Not a directory; set VLLM_PARITY_CACHE to a folder"):
        model_path(NAME, notify=lambda _: None)


def test_other_bytes_than_pinned_are_refused(root: Path) -> None:
    models = load_models()
    models[NAME] = replace(models[NAME], sha256="0" * 64)  # type: ignore[arg-type]
    with pytest.raises(ModelError, match=r"have SHA-256 1506e2b6.*but models.toml pins 0000"):
        model_path(NAME, notify=lambda _: None, models=models)
    assert folders(root) == []


def test_unknown_name() -> None:
    with pytest.raises(ConfigError, match=r"unknown model 'gpt'; known models: .*tiny-"):
        model_path("gpt")


def test_default_root_is_the_users_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("VLLM_PARITY_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_root() == tmp_path / "vllm-parity" / "models"
