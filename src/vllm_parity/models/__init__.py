"""Small models made from a seed: nothing is downloaded, and every byte is known beforehand."""

from __future__ import annotations

from vllm_parity.models.cache import cache_root, model_path

__all__ = ["cache_root", "model_path"]
