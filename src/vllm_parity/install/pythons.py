"""Looking at a Python from outside: whether it has vLLM, which packages, and where they are."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from vllm_parity.errors import InstallError

if TYPE_CHECKING:
    from collections.abc import Iterator

_SECONDS = 60.0
_OLDEST = (3, 11)

# Runs in the Python that is looked at, which may be an old one. vLLM is found, not imported.
_LOOK = r"""
import json, os, sys
sys.path = [path for path in sys.path if path]
found = {"executable": sys.executable, "version": list(sys.version_info[:2])}
if sys.version_info >= (3, 8):
    import importlib.metadata, importlib.util, re, site, sysconfig
    spec = importlib.util.find_spec("vllm")
    found["vllm"] = spec and spec.origin
    found["include"] = sysconfig.get_path("include")
    found["folders"] = folders = []
    user = [site.getusersitepackages()] if site.ENABLE_USER_SITE else []
    library = [sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
    for folder in user + site.getsitepackages() + library:
        if folder not in folders and os.path.isdir(folder):
            folders.append(folder)
    found["packages"] = packages = {}
    for package in importlib.metadata.distributions() if found["vllm"] else ():
        name = package.metadata["Name"]
        if name:
            name = re.sub("[-_.]+", "-", name).lower()
            packages.setdefault(name, [package.version, package.requires or []])
    ours = [name for name in packages if re.match("vllm(-(cpu|rocm|tpu|xpu))?$", name)]
    found["needs"] = packages[ours[0]][1] if ours else []
    found["packages"] = {name: packages[name][0] for name in packages}
print(json.dumps(found))
"""


@dataclass(frozen=True)
class Python:
    """A Python with vLLM: `vllm` is its file, `needs` are its requirements.

    `folders` are those with packages, `packages` their names with the version of each.
    """

    executable: str
    version: tuple[int, ...]
    include: str
    vllm: str
    folders: tuple[str, ...]
    packages: dict[str, str]
    needs: tuple[str, ...]


def look_at(path: str | Path) -> Python:
    """Return what a Python is like.

    Raises:
        InstallError: with the reason alone, where it cannot be run, is too old or has no vLLM.

    """
    try:
        done = subprocess.run(
            [str(path), "-c", _LOOK],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_SECONDS,
            check=False,
        )
        if done.returncode:
            raise InstallError(
                (done.stderr.strip() or f"exit code {done.returncode}").splitlines()[-1]
            )
        found = json.loads(done.stdout.splitlines()[-1])
    except (OSError, ValueError, IndexError, subprocess.TimeoutExpired) as error:
        msg = f"cannot be asked: {error}"
        raise InstallError(msg) from None
    if not found.get("vllm"):
        msg = "no vLLM"
        raise InstallError(msg)
    version = tuple(found["version"])
    if version < _OLDEST:
        msg = f"vLLM, but Python {'.'.join(map(str, version))}, and 3.11 is needed"
        raise InstallError(msg)
    return Python(
        executable=found["executable"],
        version=version,
        include=found["include"],
        vllm=found["vllm"],
        folders=tuple(found["folders"]),
        packages=found["packages"],
        needs=tuple(found["needs"]),
    )


def find_installed() -> Python:
    """Return the first Python that has vLLM: the one that runs, then those on PATH.

    Raises:
        InstallError: with those that were looked at.

    """
    looked = []
    for path in _candidates():
        try:
            return look_at(path)
        except InstallError as error:
            looked.append(f"  {path}: {error}")
    msg = (
        "no Python with vLLM was found, as --vllm installed needs; looked at\n"
        + "\n".join(looked)
        + "\nput the Python that has it first in PATH, or name a version, such as --vllm 0.31.0"
    )
    raise InstallError(msg)


def _candidates() -> Iterator[Path]:
    """Return the Python that runs and those on PATH; one with two names in a folder once."""
    known = set()
    folders = map(Path, filter(None, os.get_exec_path()))
    for path in [
        Path(sys.executable),
        *(folder / name for folder in folders for name in ("python3", "python")),
    ]:
        place = (path.parent.resolve(), path.resolve())
        if place not in known and os.access(path, os.X_OK) and path.is_file():
            known.add(place)
            yield path
