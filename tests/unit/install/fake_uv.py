"""A copy of the configuration, and a uv that only writes down what it was asked for."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from vllm_parity.configs import config_path
from vllm_parity.errors import InstallError
from vllm_parity.install import environments, overlay, pytorch
from vllm_parity.install import uv as running

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Calls = list[list[str]]


@pytest.fixture
def configs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a copy of the configuration whose locks may be changed."""
    folder = tmp_path / "configs"
    shutil.copytree(config_path("platforms.toml").parent, folder)
    for module in (environments, overlay, pytorch):
        monkeypatch.setattr(module, "config_path", lambda name: folder / name)
    return folder


@pytest.fixture
def reachable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pytorch, "unreachable", lambda _: None)


@pytest.fixture
def compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have tests pass on machines without one."""
    monkeypatch.setattr(environments, "_check_compiler", lambda *_: None)


@pytest.fixture
def faking_uv(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Calls]:
    """Let uv do no more than make the folder, and fail where a word is among its arguments."""

    def faking(*, fails_on: str = "") -> Calls:
        found: Calls = []

        def uv(arguments: Sequence[str], **_: Any) -> None:
            found.append(list(arguments))
            if fails_on in arguments:
                msg = f"no {fails_on}"
                raise InstallError(msg)
            if arguments[0] == "venv":
                Path(arguments[-1]).mkdir(exist_ok=True)

        monkeypatch.setattr(running, "uv", uv)
        return found

    return faking


@pytest.fixture
def calls(faking_uv: Callable[..., Calls]) -> Calls:
    """Return the arguments of each call of uv."""
    return faking_uv()
