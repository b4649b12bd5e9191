"""Reading and writing observation files."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vllm_parity.errors import FormatError
from vllm_parity.logprobs import Logprobs, written
from vllm_parity.observation import (
    Arm,
    Arms,
    Contract,
    Failure,
    Family,
    Kind,
    Observation,
    Output,
    Platform,
    Request,
    decode_observation,
    encode_observation,
    load_observation,
    unpacked,
    write_observation,
)

DATA = Path(__file__).parents[1] / "data"
FAMILIES = ("batch_invariance", "spec_decode", "streaming")


def document(family: str = "batch_invariance") -> Any:
    return json.loads((DATA / f"good-{family}.json").read_bytes())


def decode(value: Any) -> Observation:
    return decode_observation(json.dumps(value).encode(), "a.json")


def test_the_examples_are_what_their_script_makes() -> None:
    sys.path.insert(0, str(DATA))
    try:
        from make import examples, mutated  # noqa: PLC0415
    finally:
        sys.path.remove(str(DATA))
    assert {family: document(family) for family in FAMILIES} == examples()
    verdicts = json.loads((DATA / "verdicts.json").read_bytes())
    assert verdicts == {name: [made[1], made[2]] for name, made in mutated().items()}
    for name, made in mutated().items():
        assert json.loads((DATA / f"mutated-{name}.json").read_bytes()) == made[0]


@pytest.mark.parametrize("family", FAMILIES)
def test_what_is_written_is_what_was_read(family: str, tmp_path: Path) -> None:
    observation = load_observation(DATA / f"good-{family}.json")
    path = tmp_path / "a.json"
    write_observation(path, observation)
    assert load_observation(path) == observation
    assert encode_observation(load_observation(path)) == path.read_bytes()
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_is_readable_line_by_line() -> None:
    text = encode_observation(load_observation(DATA / "good-batch_invariance.json")).decode()
    assert '\n  "family": "batch_invariance",\n' in text
    assert '\n        {"id":"image-0",' in text


def test_everything_optional_survives() -> None:
    made = Observation(
        cell="a.b-c_1",
        family=Family.STREAMING,
        platform=Platform.OTHER,
        contrast=["stream"],
        follows=("x",),
        contract=Contract(kind=Kind.CLOSE, atol=0.5, rtol=0.0, tie_gap=0.25, name="n"),
        environment={"vllm": "1"},
        error=Failure(arm=None, kind="start", message="no GPU"),
        not_run="because",
        repeat=3,
    )
    again = decode_observation(encode_observation(made))
    assert (again.repeat, again.error, again.contract) == (3, made.error, made.contract)
    assert again.arms == Arms()


def test_numbers_that_json_has_no_word_for() -> None:
    rows = [{1: float("nan"), 2: float("inf"), 3: float("-inf"), 4: -0.1}]
    output = Output(index=0, token_ids=np.array([1]).tolist(), logprobs=rows)
    arm = Arm(
        knobs={"x": float("inf"), "path": [1, (2.5, None)]},
        witness={},
        requests=[Request(id="r", outputs=[output])],
    )
    made = Observation(
        cell="c",
        family=Family.SPEC_DECODE,
        platform=Platform.CPU,
        contrast=[],
        contract=Contract(kind=Kind.BITWISE),
        environment={},
        arms=Arms(reference=arm),
    )
    data = encode_observation(made)
    assert b'{"1":"nan","2":"inf","3":"-inf","4":-0.100000001}' in data
    again = decode_observation(data).arms.reference
    assert again is not None
    assert again.knobs == {"x": "inf", "path": [1, [2.5, None]]}
    assert again.requests[0].outputs is not None
    assert again.requests[0].outputs[0].logprobs == Logprobs(rows)


@settings(deadline=None)
@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_float32_survives_to_the_last_bit(value: float) -> None:
    text = msgspec.json.encode(written(value))
    assert np.float32(msgspec.json.decode(text)).view(np.uint32) == np.float32(value).view(
        np.uint32
    )


def test_what_came_over_the_wire_stays_packed_until_it_is_looked_at() -> None:
    arms = decode(document("streaming")).arms
    assert arms.reference is not None
    (request,) = arms.reference.requests
    plain = document("streaming")["arms"]["reference"]["requests"][0]["response"]
    assert request.response == plain
    assert unpacked(request.response) == unpacked(plain) == plain
    assert repr(request.response) == f"Packed({plain!r})"
    assert request.events is None


# Complaints


@pytest.mark.parametrize(
    ("change", "place", "expected"),
    [
        ({"schema": "vllm-parity.observation/2"}, "$.schema", "Invalid enum value"),
        ({"cell": "Has Spaces"}, "$.cell", "matching regex"),
        ({"cell": "line\n"}, "$.cell", "matching regex"),
        ({"cell": ""}, "$.cell", "matching regex"),
        ({"family": "other"}, "$.family", "Invalid enum value"),
        ({"platform": "tpu"}, "$.platform", "Invalid enum value"),
        ({"contrast": "batch_size"}, "$.contrast", "Expected array, got str"),
        ({"environment": {"vllm": 1}}, "$.environment[...]", "Expected str, got int"),
        ({"contract": {"kind": "loose"}}, "$.contract.kind", "Invalid enum value"),
        ({"contract": {"kind": "close", "atol": 1.0}}, "$.contract", "both atol and rtol"),
        (
            {"contract": {"kind": "close", "atol": -1.0, "rtol": 0}},
            "$.contract",
            "atol must be a finite number",
        ),
        (
            {"contract": {"kind": "tokens", "min_compared": 1.5}},
            "$.contract",
            "min_compared must be from 0 to 1",
        ),
        ({"contract": {"kind": "tokens", "tie_gap": "nan"}}, "$.contract.tie_gap", "Expected"),
        ({"error": {"kind": "start"}}, "$.error", "missing required field arm"),
    ],
)
def test_complaints_name_the_place(change: Any, place: str, expected: str) -> None:
    with pytest.raises(FormatError) as raised:
        decode({**document(), **change})
    message = str(raised.value)
    assert message.startswith("a.json: at ")
    assert place in message
    assert expected in message


def in_request(*path: str | int, value: Any) -> Any:
    made = document()
    at = made["arms"]["candidate"]["requests"][1]
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    return made


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        (("id",), 7, "at $.arms.candidate.requests[1].id: Expected str, got int"),
        (("expect_tokens",), -1, "[1].expect_tokens: Expected int >= 0"),
        (("outputs", 0, "index"), None, "[1].outputs[0].index: Expected int, got null"),
        (("outputs", 0, "token_ids", 2), 1.5, "[1].outputs[0].token_ids[2]: Expected int"),
        (("outputs", 0, "logprobs", 0), {"x": 1}, "key in $.arms.candidate.requests[1].outputs[0]"),
        (("outputs", 0, "logprobs", 0), {"1": "low"}, "Invalid enum value 'low'"),
        (("outputs", 0, "logprobs", 0), {"1": True}, "Expected float | str, got bool"),
        (("outputs", 0, "logprobs", 0), {str(2**70): 1}, "64 bits"),
        (("id",), "video-0", "[1].id: expected each id once, got 'video-0' again"),
        (("outputs",), None, "[1]: expected outputs in a candidate request"),
        (
            ("outputs", 0, "token_ids"),
            [1],
            "[1].outputs[0].logprobs: expected at most one mapping for each of 1 token ids, got 5",
        ),
    ],
)
def test_complaints_about_requests(path: Any, value: Any, expected: str) -> None:
    with pytest.raises(FormatError) as raised:
        decode(in_request(*path, value=value))
    assert str(raised.value).startswith("a.json: at ")
    assert expected in str(raised.value)


def test_an_index_may_come_once() -> None:
    made = document()
    outputs = made["arms"]["reference"]["requests"][1]["outputs"]
    outputs[1]["index"] = 0
    with pytest.raises(FormatError, match=r"outputs\[1\]\.index: expected each index once"):
        decode(made)


@pytest.mark.parametrize(
    ("arm", "field"),
    [
        ("reference", "response"),
        ("control", "response"),
        ("candidate", "events"),
        ("candidate", "done"),
        ("candidate", "after_done"),
    ],
)
def test_a_stream_has_its_own_shape(arm: str, field: str) -> None:
    made = document("streaming")
    del made["arms"][arm]["requests"][0][field]
    with pytest.raises(FormatError, match=f"expected {field} in a {arm} request"):
        decode(made)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", "expected JSON"),
        (b"{", "expected JSON"),
        (b'{"schema": "\xff"}', "expected JSON"),
        (b"[]", "Expected object, got array"),
        (b"[" * 100_000, "got array"),
        (b'{"x":' * 100_000, "nesting"),
    ],
    ids=["nothing", "open", "utf-8", "list", "deep-lists", "deep-objects"],
)
def test_bytes_that_are_no_observation(data: bytes, expected: str) -> None:
    with pytest.raises(FormatError, match=expected) as raised:
        decode_observation(data, "b.json")
    assert str(raised.value).startswith("b.json: at $")


def test_unknown_fields_pass() -> None:
    made = document()
    made["future"] = made["arms"]["candidate"]["requests"][0]["future"] = {"a": [1]}
    assert decode(made) == decode(document())


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"none\.json: cannot be read: No such file"):
        load_observation(tmp_path / "none.json")


# Writing


def test_writing_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.json"
    path.write_text("old")

    def full(_handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_observation(path, decode(document()))
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_writing_into_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        write_observation(tmp_path / "none" / "a.json", decode(document()))


# Logprobs


def test_logprobs_read_like_a_list() -> None:
    rows: list[dict[int, float]] = [{1: -0.5, 2: -1.0}, {}, {3: -2.0}]
    made = Logprobs(rows)
    assert list(made) == rows
    assert made[-1] == {3: -2.0}
    assert made[1:] == rows[1:]
    assert made == rows
    assert made != rows[:2]
    assert made != 7
    assert made != "rows"
    assert repr(made) == f"Logprobs({rows!r})"
    with pytest.raises(IndexError):
        made[3]


def test_logprobs_of_many_outputs_share_columns() -> None:
    rows: list[list[dict[int, float | str]]] = [[{1: -0.5}, {2: -1.0, 3: -2.0}], [], [{4: "nan"}]]
    many = Logprobs.of_many(rows)
    assert [made == part for made, part in zip(many, rows, strict=True)] == [True] * 3
    assert Logprobs.joined(many) == [row for part in rows for row in part]
    assert Logprobs.of_many([]) == []
