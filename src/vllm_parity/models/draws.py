"""Numbers from a seed: the same bytes on every machine and under every numpy version.

numpy promises that the raw output of a bit generator never changes, but makes no such promise for
the distributions drawn from it, and ``log`` or ``cos`` differ between math libraries. So a weight
is made from raw bits by integer sums and one float64 product: exact, or rounded as IEEE 754
prescribes.
"""

from __future__ import annotations

import hashlib
import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Standard deviation of the sum of four independent uniform 16-bit integers.
_STD_OF_SUM = math.sqrt(4 * (2**32 - 1) / 12)


def raw_bits(seed: int, stream: str, count: int) -> NDArray[np.uint64]:
    """Draw `count` raw 64-bit words from the Philox stream that belongs to a seed and a name.

    One stream per name: a new tensor moves no other.
    """
    digest = hashlib.sha256(f"{seed}/{stream}".encode()).digest()
    words = np.frombuffer(digest[:16], dtype="<u8").astype(np.uint64)
    bits: NDArray[np.uint64] = np.random.Philox(key=words, counter=0).random_raw(count)
    return bits


def near_normal(seed: int, stream: str, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Draw numbers with mean 0 and variance 1: each the sum of the four 16-bit parts of a word.

    The sum of four uniforms is bell-shaped and ends at 3.46 standard deviations.
    """
    words = raw_bits(seed, stream, math.prod(shape)).reshape(shape)
    total = np.zeros(shape, dtype=np.int64)
    for shift in (0, 16, 32, 48):
        total += ((words >> np.uint64(shift)) & np.uint64(0xFFFF)).astype(np.int64)
    centred = 2 * total - 4 * 0xFFFF  # twice the distance from the mean: an integer
    return centred.astype(np.float64) / (2 * _STD_OF_SUM)
