"""Having an environment with vLLM: made once, and left alone while its stamp tells the same."""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform as machines
import re
import shutil
import sys
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING

from vllm_parity.configs import config_path
from vllm_parity.errors import ConfigError, InstallError
from vllm_parity.install.overlay import PROJECT, TESTS, make_overlay, missing_packages
from vllm_parity.install.pythons import find_installed, look_at
from vllm_parity.install.pytorch import install_torch, own_pins, unreachable
from vllm_parity.install.sources import Kind, Source, parse_source
from vllm_parity.install.uv import make_environment, pip_install, say
from vllm_parity.matrix import Platform, load_platforms

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vllm_parity.install.pythons import Python
    from vllm_parity.matrix.platforms import Install

_STAMP = "vllm-parity.stamp"
_WITHOUT_TORCH = "locks/without-torch.txt"


def install(platform: Platform, parent: Path, vllm: str | None = None) -> Path:
    """Have an environment below `parent` with a vLLM and this project; return its Python.

    Raises:
        ConfigError: where platforms.toml does not have the platform.
        InstallError: with the package, the index and what to try.

    """
    platforms = load_platforms()
    if platform not in platforms:
        msg = f"platforms.toml: no table [{platform}], which says how vLLM is installed there"
        raise ConfigError(msg)
    plan = platforms[platform].install
    source = parse_source(vllm, plan)
    folder = parent.absolute() / source.environment(platform)
    there = find_installed() if source.kind is Kind.INSTALLED else None
    if there is None:
        _check_python(platform, plan)
    if platform is Platform.CPU:
        _check_compiler(folder, there.include if there else sysconfig.get_path("include"))
    parent.mkdir(parents=True, exist_ok=True)
    with Path(f"{folder}.lock").open("w") as lock:
        # Two runs that begin at once: one installs, the other waits and finds it done.
        fcntl.flock(lock, fcntl.LOCK_EX)
        stamp = folder / _STAMP
        wanted = _fingerprint(plan, source, folder, there)
        if not (stamp.is_file() and stamp.read_bytes() == wanted):
            stamp.unlink(missing_ok=True)
            say(f"installing vLLM for {platform} into {folder}")
            if there:
                make_overlay(there, folder)
            else:
                _install_new(platform, plan, source, folder)
            stamp.write_bytes(wanted)
    return folder / "bin" / "python"


def _install_new(platform: Platform, plan: Install, source: Source, folder: Path) -> None:
    make_environment(folder)
    if source.kind is Kind.LOCK:
        if plan.torch:
            install_torch(plan, folder)
        pip_install(folder, ["--no-deps", "--requirements", str(config_path(f"locks/{plan.lock}"))])
    else:
        _install_given(platform, plan, source, folder)
    pip_install(folder, ["--no-deps", "--editable", str(PROJECT)])


def _install_given(platform: Platform, plan: Install, source: Source, folder: Path) -> None:
    """Install a version, wheel or checkout of vLLM, then what the tests need besides."""
    arguments, index = _requirement(plan, source)
    if plan.torch:
        arguments += ["--overrides", str(config_path(_WITHOUT_TORCH))]
    # What a checkout is built for.
    pip_install(folder, arguments, index=index, variables={"VLLM_TARGET_DEVICE": platform.value})
    python = _look_into(folder, source)
    if plan.torch:
        names = [package for source in plan.torch[:1] for package in source.packages]
        install_torch(plan, folder, own_pins(python.needs, names, machines.machine()))
    if missing := missing_packages(python.packages):
        pip_install(folder, ["--no-deps", *missing])


def _requirement(plan: Install, source: Source) -> tuple[list[str], str | None]:
    """Return what uv is to install, and from which index if not the default one."""
    versions = plan.versions
    extras = "".join(re.findall(r"\[.*\]", versions.package))
    match source.kind:
        case Kind.WHEEL:
            path = Path(source.value)
            return [f"{path.name.partition('-')[0]}{extras} @ {path.as_uri()}"], None
        case Kind.CHECKOUT:
            return ["--editable", f"{source.value}{extras}"], None
    requirement = f"{versions.package}=={source.value}"
    if not versions.index:
        return [requirement], None
    looked = []
    for variant in versions.variants:
        index = versions.index.format(version=source.value, variant=variant)
        if not (reason := unreachable(f"{index}/vllm/")):
            # With its variant, since uv would fall back to the default index, and to CUDA.
            return [f"{requirement}+{variant}", "--extra-index-url", index], index
        looked.append(f"  {index}: {reason}")
    msg = (
        f"no index has vLLM {source.value} for this platform; looked at\n"
        + "\n".join(looked)
        + "\ntry another version, or what is there already: --vllm installed"
        + (f" in the image {plan.image}" if plan.image else "")
    )
    raise InstallError(msg)


def _look_into(folder: Path, source: Source) -> Python:
    try:
        return look_at(folder / "bin" / "python")
    except InstallError as error:
        msg = f"--vllm {source.value} was installed into {folder}, but that has {error}"
        raise InstallError(msg) from None


def _check_python(platform: Platform, plan: Install) -> None:
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    if version not in plan.python:
        msg = (
            f"vLLM for {platform} has no build for Python {version}, only for"
            f" {', '.join(plan.python)}; run nox with one of these"
        )
        raise InstallError(msg)


def _check_compiler(folder: Path, include: str) -> None:
    """Check what PyTorch needs to compile: vLLM does that on CPUs in eager mode as well."""
    if not any(map(shutil.which, (os.environ.get("CXX", "g++"), "clang++"))):
        msg = "no C++ compiler was found, which vLLM needs on a CPU; install g++ (or set CXX)"
        raise InstallError(msg)
    header = Path(include) / "Python.h"
    if not header.is_file():
        msg = f"{header} is not there, which vLLM needs on a CPU; install python3-dev or its like"
        raise InstallError(msg)
    if " " in str(folder.resolve()):
        msg = (
            f"{folder.resolve()}: PyTorch's compiler does not work from a folder with a space in"
            " its path; name another with nox --envdir, or clone elsewhere"
        )
        raise InstallError(msg)


def _fingerprint(plan: Install, source: Source, folder: Path, there: Python | None) -> bytes:
    """Return what the stamp must say: where the folder is, and all that went into it."""
    digest = hashlib.sha256(repr((plan, source, there)).encode())
    for path in _files(plan, source):
        digest.update(path.read_bytes())
    if source.kind is Kind.WHEEL:
        status = Path(source.value).stat()
        digest.update(f"{status.st_size} {status.st_mtime_ns}".encode())
    return f"{folder.resolve()}\n{sys.version}\n{PROJECT}\n{digest.hexdigest()}\n".encode()


def _files(plan: Install, source: Source) -> Iterator[Path]:
    """Return the files whose change makes an installation anew."""
    yield PROJECT / "pyproject.toml"
    if source.kind is not Kind.LOCK:
        yield from map(config_path, (TESTS, _WITHOUT_TORCH))
        return
    yield config_path(f"locks/{plan.lock}")
    yield from (config_path(f"locks/{torch.lock}") for torch in plan.torch if torch.lock)
