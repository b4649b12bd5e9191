"""The words for architectures, and their order within a platform.

NVIDIA's are compute capabilities (``sm_89`` is 8.9, ``sm_120`` is 12.0), AMD's are LLVM's targets
(``gfx90a`` is major 9, minor 0, stepping 0xa). Of processors, only x86-64's vector extensions have
an order here.
"""

from __future__ import annotations

import re

_SM = re.compile(r"(sm)_(\d+)(\d)")
_GFX = re.compile(r"(gfx)(\d+)([0-9a-f])([0-9a-f])")
_VECTORS = {"avx2": 2, "avx512": 512}


def at_least(found: str | None, minimum: str) -> bool | None:
    """Return whether the architecture `found` is `minimum` or above it; None cannot be told.

    >>> at_least("sm_120", "sm_90"), at_least("gfx90a", "gfx942"), at_least("aarch64", "avx2")
    (True, False, None)
    """
    if found is None:
        return None
    if found == minimum:
        return True
    have, need = _rank(found), _rank(minimum)
    if have is None or need is None or have[0] != need[0]:
        return None
    return have[1] >= need[1]


def nvidia_architecture(major: int, minor: int) -> str:
    """Return the word for a compute capability.

    >>> nvidia_architecture(12, 0)
    'sm_120'
    """
    return f"sm_{major}{minor}"


def amd_architecture(version: int) -> str:
    """Return the word for the ``gfx_target_version`` of amdgpu, which counts decimally.

    >>> amd_architecture(90402), amd_architecture(90010), amd_architecture(120001)
    ('gfx942', 'gfx90a', 'gfx1201')
    """
    major, rest = divmod(version, 10_000)
    minor, stepping = divmod(rest, 100)
    return f"gfx{major}{minor:x}{stepping:x}"


def _rank(architecture: str) -> tuple[str, tuple[int, ...]] | None:
    """Return the family of an architecture and its place in it."""
    if architecture in _VECTORS:
        return "x86-64", (_VECTORS[architecture],)
    if match := _SM.fullmatch(architecture):
        return match[1], (int(match[2]), int(match[3]))
    if match := _GFX.fullmatch(architecture):
        return match[1], (int(match[2]), int(match[3], 16), int(match[4], 16))
    return None
