"""What the records of a cell show: since when it is red, how often, and what may be to blame."""

from __future__ import annotations

import datetime
import json
from dataclasses import replace
from typing import Any

import pytest
from cell_records import BAD, CELL, GOOD, NUDGED, day, document, failed

from vllm_parity.judge import judge
from vllm_parity.matrix import load_matrix
from vllm_parity.observation import Observation, decode_observation
from vllm_parity.outcome import Outcome, outcome_of
from vllm_parity.report.history import (
    NOT_RECORDED,
    Change,
    Clock,
    History,
    Record,
    changes,
    look_back,
    steps,
)
from vllm_parity.report.settings import REVISION, Sign, environment_of, settings_of, sign_of
from vllm_parity.verdict import Verdict

CELLS = {cell.id: cell for cell in load_matrix().cells}


def read(data: dict[str, Any]) -> Observation:
    return decode_observation(json.dumps(data).encode())


def record(data: dict[str, Any]) -> Record:
    observation = read(data)
    judgement = judge(observation)
    cell = CELLS[observation.cell]
    return Record(
        file=f"{observation.recorded_at}.json",
        time=datetime.datetime.fromisoformat(observation.recorded_at or ""),
        clock=Clock.RECORD,
        judgement=judgement,
        outcome=outcome_of(cell, judgement.verdict),
        sign=sign_of(judgement.verdict, cell),
        environment=observation.environment,
        settings=settings_of(observation),
        ran=observation.arms.reference is not None,
    )


def history(*documents: dict[str, Any], gates: bool = True) -> History:
    return look_back(CELL, [record(one) for one in documents], gates=gates)


def good(number: int, **environment: str) -> dict[str, Any]:
    return document(GOOD, day(number), environment=environment)


def bad(number: int, **environment: str) -> dict[str, Any]:
    return document(BAD, day(number), environment=environment)


def suspects(found: History) -> dict[str, dict[str, str]]:
    return {one.name: dict(one.values) for one in found.suspects}


# Since when


def test_first_red_and_what_lies_between_it_and_the_last_green() -> None:
    found = history(
        good(1, vllm="0.31.0"),
        good(2, vllm="0.32.0"),
        failed(day(3)),
        bad(4, vllm="0.33.0", blas="mkl"),
        bad(5, vllm="0.34.0", blas="mkl"),
    )
    assert found.first_red is not None
    assert found.last_green is not None
    assert (found.first_red.time.day, found.last_green.time.day) == (4, 2)
    assert found.between == (
        Change(name="vllm", before="0.32.0", after="0.33.0"),
        Change(name="blas", before=NOT_RECORDED, after="mkl"),
    )


def test_nothing_red() -> None:
    found = history(good(1), good(2))
    assert (found.first_red, found.last_green, found.between) == (None, None, ())
    assert found.exit_code == 0


def test_red_from_the_start_has_no_green_before() -> None:
    found = history(bad(1), good(2, vllm="0.33.0"))
    assert found.first_red is not None
    assert (found.last_green, found.between) == (None, ())


def test_knobs_contract_and_requests_are_settings_as_well() -> None:
    requests = document(GOOD)["arms"]
    for arm in requests.values():
        if arm is not None:
            arm["requests"][0]["prompt_tail"] = "another prompt"
    contract = {"kind": "close", "atol": 0.0, "rtol": 0.0}
    knobs = {"enforce_eager": True, "moe_backend": "triton"}
    before = document(GOOD, day(1))
    after = document(GOOD, day(2), knobs=knobs, contract=contract)
    found = {one.name: (one.before, one.after) for one in changes(record(before), record(after))}
    assert found == {
        "enforce_eager": ("false", "true"),
        "moe_backend": (NOT_RECORDED, "triton"),
        "contract": ("bitwise", "close atol=0.0 rtol=0.0"),
    }
    (one,) = changes(record(before), record(document(GOOD, day(2), arms=requests)))
    assert one.name == "requests"


def test_a_knob_in_which_the_arms_differ_is_both_values() -> None:
    settings = settings_of(read(document()))
    assert settings["batch_size"] == "1 | 2"
    assert settings["dtype"] == "bfloat16"


def test_null_and_absent_knobs_are_the_same() -> None:
    plain, null = (document(knobs=knobs) for knobs in ({}, {"moe_backend": None}))
    assert environment_of(settings_of(read(plain))) == environment_of(settings_of(read(null)))


def test_environment_does_not_hide_a_knob_of_the_same_name() -> None:
    settings = settings_of(read(document(environment={"dtype": "x"})))
    assert (settings["dtype"], settings["knobs.dtype"]) == ("x", "bfloat16")


def test_what_did_not_start_hides_no_change() -> None:
    records = [
        record(one) for one in (good(1, torch="2.12"), failed(day(2)), good(3, torch="2.13"))
    ]
    told = [[one.name for one in changed] for _, changed in steps(records)]
    assert told == [[], [], ["torch"]]


# How often


def test_flaky_in_one_environment_is_red() -> None:
    found = history(*(good(n) for n in range(1, 6)), bad(6), bad(7), failed(day(8)), good(9))
    (group,) = found.flaky
    assert (group.rate.events, group.rate.runs) == (2, 8)
    assert found.exit_code == 1
    assert found.suspects == ()


