"""vLLM's OpenAI server, started so that it dies with whoever started it.

Run as ``python -m vllm_parity.engine.serve ARGUMENTS``; the arguments are those of
`vllm.entrypoints.openai.api_server`. The `vllm` command is not used: the CPU build's looks for a
distribution of another name and fails.
"""

from __future__ import annotations

import ctypes
import runpy
import signal

_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def main() -> None:
    """Ask the kernel for a SIGTERM at the parent's end, then become the server."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    runpy.run_module("vllm.entrypoints.openai.api_server", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
