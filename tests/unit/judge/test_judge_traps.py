"""The traps that real comparators fell into, one test for each that concerns a judge.

The numbers are those of the list of cases that this project keeps. Where a trap is about running
and not about judging (retries, reruns, fixtures), no test is here.
"""

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
    Json,
    choice,
    chunk,
    delta,
    entry,
    good,
    judged,
    observation,
    output,
    pair,
    request,
    response,
    stream,
    verdict,
)

from vllm_parity.errors import FormatError
from vllm_parity.judge.runs import compare_environments
from vllm_parity.observation import decode_observation

IDS = [5, 6, 7, 8]


def test_x01_missing_logprobs_are_no_reason_to_skip() -> None:
    none = output(IDS)
    none["logprobs"] = None
    assert pair(output(IDS), none)[0] == "unverified"
    assert pair(none, none)[0] == "unverified"


def test_x02_what_was_compared_is_what_was_expected() -> None:
    hole = output(IDS)
    hole["logprobs"][2] = {}
    assert pair(output(IDS), hole, CLOSE)[1] == {"missing_logprobs", "min_compared"}


@pytest.mark.parametrize("lengths", [(8, 7), (8, 0), (7, 8)])
def test_x03_nothing_is_cut_to_the_shorter(lengths: tuple[int, int]) -> None:
    a, b = (output(list(range(n))) for n in lengths)
    assert pair(a, b) == ("diverged", {"length"})


def test_x03_zero_against_zero_is_nothing() -> None:
    assert pair(output([]), output([]))[0] == "unverified"


def test_x04_an_early_end_is_a_difference() -> None:
    a = output([1, 2, 3, 0], finish="stop")
    assert "token_flip" in pair(a, output([1, 2, 3, 4]))[1]
    assert pair(output([1, 2, 3], finish="stop"), output([1, 2, 3, 4])) == ("diverged", {"length"})
    assert pair(output([1, 2, 3], finish="stop"), output([1, 2, 3]))[1] == {"finish_reason"}


def test_x05_both_ending_at_once_is_short() -> None:
    assert pair(output([0]), output([0]), expect=8) == ("unverified", {"short"})


def test_x06_how_much_was_compared_is_told() -> None:
    compared = judged(good("batch_invariance")).as_dict()["compared"]
    assert compared == {"requests": 2, "positions": 11, "logprobs": 33}


def test_x07_a_near_tie_is_no_regression() -> None:
    rows: list[Json] = [{5: -1.0, 6: -1.0 - 2**-12}]
    a, b = output([5], rows), output([6], rows)
    assert pair(a, b, CLOSE) == ("pass", set())


def test_x08_a_tie_excuses_its_own_tokens_only() -> None:
    # Two groups tie, 5 with 6 and 7 with 8: a flip from one group to the other is no tie.
    rows: list[Json] = [{5: -1.0, 6: -1.0, 7: -2.0, 8: -2.0}]
    assert pair(output([5], rows), output([7], rows), TOKENS)[1] == {"token_flip"}


def test_x09_members_change_places_at_a_tie() -> None:
    a = output([5], [{5: -0.25, 1: -1.0, 2: -1.0, 3: -2.0}])
    b = output([5], [{5: -0.25, 2: -1.0, 1: -1.0, 4: -2.0}])
    assert pair(a, b) == ("pass", set())


def test_x10_values_pair_by_token_and_not_by_place() -> None:
    a = output([5], [{5: -0.25, 1: -1.0, 2: -2.0}])
    b = output([5], [{5: -0.25, 2: -1.0, 1: -2.0}])
    assert pair(a, b)[1] == {"alternatives"}


def test_x11_a_relative_tolerance_is_asked_for_explicitly() -> None:
    document = observation([request(output(IDS))], [request(output(IDS))])
    document["contract"] = {"kind": "close", "rtol": 0.05}
    with pytest.raises(FormatError, match="both atol and rtol"):
        judged(document)


def test_x12_nan_passes_no_comparison() -> None:
    bad = output([5], [{5: "nan", 6: -1.0}])
    loose = {"kind": "close", "atol": 1e30, "rtol": 1.0}
    assert pair(bad, bad, loose) == ("diverged", {"nonfinite"})
    assert pair(output([5], [{5: -1.0, 6: -1.0}]), bad, loose) == ("diverged", {"nonfinite"})


def test_x13_minus_infinity_is_for_masked_alternatives() -> None:
    fine = output([5], [{5: -0.25, 6: "-inf"}])
    assert pair(fine, fine) == ("pass", set())
    bad = output([5], [{5: "-inf", 6: -1.0}])
    assert pair(bad, bad) == ("diverged", {"nonfinite"})


def test_x14_sentinels_are_not_values() -> None:
    for value in (-9999.0, -3.4e38):
        made = output([5], [{5: value, 6: -1.0}])
        assert pair(made, made) == ("unverified", {"no_signal"})


