"""Rates: intervals as tables have them, and how many runs it takes."""

from __future__ import annotations

import pytest

from vllm_parity.rates import Rate, clean_runs_needed, too_many


@pytest.mark.parametrize(
    ("events", "runs", "low", "high"),
    [
        (2, 7, 0.0367, 0.7096),
        (0, 7, 0.0, 0.4096),
        (7, 7, 0.5904, 1.0),
        (1, 2, 0.0126, 0.9874),
        (5, 10, 0.1871, 0.8129),
    ],
)
def test_interval_is_that_of_clopper_and_pearson(
    events: int, runs: int, low: float, high: float
) -> None:
    found = Rate(events=events, runs=runs).interval()
    assert found == pytest.approx((low, high), abs=5e-5)


def test_other_confidence_is_another_interval() -> None:
    """No event in n runs: the upper bound is 1 - (alpha / 2)^(1 / n)."""
    assert Rate(events=0, runs=20).interval(0.9)[1] == pytest.approx(1 - 0.05 ** (1 / 20))


def test_no_run_tells_nothing() -> None:
    none = Rate(events=0, runs=0)
    assert none.interval() == (0.0, 1.0)
    assert none.words == "none of 0 runs"


def test_words() -> None:
    told = "2 of 7 runs (29 %, 95 % interval 3.7 % to 71 %)"
    assert Rate(events=2, runs=7).words == told


@pytest.mark.parametrize(
    ("rate", "confidence", "runs"), [(0.05, 0.95, 59), (0.01, 0.95, 299), (0.5, 0.75, 2)]
)
def test_clean_runs_needed_are_the_fewest_that_show_it(
    rate: float, confidence: float, runs: int
) -> None:
    assert clean_runs_needed(rate, confidence) == runs
    assert (1 - rate) ** runs <= 1 - confidence < (1 - rate) ** (runs - 1)


def test_too_many_is_the_fewest_that_show_the_opposite() -> None:
    """P(X >= 7) is 2.7 % and P(X >= 6) 7.4 %, of 59 runs at a rate of 5 %."""
    assert too_many(0.05, 0.95, 59) == 7
