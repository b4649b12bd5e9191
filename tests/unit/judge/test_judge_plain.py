"""Plain outputs: every rule of the contracts, verdicts and reason codes, one by one."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from making import (
    BITWISE,
    CLOSE,
    TEXT,
    TOKENS,
    good,
    judged,
    observation,
    output,
    pair,
    request,
    verdict,
)

import vllm_parity
from vllm_parity.errors import FormatError
from vllm_parity.judge import judge
from vllm_parity.observation import Observation, decode_observation
from vllm_parity.schema import (
    Arm,
    Arms,
    Contract,
    Family,
    Kind,
    Output,
    Platform,
    Request,
)

FOUR = [5, 6, 7, 8]


def rows(*values: dict[int, Any]) -> list[dict[int, Any]]:
    return list(values)


def flat(ids: list[int], own: Any = -0.25, **_: Any) -> list[dict[int, Any]]:
    """Rows in which every own logprob is the same."""
    return [{token: own, 99: -2.0} for token in ids]


# What passes


@pytest.mark.parametrize("contract", [BITWISE, CLOSE, TOKENS, TEXT])
def test_the_same_twice_passes(contract: Any) -> None:
    assert pair(output(FOUR), output(FOUR), contract, expect=4) == ("pass", set())


def test_counts_are_of_pairs() -> None:
    judgement = judged(observation([request(output(FOUR))], [request(output(FOUR))]))
    counts = judgement.compared
    assert (counts.requests, counts.positions, counts.logprobs) == (1, 4, 8)
    assert judgement.worst is not None
    assert (judgement.worst.abs, judgement.worst.ulp, judgement.worst.position) == (0.0, 0, 0)


def test_worst_is_null_where_no_value_was_compared() -> None:
    document = observation([request(output(FOUR))], [request(output(FOUR))], contract=TOKENS)
    judgement = judged(document)
    assert judgement.worst is None
    assert judgement.compared.logprobs == 0


def test_worst_names_the_pair_that_is_furthest_apart() -> None:
    a, b = flat(FOUR), flat(FOUR)
    b[2][99] = -2.5
    b[1][6] = -0.375
    document = observation([request(output(FOUR, a))], [request(output(FOUR, b))])
    worst = judged(document).worst
    assert worst is not None
    assert (worst.abs, worst.rel, worst.position, worst.token_id) == (0.5, 0.25, 2, 99)
    assert worst.ulp == 2**21
    assert worst.headroom is None
    document["contract"] = {"kind": "close", "atol": 1.0, "rtol": 0.0}
    worst = judged(document).worst
    assert worst is not None
    assert (worst.allowed, worst.headroom) == (1.0, 0.5)


def test_worst_of_a_zero_reference_is_infinitely_far_in_relation() -> None:
    a, b = flat([5], 0.0), flat([5], -0.5)
    worst = judged(observation([request(output([5], a))], [request(output([5], b))])).worst
    assert worst is not None
    assert worst.rel == float("inf")


# Values


def test_bitwise_sees_one_bit() -> None:
    b = flat(FOUR)
    b[3][8] = -0.25000003
    assert pair(output(FOUR, flat(FOUR)), output(FOUR, b)) == ("diverged", {"logprob"})


def test_bitwise_sees_one_bit_of_an_alternative() -> None:
    b = flat(FOUR)
    b[3][99] = -2.0000002
    assert pair(output(FOUR, flat(FOUR)), output(FOUR, b)) == ("diverged", {"alternatives"})


def test_values_are_rounded_to_float32_first() -> None:
    b = flat(FOUR, -0.25000000001)
    assert pair(output(FOUR, flat(FOUR)), output(FOUR, b))[0] == "pass"


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [(-1.0, -1.5, "pass"), (-1.0, -1.5000001, "diverged"), (-1.5, -1.0, "pass")],
)
def test_close_allows_exactly_what_it_says(a: float, b: float, expected: str) -> None:
    contract = {"kind": "close", "atol": 0.5, "rtol": 0.0}
    assert pair(output([5], flat([5], a)), output([5], flat([5], b)), contract)[0] == expected


def test_close_measures_relative_to_the_reference() -> None:
    contract = {"kind": "close", "atol": 0.0, "rtol": 0.5}
    wide, near = output([5], flat([5], -3.0)), output([5], flat([5], -2.0))
    assert pair(wide, near, contract)[0] == "pass"
    assert pair(near, wide, contract)[0] == "pass"
    far = output([5], flat([5], -3.5))
    assert pair(far, near, contract)[0] == "pass"
    assert pair(near, far, contract) == ("diverged", {"logprob"})


def test_the_order_of_a_list_says_nothing() -> None:
    a = rows({5: -0.25, 1: -1.0, 2: -1.0}, {6: -0.5, 3: -2.0})
    b = rows({2: -1.0, 5: -0.25, 1: -1.0}, {3: -2.0, 6: -0.5})
    assert pair(output([5, 6], a), output([5, 6], b)) == ("pass", set())


def test_the_order_of_a_list_hides_nothing() -> None:
    a = rows({5: -0.25, 1: -1.0, 2: -1.0}, {6: -0.5, 3: -2.0, 4: -2.5})
    b = rows({2: -1.0, 5: -0.25, 1: -1.0}, {4: -2.0, 6: -0.5, 3: -2.5})
    assert pair(output([5, 6], a), output([5, 6], b)) == ("diverged", {"alternatives"})


# Membership at the cut


def test_a_member_may_change_at_a_tie_with_the_cut() -> None:
    a = rows({5: -0.25, 1: -1.0, 2: -2.0})
    b = rows({5: -0.25, 1: -1.0, 3: -2.0})
    assert pair(output([5], a), output([5], b)) == ("pass", set())


def test_a_member_above_the_cut_may_not_change() -> None:
    a = rows({5: -0.25, 1: -1.0, 2: -2.0})
    b = rows({5: -0.25, 3: -1.0, 2: -2.0})
    assert pair(output([5], a), output([5], b)) == ("diverged", {"alternatives"})


def test_the_cut_is_as_wide_as_the_gap() -> None:
    a = rows({5: -0.25, 1: -1.0, 2: -2.0})
    b = rows({5: -0.25, 1: -1.0, 3: -2.5})
    for gap, expected in ((0.5, "pass"), (0.25, "diverged")):
        contract = {"kind": "close", "atol": 0.0, "rtol": 0.0, "tie_gap": gap}
        assert pair(output([5], a), output([5], b), contract)[0] == expected


def test_a_generated_token_below_the_list_is_no_cut() -> None:
    # The generated token is listed however improbable it is.
    a = rows({5: -9.0, 1: -1.0, 2: -2.0})
    b = rows({5: -9.0, 1: -1.0, 3: -2.0})
    assert pair(output([5], a), output([5], b))[0] == "pass"
    b = rows({5: -9.0, 1: -1.0, 3: -9.0})
    assert pair(output([5], a), output([5], b))[0] == "diverged"


def test_a_generated_token_alone_is_the_cut() -> None:
    a = rows({5: -1.0, 2: -1.0})
    b = rows({5: -1.0})
    assert pair(output([5], a), output([5], b))[0] == "pass"
    a = rows({5: -1.0, 2: -1.5})
    assert pair(output([5], a), output([5], b)) == ("diverged", {"alternatives"})


# Not finite


@pytest.mark.parametrize("bad", ["nan", "inf", "-inf"])
@pytest.mark.parametrize("contract", [BITWISE, CLOSE])
def test_an_own_value_must_be_finite_even_in_both_arms(bad: str, contract: Any) -> None:
    made = output(FOUR, rows({5: bad, 1: -1.0}, *flat([6, 7, 8])))
    assert pair(made, made, contract) == ("diverged", {"nonfinite"})


def test_nan_is_listed_in_place_of_a_mismatch() -> None:
    a, b = output(FOUR, flat(FOUR)), output(FOUR, flat(FOUR))
    b["logprobs"][2]["99"] = "nan"
    assert pair(a, b) == ("diverged", {"nonfinite"})
    b["logprobs"][2]["7"] = "nan"
    assert pair(a, b) == ("diverged", {"nonfinite"})


def test_masked_alternatives_are_equal_and_unequal_to_the_rest() -> None:
    a = output([5], rows({5: -0.25, 1: "-inf"}))
    assert pair(a, a) == ("pass", set())
    b = output([5], rows({5: -0.25, 1: -90.0}))
    loose = {"kind": "close", "atol": 100.0, "rtol": 1.0}
    for contract in (BITWISE, loose):
        assert pair(a, b, contract) == ("diverged", {"alternatives"})
        assert pair(b, a, contract) == ("diverged", {"alternatives"})


def test_a_lone_nan_and_a_nan_cut() -> None:
    a, b = rows({5: -0.25, 1: -1.0}), rows({5: -0.25, 2: "nan"})
    # No list ends at NaN, so what the other arm alone has is at no cut.
    assert pair(output([5], a), output([5], b)) == ("diverged", {"nonfinite", "alternatives"})


def test_worst_passes_over_nan_unless_there_is_nothing_else() -> None:
    a, b = output([5], rows({5: "nan"})), output([5], rows({5: -1.0}))
    worst = judged(observation([request(a)], [request(b)])).worst
    assert worst is not None
    assert worst.abs != worst.abs
    assert worst.ulp is None
    a["logprobs"][0]["7"] = b["logprobs"][0]["7"] = -2.0
    judgement = judged(observation([request(a)], [request(b)]))
    assert judgement.worst is not None
    assert (judgement.worst.abs, judgement.worst.token_id) == (0.0, 7)


def test_too_large_for_float32_is_infinite() -> None:
    made = output([5], rows({5: -1e300}))
    assert pair(made, made) == ("diverged", {"nonfinite"})


def test_the_contracts_that_read_no_values_see_no_values() -> None:
    made = output(FOUR, flat(FOUR, "nan"))
    for contract in (TOKENS, TEXT):
        assert pair(made, made, contract) == ("pass", set())


# Degenerate and no signal


def test_all_zero_in_one_arm_is_degenerate_and_in_both_no_signal() -> None:
    zero, fine = output(FOUR, flat(FOUR, 0.0)), output(FOUR, flat(FOUR))
    assert pair(zero, fine) == ("diverged", {"degenerate", "logprob"})
    assert pair(fine, zero) == ("diverged", {"degenerate", "logprob"})
    assert pair(zero, zero) == ("unverified", {"no_signal"})
    assert pair(zero, zero, TOKENS) == ("pass", set())


def test_three_zeros_are_no_pattern() -> None:
    zero = output([5, 6, 7], flat([5, 6, 7], 0.0))
    assert pair(zero, zero) == ("pass", set())


def test_negative_zero_is_zero() -> None:
    a, b = output(FOUR, flat(FOUR, 0.0)), output(FOUR, flat(FOUR, -0.0))
    assert pair(a, b) == ("unverified", {"no_signal"})
    assert pair(output([5], flat([5], 0.0)), output([5], flat([5], -0.0))) == ("pass", set())


def test_a_sentinel_is_no_logprob() -> None:
    fake, fine = output([5], flat([5], -9999.0)), output([5], flat([5]))
    assert pair(fine, fake) == ("diverged", {"degenerate", "logprob"})
    assert pair(fake, fake) == ("unverified", {"no_signal"})
    low = output([5], flat([5], -9998.0))
    assert pair(low, low) == ("pass", set())


def test_a_sentinel_among_alternatives_is_a_number() -> None:
    a = output([5], rows({5: -0.25, 1: -9999.0}))
    assert pair(a, a) == ("pass", set())


def test_zeros_are_counted_over_the_whole_arm() -> None:
    one, two = output([5, 6], flat([5, 6], 0.0)), output([7, 8], flat([7, 8], 0.0))
    requests = [request(one, name="a"), request(two, name="b")]
    assert verdict(observation(requests, requests)) == ("unverified", {"no_signal"})


# Lengths


def test_lengths_are_compared() -> None:
    assert pair(output(FOUR), output(FOUR[:3])) == ("diverged", {"length"})
    assert pair(output(FOUR), output([])) == ("diverged", {"length"})
    assert pair(output(FOUR[:3]), output(FOUR), CLOSE) == ("diverged", {"length"})


def test_a_shorter_candidate_leaves_something_uncompared() -> None:
    found = pair(output(FOUR), output(FOUR[:3]), CLOSE, expect=4)
    assert found == ("diverged", {"length", "min_compared"})


def test_both_short_of_what_was_expected() -> None:
    assert pair(output(FOUR), output(FOUR), expect=5) == ("unverified", {"short"})
    assert pair(output(FOUR), output(FOUR), CLOSE, expect=5) == (
        "unverified",
        {"short", "min_compared"},
    )
    assert pair(output(FOUR), output(FOUR[:3]), expect=5)[1] == {"short", "length"}


def test_more_than_expected_counts_for_no_more() -> None:
    long, bare = output([5, 6, 7, 8]), output([5], [])
    requests = [request(long, name="a", expect=2), request(bare, name="b", expect=1)]
    contract = {**CLOSE, "min_compared": 1.0}
    found = verdict(observation(requests, requests, contract=contract))
    assert found == ("unverified", {"missing_logprobs", "min_compared"})


# Flips and ties


def tied(gap: float = 0.0, *, both: bool = True) -> tuple[Any, Any]:
    """Two outputs whose second token flips between tokens that are `gap` apart."""
    a = rows({5: -0.25, 1: -3.0}, {6: -1.0, 7: -1.0 - gap}, {8: -0.5, 1: -3.0})
    b = copy.deepcopy(a) if both else rows(a[0], {7: -1.0 - gap, 9: -1.0 - gap}, a[2])
    return output([5, 6, 8], a, text="one"), output([5, 7, 8], b, text="two", finish="stop")


def test_a_flip_is_a_flip() -> None:
    a, b = tied(0.5)
    assert pair(a, b) == ("diverged", {"token_flip"})
    assert pair(a, b, TOKENS) == ("diverged", {"token_flip", "min_compared"})


def test_bitwise_knows_no_ties() -> None:
    assert pair(*tied()) == ("diverged", {"token_flip"})


@pytest.mark.parametrize("contract", [CLOSE, TOKENS])
def test_a_tie_before_the_end_is_unverified_unless_less_will_do(contract: Any) -> None:
    assert pair(*tied(), contract) == ("unverified", {"min_compared"})
    assert pair(*tied(), {**contract, "min_compared": 0.66}) == ("pass", set())
    assert pair(*tied(), {**contract, "min_compared": 0.67}) == ("unverified", {"min_compared"})


def test_a_tie_at_the_last_token_passes() -> None:
    a = output([5, 6], rows({5: -0.25}, {6: -1.0, 7: -1.0}), text="one")
    b = output([5, 7], rows({5: -0.25}, {6: -1.0, 7: -1.0}), text="two", finish="stop")
    for contract in (CLOSE, TOKENS):
        assert pair(a, b, contract, expect=2) == ("pass", set())


def test_the_gap_of_a_tie_holds_in_each_arm() -> None:
    a, b = tied(0.5)
    for gap, expected in ((0.5, set()), (0.49, {"token_flip"})):
        contract = {**TOKENS, "tie_gap": gap, "min_compared": 0.1}
        assert pair(a, b, contract)[1] == expected
    b["logprobs"][1]["7"] = -1.75
    assert pair(a, b, {**TOKENS, "tie_gap": 0.5, "min_compared": 0.1})[1] == {"token_flip"}


def test_a_tie_must_be_listed_in_both_arms() -> None:
    a, b = tied(both=False)
    contract = {**TOKENS, "tie_gap": 9.0, "min_compared": 0.1}
    assert pair(a, b, contract) == ("diverged", {"token_flip"})


@pytest.mark.parametrize("missing", [None, []])
def test_logprobs_that_only_a_tie_needs_are_never_missing(missing: Any) -> None:
    a, b = tied()
    b["logprobs"] = missing
    assert pair(a, b, {**TOKENS, "min_compared": 0.1}) == ("diverged", {"token_flip"})


def test_two_masked_tokens_are_no_tie() -> None:
    made = rows({6: "-inf", 7: "-inf"})
    contract = {**TOKENS, "tie_gap": 9.0}
    assert pair(output([6], made), output([7], made), contract) == ("diverged", {"token_flip"})


def test_after_a_flip_nothing_is_compared() -> None:
    a, b = tied()
    b["token_ids"] += [1, 2, 3]
    b["logprobs"][2] = {"8": -7.0}
    b["logprobs"] += [{"1": "nan"}] * 3
    assert pair(a, b, {**CLOSE, "min_compared": 0.1}) == ("pass", set())


def test_the_position_of_a_flip_is_compared() -> None:
    a, b = tied()
    b["logprobs"][1]["6"] = -1.0005
    contract = {**CLOSE, "atol": 1e-4, "tie_gap": 1e-3, "min_compared": 0.1}
    # Own is the reference's token there.
    assert pair(a, b, contract) == ("diverged", {"logprob"})
    b["logprobs"][1].update({"6": -1.0, "7": -1.0005})
    assert pair(a, b, contract) == ("diverged", {"alternatives"})


def test_a_flipped_token_that_one_arm_lists_alone_is_membership() -> None:
    a, b = tied(0.5, both=False)
    assert pair(a, b) == ("diverged", {"token_flip", "alternatives"})


def test_a_flip_without_values_at_its_position() -> None:
    a, b = tied()
    del b["logprobs"][1]["7"]
    found = pair(a, b, {**CLOSE, "min_compared": 0.1})
    assert found == ("diverged", {"token_flip", "missing_logprobs"})


# Missing data


def test_missing_logprobs() -> None:
    whole, none = output(FOUR), output(FOUR)
    none["logprobs"] = None
    assert pair(whole, none) == ("unverified", {"missing_logprobs"})
    assert pair(none, none, CLOSE) == ("unverified", {"missing_logprobs", "min_compared"})
    short = output(FOUR, flat(FOUR)[:2])
    assert pair(output(FOUR, flat(FOUR)), short) == ("unverified", {"missing_logprobs"})


def test_a_position_without_the_generated_token_is_not_compared() -> None:
    a, b = output(FOUR, flat(FOUR)), output(FOUR, flat(FOUR))
    del b["logprobs"][1]["6"]
    b["logprobs"][1]["99"] = -7.0
    assert pair(a, b) == ("unverified", {"missing_logprobs"})
    judgement = judged(observation([request(a)], [request(b)]))
    assert (judgement.compared.positions, judgement.reasons[0].position) == (3, 1)


def test_missing_data_hides_no_mismatch_and_the_other_way_round() -> None:
    a, b = output(FOUR, flat(FOUR)), output(FOUR, flat(FOUR), text="other")
    del b["logprobs"][1]["6"]
    b["logprobs"][2]["7"] = -0.5
    assert pair(a, b) == ("diverged", {"logprob", "detokenize", "missing_logprobs"})


def test_missing_tokens() -> None:
    whole, none = output(FOUR), output(None)
    for contract in (BITWISE, TOKENS):
        verdict_, codes = pair(whole, none, contract)
        assert verdict_ == "unverified"
        assert "missing_tokens" in codes
    assert pair(whole, output(None, text="other"))[1] == {"missing_tokens", "text"}


def test_missing_requests_and_outputs() -> None:
    a, b = request(output(FOUR), name="a"), request(output(FOUR), name="b")
    assert verdict(observation([a, b], [a])) == ("unverified", {"missing_request"})
    assert verdict(observation([a], [a, b])) == ("unverified", {"missing_request"})
    two = request(output(FOUR), output(FOUR, index=1), name="a")
    assert verdict(observation([two], [a])) == ("unverified", {"missing_request"})
    assert verdict(observation([a], [two])) == ("unverified", {"missing_request"})
    none = request(name="b")
    assert verdict(observation([a, none], [a, none])) == ("unverified", {"missing_request"})


def test_missing_requests_count_as_expected() -> None:
    a, b = request(output(FOUR), name="a"), request(output(FOUR), name="b")
    found = verdict(observation([a, b], [a], contract=CLOSE))
    assert found == ("unverified", {"missing_request", "min_compared"})
    found = verdict(observation([a, b], [a], contract={**CLOSE, "min_compared": 0.5}))
    assert found == ("unverified", {"missing_request"})


@pytest.mark.parametrize("contract", [BITWISE, CLOSE, TOKENS, TEXT])
def test_nothing_at_all_is_empty(contract: Any) -> None:
    found = verdict(observation([], [], contract=contract))
    assert found == ("unverified", {"empty"})


def test_no_token_at_all_is_empty_too() -> None:
    assert pair(output([]), output([])) == ("unverified", {"empty"})
    assert pair(output([]), output([]), TEXT) == ("pass", set())


# Texts and endings


def test_text_with_equal_ids_is_detokenize() -> None:
    assert pair(output(FOUR), output(FOUR, text="test")) == ("diverged", {"detokenize"})
    assert pair(output(FOUR), output(FOUR, text="test"), TOKENS)[1] == {"detokenize"}


def test_a_null_text_is_not_compared_but_under_text() -> None:
    a, b = output(FOUR), output(FOUR, text=None)
    assert pair(a, b) == ("pass", set())
    assert pair(a, b, TEXT) == ("unverified", {"missing_tokens"})


def test_under_text_ids_are_only_for_naming() -> None:
    assert pair(output(FOUR), output([1], text="other"), TEXT) == ("diverged", {"text"})
    assert pair(output(FOUR), output([1]), TEXT) == ("pass", set())
    assert pair(output(None), output(None, text="other"), TEXT) == ("diverged", {"text"})


def test_finish_reasons() -> None:
    assert pair(output(FOUR), output(FOUR, finish="stop")) == ("diverged", {"finish_reason"})
    assert pair(output(FOUR), output(FOUR, finish=None)) == ("diverged", {"finish_reason"})
    assert pair(output(FOUR), output(FOUR, finish="stop"), TEXT)[1] == {"finish_reason"}


def test_other_lengths_leave_the_endings_alone() -> None:
    found = pair(output(FOUR), output(FOUR[:3], text="tex", finish="stop"))
    assert found == ("diverged", {"length"})


# The pair


def test_an_extra_knob_is_no_pair() -> None:
    document = good("batch_invariance")
    document["arms"]["candidate"]["knobs"]["dtype"] = "float16"
    assert verdict(document) == ("invalid_pair", {"extra_knob"})
    document["follows"] = ["dtype"]
    assert verdict(document) == ("pass", set())


def test_every_knob_is_listed() -> None:
    document = good("batch_invariance")
    document["arms"]["candidate"]["knobs"].update(dtype="x" * 500, seed=[1, {"a": [2]}])
    reasons = judged(document).reasons
    assert [reason.message.split()[0] for reason in reasons] == ["dtype", "seed"]
    assert all(len(reason.message) < 400 for reason in reasons)


def test_a_contrast_that_does_not_differ_is_no_pair() -> None:
    document = good("batch_invariance")
    document["arms"]["candidate"]["knobs"]["batch_size"] = 1
    assert verdict(document) == ("invalid_pair", {"same_knob"})


def test_absent_and_null_knobs_are_the_same_and_true_is_not_one() -> None:
    document = good("batch_invariance")
    knobs = document["arms"]["candidate"]["knobs"]
    knobs["extra"] = None
    knobs["batch_size"] = 2.0
    assert verdict(document) == ("pass", set())
    document["arms"]["reference"]["knobs"].update(flag=1, deep={"a": [1, 2]})
    knobs.update(flag=True, deep={"a": [1, 2]})
    assert verdict(document) == ("invalid_pair", {"extra_knob"})
    for other in ({"a": [1]}, {"b": [1, 2]}, {"a": [1, 3]}, [1]):
        knobs.update(flag=1, deep=other)
        assert verdict(document) == ("invalid_pair", {"extra_knob"})


@pytest.mark.parametrize("field", ["prompt_tokens", "expect_tokens"])
def test_another_prompt_is_no_pair(field: str) -> None:
    document = good("batch_invariance")
    document["arms"]["candidate"]["requests"][0][field] += 1
    found = verdict(document)
    assert found[0] == "invalid_pair"
    assert "prompt" in found[1]


def test_a_control_with_other_knobs_is_no_control() -> None:
    document = good("spec_decode")
    document["arms"]["control"]["knobs"]["seed"] = 43
    assert verdict(document) == ("invalid_pair", {"extra_knob"})


# Witnesses


@pytest.mark.parametrize(
    ("require", "witness", "holds"),
    [
        ("n", 1, True),
        ("n", 0.5, True),
        ("n", True, True),
        ("n", 0, False),
        ("n", False, False),
        ("n", -1, False),
        ("n", "many", False),
        ("n", None, False),
        ("n>=3", 3, True),
        ("n >= 3", 3, True),
        ("n>=3", 2, False),
        ("n>=1", True, False),
        ("n>=3", "3", False),
        ("n<=3", 3.0, True),
        ("n<=3", 4, False),
        ("n<=0", None, False),
        ("n==V1", "V1", True),
        ("n==V1", "V2", False),
        ("n==3", 3, True),
        ("n== 3", "3", True),
        ("n==3", 3.0, False),
        ("n==true", True, True),
        ("n==a b", "a b", True),
        ("n==null", None, False),
        ("reference.n", 1, False),
        ("control.n", 1, False),
        ("candidate.n", 1, True),
    ],
)
def test_witnesses(require: str, witness: Any, holds: bool) -> None:
    document = observation([request(output(FOUR))], [request(output(FOUR))], require=(require,))
    document["arms"]["candidate"]["witness"]["n"] = witness
    expected = ("pass", set()) if holds else ("unverified", {"witness"})
    assert verdict(document) == expected


def test_a_witness_of_another_arm() -> None:
    document = observation([request(output(FOUR))], [request(output(FOUR))])
    document["arms"]["reference"]["witness"]["n"] = 2
    document["require"] = ["reference.n>=2"]
    assert verdict(document) == ("pass", set())


@pytest.mark.parametrize(
    "require", ["", "n>3", "n>=", "n>=x", "n<=nan", "n<=inf", "n>=1_0", "a b", ">=3", "n="]
)
def test_a_requirement_that_cannot_be_read(require: str) -> None:
    document = observation([request(output(FOUR))], [request(output(FOUR))], require=(require,))
    with pytest.raises(FormatError, match=r"\$\.require: expected NAME"):
        judged(document)


# Verdicts that need no comparison


def test_not_run_comes_first() -> None:
    document = good("batch_invariance")
    document.update(not_run="no GPU", arms=None, error=None)
    assert verdict(document) == ("not_run", set())


def test_errors_stand_alone() -> None:
    document = good("batch_invariance")
    document["error"] = {"arm": "candidate", "kind": "timeout", "message": "600 s"}
    judgement = judged(document)
    assert verdict(document) == ("error", {"engine"})
    assert judgement.reasons[0].message == "candidate: timeout: 600 s"
    document["error"]["arm"] = None
    assert judged(document).reasons[0].message == "timeout: 600 s"


@pytest.mark.parametrize("arm", ["reference", "candidate"])
def test_an_arm_that_is_not_there_is_an_error(arm: str) -> None:
    document = good("batch_invariance")
    document["arms"][arm] = None
    assert verdict(document) == ("error", {"engine"})


# Controls


def test_a_control_that_agrees_changes_nothing() -> None:
    a, b = output(FOUR, flat(FOUR)), output(FOUR, flat(FOUR, -0.5))
    assert pair(a, a, control=a) == ("pass", set())
    assert pair(a, b, control=a) == ("diverged", {"logprob"})


def test_a_reference_that_does_not_repeat_itself_is_noisy() -> None:
    a, b = output(FOUR, flat(FOUR)), output(FOUR, flat(FOUR, -0.5))
    assert pair(a, b, control=b) == ("noisy", {"logprob", "control"})
    assert pair(a, a, control=b) == ("noisy", {"control"})


def test_noise_excuses_only_what_it_shows_itself() -> None:
    a, b = output(FOUR, flat(FOUR)), output(FOUR, flat(FOUR, -0.5))
    worse = output(FOUR, flat(FOUR, -0.5), text="other")
    assert pair(a, worse, control=b) == ("diverged", {"logprob", "detokenize", "control"})


def test_a_control_never_hides_what_is_not_finite() -> None:
    a, b = output(FOUR, flat(FOUR)), output(FOUR, flat(FOUR, "nan"))
    assert pair(a, b, control=b) == ("diverged", {"nonfinite"})
    low = output([5], rows({5: -0.25, 1: "-inf"}))
    fine = output([5], rows({5: -0.25, 1: -3.0}))
    assert pair(fine, low, control=low) == ("diverged", {"alternatives"})
    alone = output([5], rows({5: -0.25, 2: "-inf"}))
    assert pair(fine, alone, control=alone) == ("diverged", {"alternatives"})


@pytest.mark.parametrize("what", ["logprobs", "token_ids", "requests"])
def test_a_control_with_missing_data_is_none(what: str) -> None:
    a, b = output(FOUR, flat(FOUR)), output(FOUR, flat(FOUR, -0.5))
    control = copy.deepcopy(b)
    document = observation([request(a)], [request(b)], control=[request(control)])
    if what == "requests":
        document["arms"]["control"]["requests"] = []
    else:
        document["arms"]["control"]["requests"][0]["outputs"][0][what] = None
    assert verdict(document) == ("diverged", {"logprob"})


def test_a_control_that_lacks_a_part_is_none_though_the_rest_differs() -> None:
    a, b = output(FOUR, flat(FOUR)), output(FOUR, flat(FOUR, -0.5))
    lacking = output(FOUR, flat(FOUR))
    lacking["logprobs"][1] = {}
    requests = [request(one, name=name) for one, name in ((a, "one"), (a, "two"))]
    differing = [request(b, name="one"), request(a, name="two")]
    control = [request(b, name="one"), request(lacking, name="two")]
    document = observation(requests, differing, control=control)
    assert verdict(document) == ("diverged", {"logprob"})


def test_an_invalid_pair_comes_before_noise() -> None:
    document = good("spec_decode")
    document["arms"]["candidate"]["knobs"]["seed"] = 1
    document["arms"]["control"]["requests"][0]["outputs"][0]["text"] = "other"
    assert verdict(document) == ("invalid_pair", {"extra_knob", "control"})


# From Python


def test_an_observation_made_in_python() -> None:
    def arm(batch: int) -> Arm:
        made = Output(index=0, token_ids=(5,), logprobs=[{5: -0.25}], finish_reason="stop")
        return Arm(
            knobs={"batch_size": batch}, witness={}, requests=[Request(id="a", outputs=[made])]
        )

    made = Observation(
        cell="c",
        family=Family.BATCH_INVARIANCE,
        platform=Platform.CPU,
        contrast=["batch_size"],
        contract=Contract(kind=Kind.BITWISE),
        environment={},
        arms=Arms(reference=arm(1), candidate=arm(2)),
    )
    assert judge(made).verdict == "pass"
    # The package can be called by its own name, whichever of the two was imported.
    assert vllm_parity.judge(made) == judge(made)
    assert judge(made).as_dict()["worst"]["allowed"] == 0.0


def test_token_ids_too_long_for_anything() -> None:
    made = Output(index=0, token_ids=[2**70], logprobs=None)
    arms = [
        Arm(knobs={"n": n}, witness={}, requests=[Request(id="a", outputs=[made])]) for n in (1, 2)
    ]
    document = Observation(
        cell="c",
        family=Family.BATCH_INVARIANCE,
        platform=Platform.CPU,
        contrast=["n"],
        contract=Contract(kind=Kind.BITWISE),
        environment={},
        arms=Arms(reference=arms[0], candidate=arms[1]),
    )
    with pytest.raises(FormatError, match="64 bits"):
        judge(document)


def test_many_outputs_are_compared_in_blocks() -> None:
    ids = list(range(1, 2001))
    a = [request(output(list(ids), flat(ids)), name=f"r{n}") for n in range(20)]
    b = copy.deepcopy(a)
    b[3]["outputs"][0]["logprobs"][7]["8"] = -0.5
    b[18]["outputs"][0]["logprobs"][1999]["99"] = -2.5
    b[19]["outputs"][0]["token_ids"][1] = 77
    b[19]["outputs"][0]["logprobs"][1]["77"] = -3.0
    document = observation(a, b)
    judgement = judge(decode_observation(json.dumps(document).encode()))
    places = {(r.code, r.request, r.position) for r in judgement.reasons}
    assert places == {
        ("logprob", "r3", 7),
        ("alternatives", "r18", 1999),
        ("token_flip", "r19", 1),
        ("alternatives", "r19", 1),
    }
    assert judgement.compared.positions == 19 * 2000 + 2
    assert judgement.compared.requests == 20
