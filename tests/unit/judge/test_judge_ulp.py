"""Distances in units of the last place, exact in integers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vllm_parity.judge.ulp import ulp_bfloat16, ulp_float32

FLOATS = st.floats(width=32, allow_nan=False)


def f32(value: float) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    return np.asarray(value, np.float32)


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (0.0, -0.0, 0),
        (1.0, 1.0, 0),
        (-1.0, 1.0, 2130706432),
        (1e-45, -1e-45, 2),
        (-0.0002686616498976946, -0.00026913834153674543, 16379),
        (float("inf"), 3.4028234663852886e38, 1),
        (float("-inf"), float("inf"), 2 * 0x7F800000),
    ],
)
def test_known_distances(a: float, b: float, expected: int) -> None:
    assert int(ulp_float32(f32(a), f32(b))) == expected


@given(FLOATS, FLOATS, FLOATS)
def test_it_is_a_distance(a: float, b: float, c: float) -> None:
    for ulp in (ulp_float32, ulp_bfloat16):
        ab, bc, ac = (int(ulp(f32(x), f32(y))) for x, y in ((a, b), (b, c), (a, c)))
        assert ab == int(ulp(f32(b), f32(a)))
        assert ac <= ab + bc


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_a_neighbour_is_one_away(a: float) -> None:
    with np.errstate(over="ignore"):
        up = np.nextafter(f32(a), f32(np.inf))
    assert int(ulp_float32(f32(a), up)) == 1


@given(st.integers(0, 0x7F7F), st.integers(0, 0x7F7F), st.booleans())
def test_bfloat16_counts_bfloat16_values(a: int, b: int, flip: bool) -> None:
    one, two = (np.asarray(x << 16, np.uint32).view(np.float32) for x in (a, b))
    assert int(ulp_bfloat16(one, two)) == abs(a - b)
    assert int(ulp_bfloat16(-one, -two)) == abs(a - b)
    if flip:
        assert int(ulp_bfloat16(one, -two)) == a + b


def test_bfloat16_cuts_what_it_has_no_bits_for() -> None:
    assert int(ulp_bfloat16(f32(-1.0), f32(-1.0 - 2**-20))) == 0
    assert int(ulp_bfloat16(f32(1.0), f32(1.0 + 2**-20))) == 0
