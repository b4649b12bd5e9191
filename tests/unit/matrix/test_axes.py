"""The words of the axes are the words of files, ids and options."""

from __future__ import annotations

from enum import StrEnum

import pytest

from vllm_parity import observation
from vllm_parity.matrix import Family, LogprobsMode, Platform, Tier, axes

AXES = [
    kind
    for kind in vars(axes).values()
    if isinstance(kind, type) and issubclass(kind, StrEnum) and kind is not StrEnum
]


def test_all_axes_are_here() -> None:
    assert {Family, Platform, Tier, LogprobsMode} < set(AXES)


@pytest.mark.parametrize("axis", AXES)
def test_word_is_its_name_in_lower_case_and_fits_into_an_id(axis: type[StrEnum]) -> None:
    for member in axis:
        # vLLM writes the names of its backends in capitals; ids have them in small letters.
        assert member.value.lower().replace("-", "_") == member.name.lower()
        assert member.value.isascii()


def test_observations_know_the_same_families_and_every_platform() -> None:
    assert [*Family] == [*observation.Family]
    assert {*Platform} < {*observation.Platform}


def test_logprobs_modes_are_those_of_vllm() -> None:
    assert {*LogprobsMode} == {
        "raw_logprobs",
        "processed_logprobs",
        "raw_logits",
        "processed_logits",
    }
