"""The commands `judge` and `compare`."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from making import (
    DATA,
    FAMILIES,
    choice,
    chunk,
    delta,
    entry,
    good,
    observation,
    output,
    request,
    response,
)

from vllm_parity.cli import main
from vllm_parity.errors import FormatError
from vllm_parity.judge.transcript import parse_events

Capture = pytest.CaptureFixture[str]


def save(path: Path, document: Any) -> str:
    path.write_text(json.dumps(document), encoding="utf-8")
    return str(path)


def diverged(name: str = "bad") -> Any:
    a, b = output([5, 6]), output([5, 7])
    return {**observation([request(a)], [request(b)]), "cell": name}


def test_a_pass_is_one_line(capsys: Capture) -> None:
    assert main(["judge", str(DATA / "good-batch_invariance.json")]) == 0
    out = capsys.readouterr().out
    assert out == (
        "PASS  cuda-batch_invariance-image-graph  2 requests, 11 positions, 33 logprobs, "
        "at most 0 of 0\n"
    )


def test_a_pass_without_values(tmp_path: Path, capsys: Capture) -> None:
    made = observation([request(output([5]))], [request(output([5]))], contract={"kind": "text"})
    assert main(["judge", save(tmp_path / "a.json", made)]) == 0
    assert capsys.readouterr().out == "PASS  cpu-test  0 requests, 0 positions, 0 logprobs\n"


def test_many_files_end_with_a_summary_and_the_worst_code(tmp_path: Path, capsys: Capture) -> None:
    save(tmp_path / "a.json", good("streaming"))
    save(tmp_path / "b.json", diverged())
    (tmp_path / "deep").mkdir()
    failed = {**good("spec_decode"), "not_run": "no GPU", "arms": None}
    save(tmp_path / "deep" / "c.json", failed)
    assert main(["judge", str(tmp_path)]) == 1
    out = capsys.readouterr().out
    assert "DIVERGED  bad" in out
    assert "NOT_RUN  cuda-spec_decode-ngram" in out
    assert out.endswith("3 cells: 1 diverged, 1 not_run, 1 pass\n")


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({}, 0),
        ({"not_run": "no GPU"}, 3),
        ({"error": {"arm": None, "kind": "start", "message": "x"}}, 7),
        ({"contrast": ["seed"]}, 8),
        ({"require": ["nothing"]}, 5),
    ],
)
def test_exit_codes(tmp_path: Path, change: Any, code: int) -> None:
    document = {**good("batch_invariance"), **change}
    assert main(["judge", save(tmp_path / "a.json", document)]) == code


def test_json_is_one_list_and_nothing_else(tmp_path: Path, capsys: Capture) -> None:
    path = save(tmp_path / "b.json", diverged())
    assert main(["judge", "--json", path, str(DATA / "good-streaming.json")]) == 1
    captured = capsys.readouterr()
    assert captured.err == ""
    bad, fine = json.loads(captured.out)
    assert (bad["file"], bad["cell"], bad["verdict"]) == (path, "bad", "diverged")
    assert bad["reasons"][0] == {
        "code": "token_flip",
        "request": "r0",
        "output": 0,
        "position": 1,
        "message": "token 6 in the reference is 7 in the candidate",
    }
    assert fine["reasons"] == []
    assert fine["compared"] == {"requests": 1, "positions": 5, "logprobs": 14}
    assert {"abs", "rel", "ulp", "request", "output", "position", "token_id"} <= set(fine["worst"])


def test_json_of_nothing_compared(tmp_path: Path, capsys: Capture) -> None:
    made = {**good("spec_decode"), "not_run": "no GPU"}
    assert main(["judge", "--json", save(tmp_path / "a.json", made)]) == 3
    assert json.loads(capsys.readouterr().out)[0]["worst"] is None


def test_a_broken_file_stops_no_other(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "a.json").write_text("{")
    save(tmp_path / "b.json", good("streaming"))
    unread = {**good("spec_decode"), "require": ["n>>3"]}
    save(tmp_path / "c.json", unread)
    assert main(["judge", "--json", str(tmp_path)]) == 2
    captured = capsys.readouterr()
    assert [one["verdict"] for one in json.loads(captured.out)] == ["pass"]
    first, second = captured.err.splitlines()
    assert first.startswith(f"error: {tmp_path / 'a.json'}: at $: expected JSON")
    assert second.startswith(f"error: {tmp_path / 'c.json'}: at $.require: expected NAME")


def test_globs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    for name in ("a1", "a2", "b1"):
        save(tmp_path / f"{name}.json", good("streaming"))
    assert main(["judge", str(tmp_path / "a*.json"), str(tmp_path / "a1.json")]) == 0
    assert "2 cells: 2 pass" in capsys.readouterr().out
    monkeypatch.chdir(tmp_path)
    assert main(["judge", "b?.json"]) == 0
    odd = save(tmp_path / "[x].json", good("streaming"))
    assert main(["judge", odd]) == 0


@pytest.mark.parametrize("name", ["none*.json", "."])
def test_nothing_found_is_no_pass(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["judge", name]) == 2
    assert capsys.readouterr().err == f"error: {name}: there is no observation file there\n"


def test_a_file_that_is_not_there(capsys: Capture) -> None:
    assert main(["judge", "none.json"]) == 2
    assert "none.json: cannot be read" in capsys.readouterr().err


def test_no_file_at_all(capsys: Capture) -> None:
    assert main(["judge"]) == 2
    assert "nothing to judge" in capsys.readouterr().err


class Stdin:
    def __init__(self, data: bytes) -> None:
        self.buffer = io.BytesIO(data)


def test_standard_input(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    data = (DATA / "good-streaming.json").read_bytes()
    monkeypatch.setattr("sys.stdin", Stdin(data))
    assert main(["judge", "-"]) == 0
    monkeypatch.setattr("sys.stdin", Stdin(b"{}"))
    assert main(["judge", "-"]) == 2
    assert "error: standard input: at $" in capsys.readouterr().err


def test_contracts_override(tmp_path: Path, capsys: Capture) -> None:
    contracts = tmp_path / "contracts.toml"
    contracts.write_text(
        '[loose]\nkind = "text"\nwhy = "w"\nmeasured = "m"\ndate = 2026-11-30\nsource = "s"\n'
        '[half]\nkind = "bitwise"\nwhy = "w"\ndtype = "float32"\n'
    )
    document = diverged()
    path = save(tmp_path / "a.json", document)
    assert main(["judge", "--contracts", str(contracts), path]) == 0
    for arm in ("reference", "candidate"):
        document["arms"][arm]["knobs"]["dtype"] = "torch.float32"
    save(tmp_path / "a.json", document)
    assert main(["judge", "--contracts", str(contracts), path]) == 1
    assert "(named half in contracts.toml)" in capsys.readouterr().out
    document["arms"]["reference"] = None
    save(tmp_path / "a.json", document)
    assert main(["judge", "--contracts", str(contracts), path]) == 7
    assert main(["judge", "--contracts", str(tmp_path / "none"), path]) == 2


# Transcripts of other tools


def transcript(tmp_path: Path, whole: Any, *events: Any) -> list[str]:
    stream = "".join(f"data: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n\n"
    (tmp_path / "s.sse").write_text(stream)
    return [
        "judge",
        "--response",
        save(tmp_path / "r.json", whole),
        "--stream",
        str(tmp_path / "s.sse"),
    ]


def test_a_transcript_is_judged_by_what_it_gives(tmp_path: Path, capsys: Capture) -> None:
    end = chunk(delta("a", finish="length", ids=[1], entries=[entry("a", -0.5)]))
    other = chunk(delta("a", finish="length", ids=[2], entries=[entry("a", -0.25)]))
    bare, ids = response(choice("a")), response(choice("a", ids=[1]))
    full = response(choice("a", ids=[1], entries=[entry("a", -0.5)]))
    assert main(transcript(tmp_path, full, end)) == 0
    assert "1 positions, 1 logprobs" in capsys.readouterr().out
    assert main(transcript(tmp_path, bare, other)) == 0
    assert main(transcript(tmp_path, ids, end)) == 0
    assert main(transcript(tmp_path, ids, other)) == 1
    assert main([*transcript(tmp_path, ids, other), "--contract", "text"]) == 0
    assert main([*transcript(tmp_path, bare, end), "--contract", "bitwise"]) == 5


@pytest.mark.parametrize("whole", [[], {"choices": 7}, {"object": "chat.completion", "choices": 7}])
def test_a_response_that_is_none(tmp_path: Path, whole: Any, capsys: Capture) -> None:
    assert main(transcript(tmp_path, whole)) == 2
    assert "expected" in capsys.readouterr().err


def test_transcripts_need_both_halves(tmp_path: Path, capsys: Capture) -> None:
    arguments = transcript(tmp_path, response(choice("a")))
    assert main(arguments[:3]) == 2
    assert "give both, or neither" in capsys.readouterr().err
    (tmp_path / "s.sse").unlink()
    assert main(arguments) == 2
    assert "s.sse: cannot be read" in capsys.readouterr().err


def test_server_sent_events() -> None:
    data = (
        b"\xef\xbb\xbf: comment\nevent: x\nid: 1\ndata:1\n\n"
        b'retry: 5\n\ndata: [2,\ndata: 3]\r\n\r\ndata: "a\xe2\x80\xa8b"\n\n'
        b"data: [DONE]\n\ndata: 4\n\ndata: 5"
    )
    assert parse_events(data, "x") == ([1, [2, 3], "a\u2028b"], True, 2)
    with pytest.raises(FormatError, match="x, line 3: expected JSON"):
        parse_events(b"data: 1\n\ndata: {\n\n", "x")
    with pytest.raises(FormatError, match="x: expected UTF-8"):
        parse_events(b"data: \xff\n\n", "x")


# The command as such


def test_usage(capsys: Capture) -> None:
    for arguments in ([], ["nothing"]):
        with pytest.raises(SystemExit) as raised:
            main(arguments)
        assert raised.value.code == 2
    with pytest.raises(SystemExit) as raised:
        main(["--version"])
    assert raised.value.code == 0
    with pytest.raises(SystemExit):
        main(["judge", "--help"])
    assert "the exit code is that of the worst verdict" in " ".join(
        capsys.readouterr().out.lower().split()
    )


def test_arguments_come_from_the_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["vllm-parity", "judge", str(DATA / "good-streaming.json")])
    assert main() == 0


def test_a_reader_that_goes_away(monkeypatch: pytest.MonkeyPatch) -> None:
    class Gone(io.StringIO):
        def write(self, _text: str) -> int:
            raise BrokenPipeError

    monkeypatch.setattr("sys.stdout", Gone())
    monkeypatch.setattr("sys.stderr", io.StringIO())
    assert main(["judge", str(DATA / "good-streaming.json")]) == 1


# Comparing runs


def runs(tmp_path: Path, *documents: Any) -> tuple[list[str], Path]:
    """Two folders with the same cells, the second one to be changed."""
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        for document in documents:
            save(tmp_path / name / f"{document['cell']}.json", document)
    return ["compare", str(tmp_path / "a"), str(tmp_path / "b")], tmp_path / "b"


def test_runs_that_are_the_same(tmp_path: Path, capsys: Capture) -> None:
    arguments, _ = runs(tmp_path, *(good(family) for family in FAMILIES))
    assert main(arguments) == 0
    assert capsys.readouterr().out == (
        "The environments are the same.\n3 of 3 cells are the same to the bit.\n"
    )


def test_environments_come_first(tmp_path: Path, capsys: Capture) -> None:
    document = good("spec_decode")
    arguments, second = runs(tmp_path, document, diverged())
    document["environment"] = {**document["environment"], "torch": "2.14.0", "driver": "610"}
    save(second / "cuda-spec_decode-ngram.json", document)
    assert main(arguments) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "The environments differ:"
    assert lines[1].split() == ["driver", "not", "recorded", "->", "610"]
    assert lines[2].split() == ["torch", "2.13.0", "->", "2.14.0"]


def test_what_changed(tmp_path: Path, capsys: Capture) -> None:
    document = good("batch_invariance")
    arguments, second = runs(tmp_path, document, good("streaming"))
    candidate = document["arms"]["candidate"]
    candidate["requests"][0]["outputs"][0]["logprobs"][0]["11"] = -0.25
    candidate["knobs"]["dtype"] = document["arms"]["reference"]["knobs"]["dtype"] = "float16"
    save(second / "cuda-batch_invariance-image-graph.json", document)
    assert main(arguments) == 1
    out = capsys.readouterr().out
    assert "cuda-batch_invariance-image-graph: pass  ->  diverged" in out
    assert "reference       bitwise" in out
    assert "candidate       differs (logprob, by at most 0.125)" in out
    assert "knobs differ    reference.dtype, candidate.dtype" in out
    assert "1 of 2 cells are the same to the bit." in out


def test_cells_of_one_run_alone(tmp_path: Path, capsys: Capture) -> None:
    arguments, second = runs(tmp_path, good("streaming"))
    (second / "cuda-streaming-audio-graph.json").unlink()
    save(second / "bad.json", diverged())
    assert main([*arguments, "--json"]) == 1
    cells = json.loads(capsys.readouterr().out)["cells"]
    assert [cell["verdicts"] for cell in cells] == [[None, "diverged"], ["pass", None]]
    assert main(arguments) == 1
    assert "bad: not there  ->  diverged" in capsys.readouterr().out


def test_arms_that_cannot_be_compared(tmp_path: Path, capsys: Capture) -> None:
    document = good("spec_decode")
    arguments, second = runs(tmp_path, document)
    path = second / "cuda-spec_decode-ngram.json"

    def arms(**change: Any) -> Any:
        made = {**document, **change}
        save(path, made)
        main([*arguments, "--json"])
        return json.loads(capsys.readouterr().out)["cells"][0]["arms"]

    none = {**document["arms"], "candidate": None}
    assert arms(arms=none)["candidate"] == "not in the second run"
    other = {**good("batch_invariance"), "cell": document["cell"]}
    assert arms(**other)["candidate"] == "of another family"
    bare = good("spec_decode")["arms"]
    bare["reference"]["requests"][0]["outputs"][0]["logprobs"] = None
    assert arms(arms=bare)["reference"] == "cannot tell (missing_logprobs)"
    bare["reference"]["requests"][0]["outputs"][0]["token_ids"][0] = 7
    assert arms(arms=bare)["reference"] == "differs (token_flip)"
    save(tmp_path / "a" / path.name, {**document, "arms": None})
    assert arms(arms=none)["reference"] == "not in the first run"
    assert arms(arms=none)["candidate"] == "in neither run"


def test_a_cell_may_be_in_a_run_once(tmp_path: Path, capsys: Capture) -> None:
    arguments, second = runs(tmp_path, good("streaming"))
    save(second / "twin.json", good("streaming"))
    assert main(arguments) == 2
    assert "expected each cell once" in capsys.readouterr().err


def test_cells_of_a_run_may_have_different_environments(tmp_path: Path, capsys: Capture) -> None:
    arguments, second = runs(tmp_path, good("streaming"), good("spec_decode"))
    document = good("streaming")
    document["environment"]["vllm"] = "0.33.0"
    save(second / "cuda-streaming-audio-graph.json", document)
    main([*arguments, "--json"])
    environment = json.loads(capsys.readouterr().out)["environment"]
    assert environment == {"vllm": ["0.32.0", "0.32.0 | 0.33.0"]}
