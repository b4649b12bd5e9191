"""Running vLLM: hosts for offline engines, servers, and what is read back from both.

Only what runs in the child process imports vLLM: `worker`, `serve`, `extension` and what these use.
"""
