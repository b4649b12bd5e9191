"""Having vLLM in an environment of its own: locked, a version, a wheel, a checkout, or installed.

Run as ``python -m vllm_parity.install PLATFORM FOLDER [--vllm installed|VERSION|PATH]`` by the nox
sessions, with the Python that runs nox; so only the standard library is used. The last line on
standard output, and the only one, is the path of the Python that has vLLM.
"""

from __future__ import annotations

from vllm_parity.install.environments import install

__all__ = ["install"]
