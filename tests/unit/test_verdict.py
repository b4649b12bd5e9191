"""Verdicts: exit codes and order are those of OBSERVATION.md."""

from __future__ import annotations

import itertools

import pytest

from vllm_parity.verdict import Verdict, worst

EXIT_CODES = {
    "diverged": 1,
    "error": 7,
    "invalid_pair": 8,
    "noisy": 9,
    "unverified": 5,
    "not_run": 3,
    "pass": 0,
}
"""From worst to best."""


def test_exit_codes() -> None:
    assert {verdict.value: verdict.exit_code for verdict in Verdict} == EXIT_CODES


def test_only_pass_is_green() -> None:
    assert [verdict for verdict in Verdict if not verdict.exit_code] == [Verdict.PASS]


def test_no_verdict_takes_a_code_of_bad_input_hardware_or_waivers() -> None:
    assert not {2, 4, 6} & {verdict.exit_code for verdict in Verdict}


@pytest.mark.parametrize(("bad", "good"), [*itertools.combinations(EXIT_CODES, 2)])
def test_worst_of_two_whatever_their_order(bad: str, good: str) -> None:
    pair = [Verdict(good), Verdict(bad)]
    assert worst(pair) is worst(reversed(pair)) is Verdict(bad)


def test_worst_of_many_comes_from_any_iterable() -> None:
    assert worst(iter(Verdict)) is Verdict.DIVERGED
    assert worst([Verdict.PASS] * 3) is Verdict.PASS


def test_nothing_is_not_green() -> None:
    assert worst([]) is Verdict.NOT_RUN
