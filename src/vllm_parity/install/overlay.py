"""An environment over another: it has all that the other has, and what the tests need besides.

The other one is never written to. What it has stays as it is, but for a pytest that is too old.
"""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

from vllm_parity.configs import config_path
from vllm_parity.errors import InstallError
from vllm_parity.install.uv import pip_install, say

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vllm_parity.install.pythons import Python

PROJECT = Path(__file__).resolve().parents[3]
TESTS = "locks/tests.txt"
_PYTEST = re.compile(r"(pytest(-.*)?|pluggy|iniconfig)==")


def make_overlay(parent: Python, folder: Path) -> None:
    """Have `folder` be an environment over `parent`; ask an index only for what is missing.

    Raises:
        InstallError: where it cannot be made, or an index does not have what is missing.

    """
    say(f"vLLM is the one of {parent.executable}: {Path(parent.vllm).parent}")
    command = [parent.executable, "-m", "venv", "--without-pip", "--clear", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        msg = (
            f"{' '.join(command)} failed; where its module venv is missing, install python3-venv or"
            f" its like\n{(done.stderr + done.stdout).strip()}"
        )
        raise InstallError(msg)
    major, minor = parent.version
    packages = folder / "lib" / f"python{major}.{minor}" / "site-packages"
    # Files of this kind are read in the order of their names: ours come before the other's, whose
    # own are read as well, such as those of checkouts.
    (packages / "zz-vllm-parity-parent.pth").write_text(
        "".join(f"import site; site.addsitedir({path!r})\n" for path in parent.folders),
        encoding="utf-8",
    )
    link_project(folder, packages)
    if missing := missing_packages(parent.packages):
        say(f"missing there: {', '.join(missing)}")
        pip_install(folder, ["--no-deps", *missing])


def link_project(folder: Path, packages: Path) -> None:
    """Do what an editable installation of this project does, which needs no index and no uv."""
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (packages / "vllm-parity.pth").write_text(f"{PROJECT / 'src'}\n", encoding="utf-8")
    info = packages / f"vllm_parity-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n",
        encoding="utf-8",
    )
    groups = {"console_scripts": project["scripts"], **project["entry-points"]}
    (info / "entry_points.txt").write_text(
        "".join(
            f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in entries.items())
            for group, entries in groups.items()
        ),
        encoding="utf-8",
    )
    for name, value in project["scripts"].items():
        module, _, function = value.partition(":")
        script = folder / "bin" / name
        script.write_text(
            f"#!{folder.resolve() / 'bin' / 'python'}\n"
            f"import sys\nfrom {module} import {function}\nsys.exit({function}())\n",
            encoding="utf-8",
        )
        script.chmod(0o755)


def missing_packages(packages: Mapping[str, str]) -> list[str]:
    """Return the lines of the tests' lock that an environment lacks, by name.

    Where its pytest is missing or too old, all that belongs to pytest is taken from the lock.
    """
    lines = config_path(TESTS).read_text(encoding="utf-8").splitlines()
    ours = _too_old(packages.get("pytest", "0"))
    return [
        line
        for line in lines
        # Of the systems that a lock is for, we run on Linux.
        if "==" in line and "'win32'" not in line
        if line.partition("==")[0] not in packages or (ours and _PYTEST.match(line))
    ]


def _too_old(version: str) -> bool:
    """Tell whether a pytest is older than this project needs."""
    needs = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    least = next(line for line in needs["dependencies"] if line.startswith("pytest>="))
    return _numbers(version) < _numbers(least)


def _numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version)[:2]]
