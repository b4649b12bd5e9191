"""A token and downloaded models are found where the hub's own library leaves them."""

from __future__ import annotations

from pathlib import Path

import pytest

from vllm_parity.hub import has_token, is_downloaded


@pytest.mark.parametrize("name", ["HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"])
def test_token_in_a_variable(name: str, tmp_path: Path) -> None:
    assert has_token({name: "x", "HF_HOME": str(tmp_path)})
    assert not has_token({name: "", "HF_HOME": str(tmp_path)})


def test_token_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("x", encoding="utf-8")
    assert has_token({"HF_HOME": str(tmp_path)})
    assert has_token({"HF_TOKEN_PATH": str(tmp_path / "token")})
    (tmp_path / "huggingface").mkdir()
    (tmp_path / "token").rename(tmp_path / "huggingface" / "token")
    assert has_token({"XDG_CACHE_HOME": str(tmp_path)})


def test_downloaded_revision(tmp_path: Path) -> None:
    (tmp_path / "hub" / "models--a--b" / "snapshots" / "123").mkdir(parents=True)
    assert is_downloaded("a/b", "123", {"HF_HOME": str(tmp_path)})
    assert is_downloaded("a/b", "123", {"HF_HUB_CACHE": str(tmp_path / "hub")})
    assert not is_downloaded("a/b", "456", {"HF_HOME": str(tmp_path)})
    assert not is_downloaded("a/b", None, {"HF_HOME": str(tmp_path)})