def test_x15_how_nothing_is_spelled() -> None:
    null = response(choice("a", ids=[1], entries=[entry("a", None)]))
    event = chunk(delta("a", ids=[1], entries=[entry("a", None)], finish="length"))
    assert verdict(stream(null, event, contract=BITWISE))[1] == {"missing_logprobs"}


def test_x16_all_zeros_say_nothing() -> None:
    zeros = output(IDS, [{token: 0.0} for token in IDS])
    assert pair(zeros, zeros) == ("unverified", {"no_signal"})


def test_x17_the_chosen_token_must_be_listed() -> None:
    bad = output([5], [{6: -0.25}])
    assert pair(bad, bad)[1] == {"missing_logprobs"}


def test_x18_the_chosen_token_need_not_be_the_best() -> None:
    made = output([5], [{5: -3.0, 6: -0.25}])
    assert pair(made, made) == ("pass", set())


def test_x19_zeros_and_round_trips() -> None:
    assert pair(output([5], [{5: 0.0}]), output([5], [{5: -0.0}])) == ("pass", set())
    assert pair(output([5], [{5: -0.1}]), output([5], [{5: -0.10000000149}])) == ("pass", set())


def test_x20_values_that_a_cast_makes_equal_are_not() -> None:
    a, b = output([5], [{5: -1.0}]), output([5], [{5: -1.001}])  # the same in bfloat16
    assert pair(a, b)[1] == {"logprob"}


def test_x21_a_contract_has_its_own_tolerance() -> None:
    a, b = output([5], [{5: -1.0}]), output([5], [{5: -1.03}])
    assert pair(a, b, {"kind": "close", "atol": 0.0625, "rtol": 0.0}) == ("pass", set())


def test_x22_alternatives_count() -> None:
    a, b = output([5], [{5: -1.0, 6: -2.0}]), output([5], [{5: -1.0, 6: -2.5}])
    assert pair(a, b)[1] == {"alternatives"}


def test_x23_what_comes_after_a_flip_is_not_compared_and_that_is_told() -> None:
    rows: list[Json] = [{5: -1.0, 6: -1.0}, {7: -1.0}]
    a, b = output([5, 7], rows), output([6, 7], [rows[0], {7: -9.0}])
    judgement = judged(observation([request(a)], [request(b)], contract=CLOSE))
    assert judgement.codes == {"min_compared"}
    assert "1 of 2 expected positions" in judgement.reasons[0].message


def test_x24_values_of_the_members_count() -> None:
    test_x22_alternatives_count()


def test_x25_the_same_text_from_other_ids_is_a_difference() -> None:
    assert pair(output([5, 6]), output([56, 1])) == ("diverged", {"token_flip", "alternatives"})


def test_x26_another_text_from_the_same_ids_is_the_detokenizers() -> None:
    assert pair(output(IDS), output(IDS, text="te\ufffdt")) == ("diverged", {"detokenize"})


def test_x27_a_first_chunk_with_the_role_alone() -> None:
    for content in ({"content": ""}, {}):
        first = chunk({"index": 0, "delta": {"role": "assistant", **content}})
        made = stream(response(choice("a")), first, chunk(delta("a", finish="length")))
        assert verdict(made) == ("pass", set())


def test_x28_where_the_finish_reason_comes() -> None:
    last = [chunk(delta("a")), chunk(delta(finish="length"))]
    assert verdict(stream(response(choice("a")), *last)) == ("pass", set())
    twice = [chunk(delta("a", finish="length")), chunk(delta(finish="length"))]
    assert verdict(stream(response(choice("a")), *twice))[1] == {"protocol"}


def test_x29_usage_with_and_without_a_choice() -> None:
    usage = {"total_tokens": 3}
    made = response(choice("a"), usage=usage)
    end = chunk(delta("a", finish="length"))
    stub = chunk({"index": 0, "delta": {}, "finish_reason": None}, usage=usage)
    for last in (chunk(usage=usage), stub):
        assert verdict(stream(made, end, last)) == ("pass", set())


def test_x30_a_stream_must_end() -> None:
    made = stream(response(choice("a")), chunk(delta("a", finish="length")), done=False)
    assert verdict(made) == ("unverified", {"truncated_stream"})
    made = stream(response(choice("a")), chunk(delta("a")))
    assert verdict(made) == ("unverified", {"truncated_stream"})


def test_x31_chunks_do_not_count() -> None:
    pieces = [chunk(delta(c)) for c in "hello"]
    made = stream(response(choice("hello")), *pieces, chunk(delta(finish="length")))
    assert verdict(made) == ("pass", set())


def test_x32_choices_interleave() -> None:
    made = response(choice("ab"), choice("cd", index=1))
    events = [
        chunk(delta("c", index=1), delta("a")),
        chunk(delta("b", finish="length")),
        chunk(delta("d", index=1, finish="length")),
    ]
    assert verdict(stream(made, *events)) == ("pass", set())


