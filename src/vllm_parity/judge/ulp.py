"""Distance in units of the last place: how many values of a type lie between two of them.

It is for people. Near zero a logprob carries the absolute error of the logits, so that a harmless
difference is thousands of float32 units there: no contract gates on it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def _ordinals(values: NDArray[np.float32], shift: int) -> NDArray[np.int64]:
    """Return the place of each value among all of its type, both zeros being at 0."""
    bits = values.view(np.int32).astype(np.int64) >> shift
    # Floats are sign and magnitude; the integers that view them are two's complement.
    smallest = -(1 << (31 - shift))
    return np.where(bits < 0, smallest - bits, bits)


def ulp_float32(a: NDArray[np.float32], b: NDArray[np.float32]) -> NDArray[np.int64]:
    """Return the exact distance in float32 values.

    >>> one = np.float32(1)
    >>> int(ulp_float32(one, np.nextafter(one, np.float32(2))))
    1
    >>> int(ulp_float32(np.float32(-1), np.float32(1)))
    2130706432
    """
    a, b = np.asarray(a, np.float32), np.asarray(b, np.float32)
    return np.asarray(np.abs(_ordinals(a, 0) - _ordinals(b, 0)))


def ulp_bfloat16(a: NDArray[np.float32], b: NDArray[np.float32]) -> NDArray[np.int64]:
    """Return the exact distance in bfloat16 values of float32 ones; their low halves are cut off.

    >>> int(ulp_bfloat16(np.float32(1), np.float32(1 + 2**-7)))
    1
    """
    a, b = np.asarray(a, np.float32), np.asarray(b, np.float32)
    # Cut towards zero first, so that a shift of a negative number does not round away from it.
    cut = np.int32(-0x10000)
    a, b = ((x.view(np.int32) & cut).view(np.float32) for x in (a, b))
    return np.asarray(np.abs(_ordinals(a, 16) - _ordinals(b, 16)))
