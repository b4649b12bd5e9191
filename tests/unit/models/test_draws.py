"""Numbers from a seed are known numbers, not merely repeatable ones."""

from __future__ import annotations

import hashlib
import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from vllm_parity.models.draws import near_normal, raw_bits

_MASK = 2**64 - 1


def philox_block(counter: int, key: tuple[int, int]) -> list[int]:
    """Compute one block of Philox4x64-10 as Salmon et al. (2011) write it, in Python integers."""
    words = [(counter >> (64 * place)) & _MASK for place in range(4)]
    first, second = key
    for _ in range(10):
        low = 0xD2E7470EE14C6C93 * words[0]
        high = 0xCA5A826395121157 * words[2]
        words = [
            (high >> 64) ^ words[1] ^ first,
            high & _MASK,
            (low >> 64) ^ words[3] ^ second,
            low & _MASK,
        ]
        first = (first + 0x9E3779B97F4A7C15) & _MASK
        second = (second + 0xBB67AE8584CAA73B) & _MASK
    return words


@settings(max_examples=25)
@given(seed=st.integers(0, 2**32), stream=st.text(max_size=20), count=st.integers(1, 13))
def test_raw_bits_are_philox_of_the_hashed_name(seed: int, stream: str, count: int) -> None:
    digest = hashlib.sha256(f"{seed}/{stream}".encode()).digest()
    key = (int.from_bytes(digest[:8], "little"), int.from_bytes(digest[8:16], "little"))
    expected = [word for block in range(1, 5) for word in philox_block(block, key)]
    assert raw_bits(seed, stream, count).tolist() == expected[:count]


def test_raw_bits_have_known_values() -> None:
    assert [hex(word) for word in raw_bits(1, "a", 3).tolist()] == [
        "0x1b3f7911c8b253c9",
        "0x605a74ef28f325a7",
        "0x30b59beb81725c78",
    ]


def test_near_normal_is_the_exact_transform_of_the_bits() -> None:
    spread = math.sqrt(4 * (2**32 - 1) / 12)
    for word, value in zip(
        raw_bits(1, "a", 50).tolist(), near_normal(1, "a", (5, 10)).ravel().tolist(), strict=True
    ):
        parts = [(word >> shift) & 0xFFFF for shift in (0, 16, 32, 48)]
        assert value == (2 * sum(parts) - 4 * 0xFFFF) / (2 * spread)


def test_near_normal_has_mean_0_and_variance_1() -> None:
    values = near_normal(3, "moments", (200_000,))
    assert abs(values.mean()) < 0.01
    assert abs(values.std() - 1) < 0.01
    assert np.abs(values).max() < 3.4642


def test_streams_are_apart() -> None:
    streams = [raw_bits(seed, name, 4).tolist() for seed in (1, 2) for name in ("a", "b")]
    assert len({word for stream in streams for word in stream}) == 16