def test_x33_cumulative_logprobs_are_not_passed() -> None:
    one, two = entry("a", -0.25), entry("b", -0.5)
    made = response(choice("ab", ids=[1, 2], entries=[one, two]))
    events = [
        chunk(delta("a", ids=[1], entries=[one])),
        chunk(delta("b", ids=[2], entries=[one, two], finish="length")),
    ]
    assert verdict(stream(made, *events, contract=BITWISE))[0] == "diverged"


def test_x34_reasoning_and_tool_calls_count() -> None:
    call = [{"function": {"name": "f", "arguments": "{}"}}]
    for fields in ({"reasoning": "hm"}, {"tool_calls": call}):
        made = stream(response(choice("", **fields)), chunk(delta("", finish="length")))
        assert verdict(made) == ("diverged", {"text"})


def test_x36_usage_counts() -> None:
    made = response(choice("a"), usage={"completion_tokens": 1})
    event = chunk(delta("a", finish="length"), usage={"completion_tokens": 2})
    assert verdict(stream(made, event)) == ("diverged", {"usage"})


def test_x37_empty_deltas_are_nothing() -> None:
    empty = [chunk(delta("")), chunk(delta(None)), chunk()]
    made = stream(response(choice("a")), *empty, chunk(delta("a", finish="length")))
    assert verdict(made) == ("pass", set())


def test_x47_a_knob_that_did_nothing_shows_no_witness() -> None:
    document = good("spec_decode")
    document["arms"]["candidate"]["witness"]["spec_accepted_tokens"] = 0
    assert verdict(document) == ("unverified", {"witness"})


def test_x49_a_defect_of_both_arms_is_not_a_pass() -> None:
    nan = output(IDS, [{token: "nan"} for token in IDS])
    assert pair(nan, nan) == ("diverged", {"nonfinite"})


def test_x51_noise_is_not_blamed_on_the_contrast() -> None:
    a, b = output(IDS), output([5, 6, 7, 9])
    assert pair(a, b, TOKENS, control=b)[0] == "noisy"


def test_x52_one_contrast() -> None:
    document = good("spec_decode")
    document["arms"]["candidate"]["knobs"]["max_num_batched_tokens"] = 32
    assert verdict(document) == ("invalid_pair", {"extra_knob"})


def test_x54_the_batch_must_have_formed() -> None:
    document = good("batch_invariance")
    document["arms"]["candidate"]["witness"]["max_running_requests"] = 1
    assert verdict(document) == ("unverified", {"witness"})


def test_x57_another_environment_is_shown_by_compare() -> None:
    one, two = good("spec_decode"), good("spec_decode")
    two["environment"]["torch"] = "2.14.0"
    runs = [[decode_observation(json.dumps(document).encode())] for document in (one, two)]
    assert compare_environments(*runs) == {"torch": ["2.13.0", "2.14.0"]}


def test_x59_a_hang_is_an_error() -> None:
    document = good("spec_decode")
    document["error"] = {"arm": "candidate", "kind": "timeout", "message": "hung for 600 s"}
    assert judged(document).verdict.exit_code == 7


def test_x60_a_shift_by_one_is_no_pass() -> None:
    assert pair(output([1, 5, 6, 7]), output([5, 6, 7, 8]))[0] == "diverged"
    document = good("batch_invariance")
    document["arms"]["candidate"]["requests"][1]["prompt_tokens"] += 1
    assert verdict(document)[0] == "invalid_pair"


def test_x61_logprobs_mode_is_a_knob() -> None:
    document = good("spec_decode")
    for arm, mode in (("reference", "raw_logprobs"), ("candidate", "processed_logprobs")):
        document["arms"][arm]["knobs"]["logprobs_mode"] = mode
    assert verdict(document)[0] == "invalid_pair"


def test_x62_an_empty_answer_is_no_answer() -> None:
    assert verdict(stream(response()))[0] == "unverified"
    made: Any = copy.deepcopy(stream(response(choice("a")), chunk(delta("a", finish="length"))))
    made["arms"]["reference"]["requests"][0]["response"] = {"object": "chat.completion"}
    assert verdict(made) == ("unverified", {"missing_request"})


def test_one_flipped_bit_is_seen_wherever_it_is() -> None:
    # X50: the judge is shown to fail. Under every contract that reads values, in each arm.
    for arm in ("reference", "candidate"):
        document = observation([request(output(IDS))], [request(output(IDS))])
        rows = document["arms"][arm]["requests"][0]["outputs"][0]["logprobs"]
        rows[3]["8"] = -0.29687503
        assert verdict(document) == ("diverged", {"logprob"})
    assert pair(output(IDS), output(IDS), TEXT) == ("pass", set())
