"""Running vLLM: hosts for offline engines, servers, and what is read back from both.

Only `worker`, `extension` and `serve` import vLLM, and only inside the child process.
"""
