"""PyTorch: from the first source that answers."""

from __future__ import annotations

import socket
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from vllm_parity.errors import InstallError
from vllm_parity.install import install, pytorch
from vllm_parity.install import uv as running
from vllm_parity.matrix import Platform, load_platforms
from vllm_parity.matrix.platforms import TorchSource

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytest_plugins = ["fake_uv"]
pytestmark = pytest.mark.usefixtures("compiler")
CPU = load_platforms()[Platform.CPU].install
Calls = list[list[str]]


@pytest.mark.usefixtures("configs")
def test_unreachable_index_gives_way_to_the_next_source_in_one_line(
    tmp_path: Path,
    calls: Calls,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(pytorch, "unreachable", lambda _: "timed out")
    install(Platform.CPU, tmp_path)
    torch = calls[1]
    assert set(CPU.torch[1].packages) <= set(torch)
    assert "--index-url" not in torch
    assert torch[-1] == str(tmp_path / "configs" / "locks" / "torch-pypi.txt")
    said = capsys.readouterr().err.splitlines()
    assert said[1:] == [
        f"vllm-parity: {CPU.torch[0].index} cannot be reached (timed out); taking the next source",
        f"vllm-parity: PyTorch: {CPU.torch[1].why}",
    ]


@pytest.mark.usefixtures("configs", "reachable")
def test_source_that_fails_gives_way_to_the_next(
    tmp_path: Path, faking_uv: Callable[..., Calls], capsys: pytest.CaptureFixture[str]
) -> None:
    calls = faking_uv(fails_on=CPU.torch[0].packages[0])
    install(Platform.CPU, tmp_path)
    assert set(CPU.torch[1].packages) <= set(calls[2])
    assert len(calls) == 5
    assert f"that failed; no {CPU.torch[0].packages[0]}\n" in capsys.readouterr().err


@pytest.mark.usefixtures("configs", "reachable")
def test_last_source_that_fails_is_the_error(
    tmp_path: Path, faking_uv: Callable[..., Calls]
) -> None:
    faking_uv(fails_on="--no-deps")
    with pytest.raises(InstallError, match="no --no-deps"):
        install(Platform.CPU, tmp_path)


def test_no_source_at_all() -> None:
    plan = replace(CPU, torch=())
    with pytest.raises(InstallError, match="no source of PyTorch can be reached"):
        pytorch.install_torch(plan, Path("env"))


def test_index_of_a_source_goes_to_uv_and_into_the_explanation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[tuple[list[str], str | None]] = []
    monkeypatch.setattr(pytorch, "unreachable", lambda _: None)
    monkeypatch.setattr(
        running, "uv", lambda arguments, index, **_: seen.append((arguments, index))
    )
    source = TorchSource(packages=("torch==1",), why="small", index="https://index.invalid/cpu")
    plan = replace(CPU, torch=(source,))
    pytorch.install_torch(plan, Path("env"))
    ((arguments, index),) = seen
    assert arguments[-3:] == ["torch==1", "--index-url", "https://index.invalid/cpu"]
    assert index == "https://index.invalid/cpu"


class Answers(BaseHTTPRequestHandler):
    status: int | None = 200

    def do_HEAD(self) -> None:
        if self.status is None:
            self.wfile.write(b"no HTTP\r\n\r\n")
            return
        self.send_response(self.status)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(params=[200, 404, None], ids=str)
def index(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[int | None, str]]:
    """Return a status and an index on this machine that answers with it; None is no HTTP."""
    monkeypatch.setenv("no_proxy", "*")
    handler = type("Handler", (Answers,), {"status": request.param})
    with HTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield request.param, f"http://127.0.0.1:{server.server_port}/whl"
        server.shutdown()
        thread.join()


def test_index_is_reachable_only_if_it_answers_well(index: tuple[int | None, str]) -> None:
    status, address = index
    reason = pytorch.unreachable(f"{address}/torch/")
    if status == 200:
        assert reason is None
    else:
        assert reason == ("Not Found" if status else "no HTTP\r\n")


def test_index_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        reason = pytorch.unreachable(f"http://127.0.0.1:{port}")
    assert reason is not None
    assert "refused" in reason


def test_index_that_is_no_address() -> None:
    assert "unknown url type" in (pytorch.unreachable("whl/cpu") or "")


# A given vLLM's own pins

NEEDS = [
    "numpy",
    'torch==2.12.0; platform_system == "Darwin" or platform_machine == "riscv64"',
    'torch==2.12.0+cpu; platform_machine == "x86_64" or platform_machine == "aarch64"',
    "torchvision",
    "torchaudio==1.0",
]
NAMES = CPU.torch[0].packages


@pytest.mark.parametrize(
    ("needs", "machine", "pins"),
    [
        (NEEDS, "x86_64", ["torch==2.12.0+cpu", "torchvision"]),
        (NEEDS, "riscv64", ["torch==2.12.0", "torchvision"]),
        (["torch == 2.9", "torchvision==0.24"], "x86_64", ["torch==2.9", "torchvision==0.24"]),
        ([], "x86_64", ["torch", "torchvision"]),
    ],
)
def test_pins_are_those_of_the_given_vllm(needs: list[str], machine: str, pins: list[str]) -> None:
    assert pytorch.own_pins(needs, NAMES, machine) == pins


@pytest.mark.usefixtures("reachable")
def test_pins_come_with_what_they_need_from_the_index_of_the_source(calls: Calls) -> None:
    pytorch.install_torch(CPU, Path("env"), ["torch==2.12.0+cpu", "torchvision"])
    ((*_, torch, vision, extra, index, strategy, best),) = calls
    assert (torch, vision) == ("torch==2.12.0+cpu", "torchvision")
    assert (extra, index) == ("--extra-index-url", CPU.torch[0].index)
    assert (strategy, best) == ("--index-strategy", "unsafe-best-match")
    assert "--no-deps" not in calls[0]


def test_pins_lose_their_build_where_pypi_serves(
    calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pytorch, "unreachable", lambda _: "timed out")
    pytorch.install_torch(CPU, Path("env"), ["torch==2.12.0+cpu", "torchvision"])
    assert calls[0][-2:] == ["torch==2.12.0", "torchvision"]
