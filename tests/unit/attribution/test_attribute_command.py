"""`attribute FILE...` on records as they come: knobs that vary, and knobs that move along."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vllm_parity.cli import main

if TYPE_CHECKING:
    import pytest

DATA = Path(__file__).parents[2] / "data"


def record(folder: Path, name: str, knobs: dict[str, Any], *, apart: float = 0.0) -> str:
    """Write a record under some knobs, whose candidate is apart by so much."""
    observation = json.loads((DATA / "good-batch_invariance.json").read_bytes())
    observation["contract"] = {"kind": "bitwise"}
    arms = observation["arms"]
    for arm in ("reference", "candidate", "control"):
        if arms[arm]:
            arms[arm]["knobs"] |= knobs
    arms["candidate"]["requests"] = json.loads(json.dumps(arms["reference"]["requests"]))
    row = arms["candidate"]["requests"][0]["outputs"][0]["logprobs"][0]
    for token in row:
        row[token] -= apart
    path = folder / f"{name}.json"
    path.write_text(json.dumps(observation))
    return str(path)


def answer(capsys: pytest.CaptureFixture[str], *files: str) -> dict[str, Any]:
    assert main(["attribute", *files, "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_one_knob(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [
        record(tmp_path, "off", {"enable_prefix_caching": False}),
        record(tmp_path, "on", {"enable_prefix_caching": True}, apart=0.125),
    ]
    found = answer(capsys, *files)
    assert found["kind"] == "single"
    assert found["culprits"] == [["enable_prefix_caching"]]
    assert "enable_prefix_caching=true" in found["evidence"]


def test_a_pair(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for a in (0, 1):
        for b in (0, 1):
            knobs = {"enable_prefix_caching": bool(a), "max_num_seqs": 8 + b}
            record(tmp_path, f"{a}{b}", knobs, apart=0.125 * (a and b))
    found = answer(capsys, str(tmp_path))
    assert found["kind"] == "interaction"
    assert found["culprits"] == [["enable_prefix_caching", "max_num_seqs"]]


def test_knobs_that_the_engine_moves_along_are_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [
        record(tmp_path, "eager", {"enforce_eager": True, "cudagraph_mode": "NONE"}),
        record(tmp_path, "graph", {"enforce_eager": False, "cudagraph_mode": "FULL"}, apart=0.125),
    ]
    assert answer(capsys, *files)["culprits"] == [["enforce_eager"]]


def test_equal_settings_that_disagree(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [record(tmp_path, str(number), {}, apart=number * 0.125) for number in range(3)]
    assert answer(capsys, *files)["kind"] == "nondeterministic"


def test_two_that_are_wrong_in_the_same_way_agree(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [record(tmp_path, str(number), {}, apart=0.125) for number in range(2)]
    found = answer(capsys, *files)
    assert found["kind"] == "undetermined"


def test_nothing_diverged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["attribute", record(tmp_path, "a", {})]) == 0
    assert capsys.readouterr().out.startswith("none\n")


def test_records_of_two_cells_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = str(DATA / "good-spec_decode.json")
    assert main(["attribute", record(tmp_path, "a", {}), other]) == 2
    assert "expected observations of one cell" in capsys.readouterr().err


def test_a_cell_that_is_none_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["attribute", "cpu-batch_invarance-text"]) == 2
    assert "unknown cell" in capsys.readouterr().err
