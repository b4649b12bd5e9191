"""Which vLLM is meant: `--vllm installed|VERSION|PATH`, by default what platforms.toml says."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from vllm_parity.errors import InstallError

if TYPE_CHECKING:
    from vllm_parity.matrix import Platform
    from vllm_parity.matrix.platforms import Install

_VERSION = re.compile(r"\d[\w.!+-]*")


class Kind(StrEnum):
    """Where vLLM comes from."""

    LOCK = "lock"
    INSTALLED = "installed"
    VERSION = "version"
    WHEEL = "wheel"
    CHECKOUT = "checkout"


@dataclass(frozen=True)
class Source:
    """Which vLLM is meant; `value` is the version or the path, where there is one."""

    kind: Kind
    value: str = ""

    def environment(self, platform: Platform) -> str:
        """Return the name of the environment, one for each vLLM."""
        return "-".join(filter(None, ["vllm", platform.value, self._distinction]))

    @property
    def _distinction(self) -> str:
        match self.kind:
            case Kind.LOCK:
                return ""
            case Kind.INSTALLED:
                return "installed"
            case Kind.VERSION:
                return self.value
        path = Path(self.value)
        name = "-".join(path.stem.split("-")[:2]) if self.kind is Kind.WHEEL else path.name
        name = re.sub(r"[^\w.+-]", "_", name)
        return f"{name}-{hashlib.sha256(self.value.encode()).hexdigest()[:8]}"


def parse_source(text: str | None, plan: Install) -> Source:
    """Tell by its form what `--vllm` names.

    Raises:
        InstallError: where it is nothing of the kind, or no path of vLLM.

    """
    if text is None:
        return Source(Kind.LOCK if plan.lock else Kind.INSTALLED)
    if text == "installed":
        return Source(Kind.INSTALLED)
    path = Path(text)
    if text and ("/" in text or text.endswith(".whl") or path.exists()):
        return Source(_kind(path, text), str(path.resolve()))
    if _VERSION.fullmatch(text):
        return Source(Kind.VERSION, text)
    hint = f"; did you mean {text[1:]}?" if _VERSION.fullmatch(text[1:]) else ""
    msg = (
        f"--vllm {text!r} is not known; allowed: installed, a version such as 0.31.0, or the path"
        f" of a wheel or of a checkout of vLLM{hint}"
    )
    raise InstallError(msg)


def _kind(path: Path, text: str) -> Kind:
    if path.suffix == ".whl" and path.is_file():
        if path.name.count("-") >= 4:
            return Kind.WHEEL
        msg = f"--vllm {text}: a wheel's name has its parts, such as vllm-0.31.0-py3-none-any.whl"
        raise InstallError(msg)
    if any((path / name).is_file() for name in ("pyproject.toml", "setup.py")):
        return Kind.CHECKOUT
    reason = (
        "is not there"
        if not path.exists()
        else "has neither pyproject.toml nor setup.py"
        if path.is_dir()
        else "is not a wheel"
    )
    msg = f"--vllm {text}: {reason}; name a wheel (*.whl) or the folder of a checkout of vLLM"
    raise InstallError(msg)
