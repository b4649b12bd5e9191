"""What repeats come to: rates, classes, flips, and claims that are settled early or late."""

from __future__ import annotations

from vllm_parity.flake.series import Claim, Repeat, Series
from vllm_parity.verdict import Verdict


def series(words: str) -> Series:
    """Return a series from letters: `.` passes, D diverged, N noisy, ? an error."""
    verdicts = {"D": Verdict.DIVERGED, "N": Verdict.NOISY, "?": Verdict.ERROR}
    repeats = [
        Repeat(verdict=verdicts.get(letter, Verdict.PASS), label=letter, record=str(number))
        for number, letter in enumerate(words)
    ]
    return Series(name="warm", repeats=tuple(repeats))


def test_a_cell_that_passes_now_and_fails_then_is_flaky() -> None:
    found = series("..D.N?")
    assert (found.rate.events, found.rate.runs) == (2, 5)
    assert found.is_flaky
    assert found.first_flip == 3
    assert list(found.classes.values()) == [3, 1, 1]


def test_one_that_always_does_the_same_is_not() -> None:
    assert not series("....").is_flaky
    assert not series("DDDD").is_flaky
    assert series("DDDD").first_flip is None


def test_errors_count_for_nothing() -> None:
    found = series("???")
    assert found.rate.runs == 0
    assert not found.is_flaky
    assert found.claim(0.05, 0.95) is Claim.OPEN


def test_outputs_that_differ_within_the_contract_are_classes() -> None:
    found = series("..a.")
    assert found.rate.events == 0
    assert len(found.classes) == 2
    assert found.first_flip == 3


def test_a_claim_takes_59_clean_runs() -> None:
    assert series("." * 58).claim(0.05, 0.95) is Claim.OPEN
    assert series("." * 59).claim(0.05, 0.95) is Claim.HOLDS
    assert series("D" + "." * 58).claim(0.05, 0.95) is Claim.OPEN


def test_seven_reds_refute_it() -> None:
    assert series("D" * 6).claim(0.05, 0.95) is Claim.OPEN
    assert series("D" * 7).claim(0.05, 0.95) is Claim.REFUTED
