"""The search finds what is there, in few probes, and where it cannot it says so."""

from __future__ import annotations

import random
import statistics
from typing import TYPE_CHECKING

from fake_lab import KNOBS, FakeLab, Truth, draw_truth

from vllm_parity.attribution.answer import Kind
from vllm_parity.attribution.grid import name_cause
from vllm_parity.attribution.search import Finding, Search

if TYPE_CHECKING:
    from collections.abc import Iterable


def found(truth: Truth, seed: int = 0) -> tuple[Finding, FakeLab]:
    lab = FakeLab(truth=truth, random=random.Random(seed))
    return Search(suspects=KNOBS, lab=lab).find(), lab


def is_right(finding: Finding, truth: Truth) -> bool:
    sets = {frozenset(one) for one in finding.answer.culprits}
    return finding.answer.kind is truth.kind and sets == set(truth.sets)


def draw(count: int, *, noisy: bool) -> Iterable[tuple[Truth, Finding, FakeLab]]:
    source = random.Random(6 + noisy)
    for number in range(count):
        truth = draw_truth(source, noisy=noisy)
        yield truth, *found(truth, number)


def test_a_thousand_truths_without_noise() -> None:
    probes: dict[int, list[int]] = {0: [], 1: [], 2: []}
    right = 0
    for truth, finding, lab in draw(1000, noisy=False):
        right += is_right(finding, truth)
        assert is_right(finding, truth) or finding.answer.kind is Kind.UNDETERMINED, truth
        probes[sum(map(len, truth.sets))].append(lab.probes)
    assert right >= 990
    assert statistics.mean(probes[1]) <= 8
    assert statistics.mean(probes[2]) <= 20
    assert max(probes[0]) <= 1


def test_a_thousand_truths_with_noise() -> None:
    right = 0
    for truth, finding, _ in draw(1000, noisy=True):
        ok = is_right(finding, truth)
        right += ok
        # A kind that the controls have shown is right; which knob it is may be left open.
        unsure = finding.answer.kind is Kind.UNDETERMINED or (
            finding.answer.kind is truth.kind and not finding.answer.culprits
        )
        assert ok or unsure, (truth, finding)
    assert right >= 950


def test_the_grid_of_a_search_names_the_same_cause() -> None:
    for truth, finding, lab in draw(200, noisy=False):
        if len(truth.sets) == 1:
            grid = name_cause(lab.points())
            assert grid.kind is finding.answer.kind
            assert set(grid.culprits[0]) == set(finding.answer.culprits[0])


def test_settings_that_cannot_be_measured_are_left_out_and_named() -> None:
    truth = Truth(sets=(frozenset({"knob3"}),))
    lab = FakeLab(truth=truth, random=random.Random(1), void=(frozenset({"knob7"}),))
    finding = Search(suspects=KNOBS, lab=lab).find()
    assert finding.dropped == ("knob7",)
    assert finding.answer.kind is Kind.SINGLE
    assert finding.answer.culprits == (("knob3",),)


def test_without_time_nothing_is_claimed() -> None:
    truth = Truth(sets=(frozenset({"knob3"}),))
    for budget in range(30):
        lab = FakeLab(truth=truth, random=random.Random(1), budget=budget)
        finding = Search(suspects=KNOBS, lab=lab).find()
        assert finding.answer.kind is Kind.UNDETERMINED
        assert finding.open is not None


def test_what_was_measured_is_not_measured_again() -> None:
    truth = Truth(sets=(frozenset({"knob2", "knob8"}),))
    lab = FakeLab(truth=truth, random=random.Random(1), budget=24)
    assert Search(suspects=KNOBS, lab=lab).find().answer.kind is Kind.UNDETERMINED
    lab.budget = 1 << 30
    finding = Search(suspects=KNOBS, lab=lab).find()
    once = FakeLab(truth=truth, random=random.Random(1))
    Search(suspects=KNOBS, lab=once).find()
    assert finding.answer.culprits == (("knob2", "knob8"),)
    assert lab.asked.keys() == once.asked.keys()
