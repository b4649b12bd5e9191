"""Running uv, and explaining why it failed."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

from vllm_parity.errors import InstallError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


def say(message: str) -> None:
    """Tell the user how things go: standard output is for the result alone."""
    print(f"vllm-parity: {message}", file=sys.stderr, flush=True)  # noqa: T201


def make_environment(folder: Path) -> None:
    """Make an empty environment of the Python that runs, in place of what is there."""
    uv(["venv", "--quiet", "--clear", "--no-project", "--python", sys.executable, str(folder)])


def pip_install(
    folder: Path,
    arguments: Sequence[str],
    *,
    index: str | None = None,
    variables: Mapping[str, str] | None = None,
) -> None:
    """Install into an environment; `index` is where the explanation says that things come from."""
    words = ["pip", "install", "--python", str(folder), "--compile-bytecode"]
    uv([*words, *arguments], index=index, variables=variables)


def uv(
    arguments: Sequence[str],
    *,
    index: str | None = None,
    variables: Mapping[str, str] | None = None,
) -> None:
    """Run uv, its words passed on as they come; `index` is for the explanation alone.

    Raises:
        InstallError: where it fails, explained by :func:`explain_failure`.

    """
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    environment.pop("VIRTUAL_ENV", None)
    environment.update(variables or {})
    said = []
    with subprocess.Popen(
        [_find_uv(), *arguments],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
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
        "the index lacks this version; is it right? A mirror may be behind: set UV_DEFAULT_INDEX",
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
