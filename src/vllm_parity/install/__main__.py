"""The command ``python -m vllm_parity.install``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import vllm_parity.install as package
from vllm_parity.errors import InstallError, ParityError
from vllm_parity.install import install
from vllm_parity.install.uv import say
from vllm_parity.matrix import Platform


def main() -> int:
    """Have vLLM for a platform below a folder; print the Python that has it."""
    parser = argparse.ArgumentParser(
        prog="python -m vllm_parity.install", description=package.__doc__
    )
    parser.add_argument("platform", type=Platform, choices=list(Platform))
    parser.add_argument("folder", type=Path, help="where environments are, such as .nox")
    parser.add_argument("--vllm", metavar="installed|VERSION|PATH", help="which vLLM")
    arguments = parser.parse_args()
    try:
        python = install(arguments.platform, arguments.folder, arguments.vllm)
    except ParityError as error:
        say(str(error))
        return error.exit_code
    except OSError as error:
        say(f"vLLM could not be installed: {error}")
        return InstallError.exit_code
    print(python, flush=True)  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
