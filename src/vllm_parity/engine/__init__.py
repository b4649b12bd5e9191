"""Running vLLM: hosts for offline engines, servers, and what is read back from both.

Only what runs inside the child process imports vLLM: `worker`, `extension` and what these two use, and `serve`.
"""