def test_interval_of_2_in_7() -> None:
    (group,) = history(*(good(n) for n in range(1, 6)), bad(6), bad(7)).flaky
    assert group.rate.interval() == pytest.approx((0.0367, 0.7096), abs=5e-5)


def test_two_environments_that_agree_with_themselves_are_not_flaky() -> None:
    found = history(good(1), bad(2, torch="2.14.0"), good(3), bad(4, torch="2.14.0"))
    assert found.flaky == ()


def test_other_requests_are_no_flake() -> None:
    changed = document(BAD, day(2))
    for arm in changed["arms"].values():
        if arm is not None:
            arm["requests"][0]["prompt_tail"] = "another prompt"
    assert history(good(1), changed).flaky == ()


def test_revision_of_this_project_is_no_environment_but_may_be_what_changed() -> None:
    both = history(good(1, **{REVISION: "a"}), bad(2, **{REVISION: "b"}))
    (group,) = both.flaky
    assert group.turned_with_revision
    back = history(*(good(1, **{REVISION: "a"}), bad(2, **{REVISION: "b"}), good(3)))
    assert [one.turned_with_revision for one in back.flaky] == [False]
    same = history(good(1, **{REVISION: "a"}), bad(2, **{REVISION: "a"}))
    assert [one.turned_with_revision for one in same.flaky] == [False]
    assert [one.name for one in both.between] == [REVISION]


@pytest.mark.parametrize("verdict", [Verdict.ERROR, Verdict.NOT_RUN, Verdict.INVALID_PAIR])
def test_what_shows_nothing_of_the_numbers_is_neither(verdict: Verdict) -> None:
    assert sign_of(verdict, None) is Sign.NONE
    assert sign_of(Verdict.UNVERIFIED, CELLS[NUDGED]) is Sign.NONE


def test_unverified_makes_nothing_flaky_and_nobody_suspect() -> None:
    unverified = document(GOOD, day(2), require=["never_seen"])
    found = history(good(1), unverified)
    assert found.records[-1].verdict is Verdict.UNVERIFIED
    assert (found.flaky, found.suspects, found.first_red) == ((), (), None)
    assert found.exit_code == 5


# Who may be to blame


def test_the_one_value_that_differs_is_a_suspect() -> None:
    found = history(good(1, torch="2.12.0"), bad(2, torch="2.13.0"))
    assert suspects(found) == {"torch": {"2.12.0": "pass", "2.13.0": "diverged"}}


def test_the_one_knob_that_differs_is_a_suspect() -> None:
    found = history(document(GOOD, day(1)), document(BAD, day(2), knobs={"enforce_eager": True}))
    assert suspects(found) == {"enforce_eager": {"false": "pass", "true": "diverged"}}


def test_of_two_values_that_differ_none_is_named() -> None:
    assert suspects(history(good(1, torch="2.12.0"), bad(2, torch="2.14.0", arch="sm_80"))) == {}


def test_pairs_name_each_value_once_whatever_their_number_and_order() -> None:
    found = history(
        bad(1, torch="2.14.0"),
        good(2),
        good(3, arch="sm_80"),
        bad(4, arch="sm_80", torch="2.14.0"),
        good(5),
    )
    assert suspects(found) == {"torch": {"2.14.0": "diverged", "2.13.0": "pass"}}
    assert len(found.suspects) == 1


def test_revision_beside_the_one_value_does_not_hide_it() -> None:
    found = history(good(1, vllm="0.32.0", **{REVISION: "a"}), bad(2, vllm="1", **{REVISION: "b"}))
    assert list(suspects(found)) == ["vllm"]


def test_what_is_flaky_on_one_side_alone_is_told_in_runs() -> None:
    found = history(good(1), good(2), good(3, torch="1"), bad(4, torch="1"))
    told = {"2.13.0": "pass in 2 of 2 runs", "1": "diverged in 1 of 2 runs"}
    assert suspects(found) == {"torch": told}


def test_of_two_that_are_flaky_no_value_is_to_blame() -> None:
    assert suspects(history(good(1), bad(2), good(3, torch="1"), bad(4, torch="1"))) == {}


# What it comes to


def test_exit_code_is_that_of_the_latest() -> None:
    assert history(bad(1, vllm="0.31.0"), good(2)).exit_code == 0
    assert history(good(1, vllm="0.31.0"), bad(2)).exit_code == 1
    assert history(good(1), failed(day(2))).exit_code == 7


def test_flaky_cell_that_does_not_gate_is_told_and_not_red() -> None:
    found = history(good(1), bad(2), good(3), gates=False)
    assert found.flaky
    assert found.exit_code == 0


def test_negative_control_is_green_where_it_diverges() -> None:
    found = history(document(BAD, day(1), cell=NUDGED), document(GOOD, day(2), cell=NUDGED))
    assert [one.sign for one in found.records] == [Sign.GREEN, Sign.RED]
    assert [one.rate.events for one in found.flaky] == [1]


def test_stale_waiver_of_the_latest_is_6() -> None:
    stale = Outcome(verdict=Verdict.PASS, counts=Verdict.PASS, stale_waiver=True)
    (one,) = history(good(1)).records
    assert look_back(CELL, [replace(one, outcome=stale)]).exit_code == 6
