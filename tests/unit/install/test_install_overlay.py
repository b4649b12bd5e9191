"""An environment over another one, which stays as it is."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from vllm_parity.errors import InstallError
from vllm_parity.install import environments, install, overlay
from vllm_parity.install.overlay import make_overlay, missing_packages
from vllm_parity.install.pythons import Python
from vllm_parity.matrix import Platform

pytest_plugins = ["fake_uv"]
Calls = list[list[str]]
LOCKED = {
    line.partition("==")[0]: line.partition("==")[2].split()[0]
    for line in (overlay.PROJECT / "configs" / overlay.TESTS)
    .read_text(encoding="utf-8")
    .split("\n")
    if line
}


@pytest.fixture
def parent(tmp_path: Path) -> Python:
    """Return a Python that has all, a vLLM by way of a checkout, and another of this project."""
    packages, checkout = tmp_path / "packages", tmp_path / "checkout"
    for name in ("vllm", "other"):
        (checkout / name).mkdir(parents=True)
    (checkout / "vllm" / "__init__.py").write_text("here = __file__\n", encoding="utf-8")
    (packages / "vllm_parity").mkdir(parents=True)
    (packages / "vllm_parity" / "__init__.py").write_text("1 / 0\n", encoding="utf-8")
    (packages / "checkout.pth").write_text(f"{checkout}\n", encoding="utf-8")
    return Python(
        executable=sys.executable,
        version=sys.version_info[:2],
        include="",
        vllm=str(checkout / "vllm" / "__init__.py"),
        folders=(str(packages),),
        packages=dict(LOCKED),
        needs=(),
    )


def ask(folder: Path, code: str) -> str:
    command = [str(folder / "bin" / "python"), "-I", "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_overlay_has_the_others_packages_and_this_project_before_its(
    tmp_path: Path, parent: Python, calls: Calls
) -> None:
    before = sorted(tmp_path.rglob("*"))
    make_overlay(parent, tmp_path / "env")
    assert ask(tmp_path / "env", "import vllm; print(vllm.here)") == parent.vllm
    project = ask(tmp_path / "env", "import vllm_parity; print(vllm_parity.__file__)")
    assert project == str(overlay.PROJECT / "src" / "vllm_parity" / "__init__.py")
    # Nothing is missing: no index is asked, and nothing is written to the other one.
    assert calls == []
    assert sorted(path for path in before if path.exists()) == before
    after = {path for path in tmp_path.rglob("*") if "env" not in path.parts}
    assert {path for path in after if "__pycache__" not in path.parts} == set(before)


def test_overlay_knows_our_plugin_and_command(tmp_path: Path, parent: Python, calls: Calls) -> None:
    make_overlay(parent, tmp_path / "env")
    code = (
        "from importlib.metadata import distribution as d;"
        "print(sorted(e.group + ' ' + e.value for e in d('vllm-parity').entry_points))"
    )
    assert ask(tmp_path / "env", code) == (
        "['console_scripts vllm_parity.cli:main', 'pytest11 vllm_parity.plugin']"
    )
    script = (tmp_path / "env" / "bin" / "vllm-parity").read_text(encoding="utf-8")
    assert script.splitlines()[0] == f"#!{tmp_path}/env/bin/python"
    assert script.splitlines()[-1] == "sys.exit(main())"
    assert calls == []


def test_only_what_is_missing_is_installed(tmp_path: Path, parent: Python, calls: Calls) -> None:
    packages = {name: version for name, version in LOCKED.items() if name != "rich"}
    make_overlay(replace(parent, packages=packages), tmp_path / "env")
    (call,) = calls
    assert call[-2:] == ["--no-deps", f"rich=={LOCKED['rich']}"]
    assert call[call.index("--python") + 1] == str(tmp_path / "env")


def test_what_is_there_stays_in_whatever_version() -> None:
    assert missing_packages({**LOCKED, "numpy": "1.26.0", "httpx": "0.1", "rich": "99"}) == []


@pytest.mark.parametrize("version", [None, "8.4.2", "7"])
def test_pytest_that_is_missing_or_too_old_is_replaced_with_all_that_belongs_to_it(
    version: str | None,
) -> None:
    packages = {name: value for name, value in LOCKED.items() if name != "pytest"}
    if version:
        packages["pytest"] = version
    names = [line.partition("==")[0] for line in missing_packages(packages)]
    assert names == [
        *("iniconfig", "pluggy", "pytest", "pytest-cov", "pytest-rerunfailures", "pytest-xdist"),
    ]


@pytest.mark.parametrize("version", ["9.0.0", "9.1", "10.0"])
def test_pytest_that_is_new_enough_stays(version: str) -> None:
    assert missing_packages({**LOCKED, "pytest": version}) == []


def test_packages_of_other_systems_are_not_missing() -> None:
    lines = missing_packages({})
    assert not any(line.startswith("colorama") for line in lines)
    # uv picks the one for its Python.
    assert sum(line.startswith("numpy==") for line in lines) > 1


def test_python_without_venv(tmp_path: Path, parent: Python) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho No module named venv >&2\nexit 1\n", encoding="utf-8")
    python.chmod(0o755)
    with pytest.raises(InstallError, match=r"install python3-venv or its like\nNo module named"):
        make_overlay(replace(parent, executable=str(python)), tmp_path / "env")


# Through install()


@pytest.mark.usefixtures("compiler")
def test_installed_is_made_once_and_anew_where_the_other_changes(
    tmp_path: Path, parent: Python, monkeypatch: pytest.MonkeyPatch, calls: Calls
) -> None:
    found = [parent, parent, replace(parent, packages={**LOCKED, "vllm": "9"})]
    made: list[Path] = []

    def making(_: Python, folder: Path) -> None:
        made.append(folder)
        folder.mkdir(exist_ok=True)

    monkeypatch.setattr(environments, "find_installed", lambda: found.pop(0))
    monkeypatch.setattr(environments, "make_overlay", making)
    for count in (1, 1, 2):
        python = install(Platform.ROCM, tmp_path)
        assert python == tmp_path / "vllm-rocm-installed" / "bin" / "python"
        assert len(made) == count
    assert calls == []


def test_compiler_is_looked_for_where_the_other_python_has_its_headers(
    tmp_path: Path, parent: Python, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environments, "find_installed", lambda: replace(parent, include="/other"))
    monkeypatch.setattr("shutil.which", lambda _: "/bin/g++")
    with pytest.raises(InstallError, match=r"^/other/Python\.h is not there"):
        install(Platform.CPU, tmp_path, "installed")
