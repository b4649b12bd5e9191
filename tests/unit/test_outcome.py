"""What counts: controls, cells that do not gate, waivers and their dates."""

from __future__ import annotations

import datetime
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vllm_parity.errors import ConfigError
from vllm_parity.matrix import load_matrix
from vllm_parity.outcome import Outcome, exit_code_of, outcome_of
from vllm_parity.verdict import Verdict
from vllm_parity.waivers import Waiver, find_waiver, load_waivers

MATRIX = load_matrix()
PLAIN = next(cell for cell in MATRIX.cells if not (cell.negative_control or cell.ungated))
CONTROL = next(cell for cell in MATRIX.cells if cell.negative_control)
UNGATED = next(cell for cell in MATRIX.cells if cell.ungated)
TODAY = datetime.date(2026, 12, 1)
WAIVER = Waiver(
    cell=PLAIN.id,
    verdict=Verdict.DIVERGED,
    reason="rows",
    issue="https://example.org/1",
    ends=TODAY,
)
verdicts = st.sampled_from(Verdict)


@given(verdicts)
def test_plain_cell_counts_as_it_is(verdict: Verdict) -> None:
    assert outcome_of(PLAIN, verdict) == Outcome(verdict=verdict, counts=verdict)


@given(verdicts)
def test_negative_control_must_diverge(verdict: Verdict) -> None:
    expected = {Verdict.DIVERGED: Verdict.PASS, Verdict.PASS: Verdict.UNVERIFIED}
    assert outcome_of(CONTROL, verdict).counts is expected.get(verdict, verdict)


@given(verdicts)
def test_ungated_difference_is_shown_and_does_not_count(verdict: Verdict) -> None:
    reported = verdict in {Verdict.DIVERGED, Verdict.NOISY}
    outcome = outcome_of(UNGATED, verdict)
    assert outcome.counts is (Verdict.PASS if reported else verdict)
    assert ("does not gate" in outcome.words) is reported
    assert outcome.verdict is verdict


@given(verdicts, verdicts.filter(lambda verdict: verdict is not Verdict.PASS))
def test_waiver_excuses_its_verdict_and_no_other(verdict: Verdict, waived: Verdict) -> None:
    outcome = outcome_of(PLAIN, verdict, [replace(WAIVER, verdict=waived)], TODAY)
    assert outcome.is_green is (verdict is waived)
    assert outcome.stale_waiver is (verdict is Verdict.PASS)
    if verdict is waived:
        assert outcome.note == "waived until 2026-12-01: https://example.org/1"


@given(verdicts)
def test_waiver_that_ended_excuses_nothing_and_is_never_green(verdict: Verdict) -> None:
    outcome = outcome_of(PLAIN, verdict, [WAIVER], TODAY + datetime.timedelta(days=1))
    assert outcome.counts is verdict
    assert not outcome.is_green
    assert "its waiver ended on 2026-12-01" in outcome.note
    assert exit_code_of([outcome]) == (verdict.exit_code or 6)


def test_pass_that_is_waived_is_6_unless_something_is_worse() -> None:
    stale = outcome_of(PLAIN, Verdict.PASS, [WAIVER], TODAY)
    assert "take the waiver out" in stale.note
    assert exit_code_of([stale, outcome_of(PLAIN, Verdict.PASS)]) == 6
    assert exit_code_of([stale, outcome_of(PLAIN, Verdict.NOT_RUN)]) == 3
    assert exit_code_of([]) == 3


def test_waiver_of_other_cells_does_nothing() -> None:
    other = replace(WAIVER, cell="rocm-*")
    assert outcome_of(PLAIN, Verdict.PASS, [other], TODAY).is_green
    assert find_waiver([other], PLAIN.id) is None
    assert find_waiver([other, WAIVER], PLAIN.id) is WAIVER


# waivers.toml

ENTRY = """
[[waivers]]
cell = "cuda-batch_invariance-text-*-eager-*-bi"
verdict = "diverged"
reason = "the block of a kernel changes at 256 rows"
issue = "https://github.com/vllm-project/vllm/issues/48271"
ends = 2027-03-31
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "waivers.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_all_is_read(tmp_path: Path) -> None:
    (waiver,) = load_waivers(MATRIX, write(tmp_path, ENTRY))
    assert waiver.verdict is Verdict.DIVERGED
    assert waiver.ends == datetime.date(2027, 3, 31)
    assert waiver.names("cuda-batch_invariance-text-eager-eager-apc_off-flash_attn-bi")


def test_built_in_cells_can_be_waived(tmp_path: Path) -> None:
    cell = 'cell = "cuda-batch_invariance-text-n8_small-graph-apc_off-flash_attn-bi"'
    text = ENTRY.replace('cell = "cuda-batch_invariance-text-*-eager-*-bi"', cell)
    assert len(load_waivers(MATRIX, write(tmp_path, text))) == 1


def test_projects_own_waivers_load() -> None:
    load_waivers(MATRIX)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("-bi", "-ib", "waivers[0]: cell: unknown cell 'cuda-batch_invariance-text-*-eager-*-ib'"),
        ('"diverged"', '"red"', "waivers[0]: verdict: unknown value 'red'; allowed: diverged"),
        ('"diverged"', '"pass"', "waivers[0]: verdict: a pass needs no waiver; allowed: diverged,"),
        ('"https://github', '"github', "must be the link of an issue, https://..."),
        ("2027-03-31", '"soon"', "ends = 'soon' must be a date, not a string"),
        ("2027-03-31", "2027-03-31T10:00:00", "must be a date"),
        ("reason =", "reasons =", "the key 'reason' is missing"),
        ('"the block of a kernel changes at 256 rows"', '" "', "waivers[0]: reason is empty"),
        ("[[waivers]]", "[[waiver]]", "unknown key 'waiver'; allowed: waivers; did you mean"),
    ],
)
def test_mistake_is_named(tmp_path: Path, old: str, new: str, words: str) -> None:
    assert old in ENTRY
    path = write(tmp_path, ENTRY.replace(old, new))
    with pytest.raises(ConfigError) as caught:
        load_waivers(MATRIX, path)
    assert str(caught.value).startswith(f"{path}: ")
    assert words in str(caught.value)


def test_pattern_without_a_cell_says_where_the_cells_are_shown(tmp_path: Path) -> None:
    path = write(tmp_path, ENTRY.replace("-bi", "-ib"))
    with pytest.raises(ConfigError, match=r"\d+ of them.*; `vllm-parity plan --list` shows them$"):
        load_waivers(MATRIX, path)


@pytest.mark.parametrize("pattern", [CONTROL.id, f"{CONTROL.platform}-{CONTROL.family}-*"])
def test_divergence_of_a_negative_control_cannot_be_waived(tmp_path: Path, pattern: str) -> None:
    text = ENTRY.replace("cuda-batch_invariance-text-*-eager-*-bi", pattern)
    with pytest.raises(ConfigError) as caught:
        load_waivers(MATRIX, write(tmp_path, text))
    assert "waivers[0]: verdict: " in str(caught.value)
    assert "-nudged is a negative control, which must come out diverged: " in str(caught.value)
    other = text.replace('"diverged"', '"unverified"')
    assert load_waivers(MATRIX, write(tmp_path, other))


def test_two_waivers_of_one_cell(tmp_path: Path) -> None:
    path = write(tmp_path, ENTRY + ENTRY.replace("text-*", "*"))
    with pytest.raises(ConfigError, match=r"waivers\[1\]: cell: cuda-\S+ has a waiver already"):
        load_waivers(MATRIX, path)
