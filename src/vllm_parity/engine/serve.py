"""vLLM's OpenAI server, started so that it ends with whoever started it.

Run as ``python -m vllm_parity.engine.serve ARGUMENTS``; the arguments are those of
`vllm.entrypoints.openai.api_server`. The `vllm` command is not used: the CPU build's looks for a
distribution of another name and fails.
"""

from __future__ import annotations

import runpy

from vllm_parity.engine import leash

if __name__ == "__main__":
    leash.hold()
    runpy.run_module("vllm.entrypoints.openai.api_server", run_name="__main__", alter_sys=True)
