"""What this machine has of the Hugging Face hub: a token, and models that were downloaded."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


def has_token(environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether there is a token: in a variable, or where `hf auth login` leaves it."""
    if any(environment.get(name) for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")):
        return True
    named = environment.get("HF_TOKEN_PATH")
    return (Path(named) if named else _home(environment) / "token").is_file()


def is_downloaded(
    repo: str, revision: str | None, environment: Mapping[str, str] = os.environ
) -> bool:
    """Return whether a revision of a repository is in the hub's cache on this machine."""
    cache = environment.get("HF_HUB_CACHE") or str(_home(environment) / "hub")
    folder = Path(cache).expanduser() / f"models--{repo.replace('/', '--')}" / "snapshots"
    return revision is not None and (folder / revision).is_dir()


def _home(environment: Mapping[str, str]) -> Path:
    """Return the hub's folder, as `huggingface_hub` finds it."""
    cache = environment.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(environment.get("HF_HOME") or f"{cache}/huggingface").expanduser()
