"""The command `vllm-parity models`."""

from __future__ import annotations

import argparse
import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING

import pytest

from vllm_parity.configs import config_path
from vllm_parity.errors import ConfigError, ModelError
from vllm_parity.matrix import HubModel, load_models
from vllm_parity.models import command
from vllm_parity.models.command import add_models_arguments, run_models

if TYPE_CHECKING:
    from collections.abc import Iterator
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


class Hub(BaseHTTPRequestHandler):
    """A hub that knows one model."""

    sha = "f" * 40

    def do_GET(self) -> None:
        known = self.path == "/api/models/yuhuili/EAGLE-LLaMA3.1-Instruct-8B/revision/main"
        self.send_response(200 if known else 404)
        self.end_headers()
        self.wfile.write(json.dumps({"sha": self.sha}).encode())

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Hub]]:
    with HTTPServer(("127.0.0.1", 0), Hub) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        yield Hub
        server.shutdown()
        thread.join()


@pytest.fixture
def catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "models.toml"
    path.write_bytes(config_path("models.toml").read_bytes())
    monkeypatch.setattr(command, "config_path", lambda _: path)
    return path


@pytest.mark.usefixtures("hub")
def test_revision_of_a_model_of_the_hub_is_asked_for_and_pinned(catalog: Path) -> None:
    before = catalog.read_text(encoding="utf-8")
    assert run("--pin", "llama-3.1-8b-eagle") == 0
    model = load_models(catalog)["llama-3.1-8b-eagle"]
    assert isinstance(model, HubModel)
    assert model.revision == "f" * 40
    line = 'revision = "ffffffffffffffffffffffffffffffffffffffff"\n'
    assert catalog.read_text(encoding="utf-8").replace(line, "") == before


@pytest.mark.usefixtures("hub")
def test_hub_that_does_not_know_the_model(catalog: Path) -> None:
    before = catalog.read_bytes()
    with pytest.raises(ModelError, match=r"does not tell the revision of Qwen/Qwen3-1\.7B: .*404"):
        run("--pin", "qwen3-1.7b")
    assert catalog.read_bytes() == before


def test_hub_that_says_something_else(
    catalog: Path, hub: type[Hub], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "sha", "main")
    with pytest.raises(ModelError, match="the hub says 'main', which is no commit"):
        run("--pin", "llama-3.1-8b-eagle")
    assert catalog.is_file()


def test_hub_that_cannot_be_reached(catalog: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(ModelError, match=r"ConnectError.*check the connection"):
        run("--pin", "llama-3.1-8b-eagle")
    assert catalog.is_file()
