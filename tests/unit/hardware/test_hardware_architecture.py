"""The order of architectures."""

from __future__ import annotations

import pytest

from vllm_parity.hardware.architecture import amd_architecture, at_least, nvidia_architecture


@pytest.mark.parametrize(
    ("lower", "higher"),
    [
        ("sm_75", "sm_80"),
        ("sm_89", "sm_90"),
        ("sm_90", "sm_100"),
        ("sm_100", "sm_103"),
        ("sm_103", "sm_120"),
        ("gfx906", "gfx90a"),
        ("gfx90a", "gfx942"),
        ("gfx942", "gfx950"),
        ("gfx942", "gfx1030"),
        ("gfx1100", "gfx1201"),
        ("avx2", "avx512"),
    ],
)
def test_order(lower: str, higher: str) -> None:
    assert at_least(higher, lower) is True
    assert at_least(higher, higher) is True
    assert at_least(lower, higher) is False


@pytest.mark.parametrize(
    ("found", "minimum"),
    [
        (None, "sm_90"),
        ("gfx942", "sm_90"),
        ("sm_90", "avx2"),
        ("x86_64", "avx2"),
        ("aarch64", "avx512"),
        ("avx2", "aarch64"),
        ("sm_9", "sm_90"),
        ("sm_90a", "sm_90"),
        ("", "sm_90"),
    ],
)
def test_what_cannot_be_told(found: str | None, minimum: str) -> None:
    assert at_least(found, minimum) is None


def test_a_word_is_at_least_itself() -> None:
    assert at_least("aarch64", "aarch64") is True


@pytest.mark.parametrize(
    ("version", "word"),
    [
        (90402, "gfx942"),
        (90010, "gfx90a"),
        (90006, "gfx906"),
        (110000, "gfx1100"),
        (120001, "gfx1201"),
    ],
)
def test_target_version(version: int, word: str) -> None:
    assert amd_architecture(version) == word


def test_compute_capability() -> None:
    assert [nvidia_architecture(8, 9), nvidia_architecture(12, 0)] == ["sm_89", "sm_120"]
