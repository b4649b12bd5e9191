"""Visible-devices variables, read as CUDA and ROCm read them."""

from __future__ import annotations

import pytest

from vllm_parity.hardware.visible import choose

DEVICES = ("a", "b", "c")
NAMES = [("GPU-aa11", "a"), ("GPU-ab22", "b"), ("MIG-cc33", "c")]


@pytest.mark.parametrize(
    ("value", "left"),
    [
        (None, "abc"),
        ("", ""),
        (" ", ""),
        ("-1", ""),
        ("0", "a"),
        ("2,0", "ca"),
        (" 2 , 0 ", "ca"),
        ("0,2,-1,1", "ac"),
        ("0,3,1", "a"),
        ("0,,1", "a"),
        ("1,x", "b"),
        ("1,1,2", "b"),
        ("GPU-aa11", "a"),
        ("gpu-AB", "b"),
        ("MIG-cc33,GPU-aa", "ca"),
        ("GPU-a", ""),  # two of them
        ("GPU-", ""),
        ("MIG-", ""),
        ("aa11", ""),
        ("GPU-aa11-and-more", ""),
        ("0," + "9" * 5000, "a"),
        ("\u0660", ""),  # a digit, but none of C's
    ],
)
def test_what_a_value_leaves(value: str | None, left: str) -> None:
    assert "".join(choose("V", value, DEVICES, NAMES).devices) == left


@pytest.mark.parametrize(
    ("value", "note"),
    [
        (None, None),
        ("0,1,2", None),
        ("", "V is empty and hides 3 GPUs"),
        ("0,1", "V=0,1 hides 1 GPU"),
        ("0,7", "V=0,7: '7' names no GPU, which ends it, and hides 2 GPUs"),
        ("0,1,2,2", "V=0,1,2,2: '2' comes twice, which ends it"),
    ],
)
def test_what_is_said_of_it(value: str | None, note: str | None) -> None:
    choice = choose("V", value, DEVICES, NAMES)
    assert choice.note(len(DEVICES) - len(choice.devices)) == note


@pytest.mark.parametrize(
    ("value", "by_index"), [(None, False), ("GPU-aa", False), ("GPU-aa,1", True)]
)
def test_whether_an_index_was_used(value: str | None, by_index: bool) -> None:
    assert choose("V", value, DEVICES, NAMES).by_index is by_index


def test_nothing_to_hide_is_not_hidden() -> None:
    assert choose("V", "", (), []).note(0) is None
