"""The command: which files are records of the cell, in which order, and what is printed."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from cell_records import BAD, CELL, GOOD, NUDGED, OTHER, day, document, failed, write

from vllm_parity.cli import main

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Go to an empty folder; return the one of results in it, which is not there yet."""
    monkeypatch.chdir(tmp_path)
    return Path("results")


def told(capsys: Capture, *arguments: str) -> tuple[int, str, str]:
    code = main(["history", *arguments])
    out, err = capsys.readouterr()
    return code, out, err


def as_json(capsys: Capture, *arguments: str) -> tuple[int, dict[str, Any]]:
    code, out, _ = told(capsys, *arguments, "--json")
    document: dict[str, Any] = json.loads(out)
    return code, document


def torch(data: dict[str, Any], number: int, version: str) -> dict[str, Any]:
    return document(data, day(number), environment={"torch": version})


# Order


def test_table_is_in_order_of_time_whatever_that_is_from(capsys: Capture, results: Path) -> None:
    write(results / "a" / "third.json", document(GOOD, "2026-12-03T00:00:00+00:00"))
    write(results / "20261202-000000-3fa1" / "deep" / "second.json", document())
    first = write(results / "z" / "first.json", document())
    os.utime(first, (1_796_083_200, 1_796_083_200))
    fourth = document(GOOD, "2026-12-04T01:00:00+02:00")
    write(results / "20261201-000000-3fa1" / "fourth.json", fourth)
    write(results / "20261205-000000-3fa1" / "20269999-000000-3fa1" / "x.json", document())
    write(results / "b" / "sixth.json", document(GOOD, "2026-12-06 00:00:00"))
    code, out, _ = told(capsys, CELL)
    assert code == 0
    assert [line.split("  ")[0] for line in out.splitlines()[2:8]] == [
        "~2026-12-01 00:00:00",
        "2026-12-02 00:00:00",
        "2026-12-03 00:00:00",
        "2026-12-03 23:00:00",
        "2026-12-05 00:00:00",
        "2026-12-06 00:00:00",
    ]
    assert out.endswith("~ the time of the file: the record itself has none\n")


def test_time_that_is_none_is_that_of_the_folder(capsys: Capture, results: Path) -> None:
    write(results / "20261202-000000-3fa1" / "x.json", document(GOOD, "yesterday"))
    _, found = as_json(capsys, CELL)
    (record,) = found["records"]
    assert (record["time"], record["time_is_of"]) == ("2026-12-02T00:00:00Z", "folder")


def test_attempts_come_before_what_counts_in_the_same_second(
    capsys: Capture, results: Path
) -> None:
    run = results / "20261202-000000-3fa1"
    write(run / f"{CELL}.json", document(GOOD, day(2)))
    for number in (2, 1):
        write(run / "meta" / "attempts" / f"{CELL}-{number}.json", failed(day(2)))
    code, found = as_json(capsys, CELL)
    assert code == 0
    assert [Path(one["file"]).stem for one in found["records"]] == [f"{CELL}-1", f"{CELL}-2", CELL]
    assert [one["verdict"] for one in found["records"]] == ["error", "error", "pass"]


# What is printed


def test_first_red_the_last_green_what_lies_between_and_the_suspect(
    capsys: Capture, results: Path
) -> None:
    write(results / "a" / "a.json", torch(GOOD, 1, "2.12.0"))
    write(results / "b" / "b.json", torch(BAD, 2, "2.13.0"))
    code, out, err = told(capsys, CELL)
    assert (code, err) == (1, "")
    assert "torch: 2.12.0 -> 2.13.0" in out
    assert "first seen diverging: 2026-12-02 12:00:00 in results/b/b.json; logprob in " in out
    assert "last green before it: 2026-12-01 12:00:00 in results/a/a.json\n" in out
    assert "between torch 2.12.0 -> 2.13.0\n" in out
    assert "suspect: torch (2.12.0: pass, 2.13.0: diverged)\n" in out
    assert "\nlatest: diverged; " in out


def test_flaky_is_1_though_the_latest_is_green(capsys: Capture, results: Path) -> None:
    for number in range(1, 8):
        write(results / f"{number}.json", document(BAD if number in {2, 4} else GOOD, day(number)))
    code, out, _ = told(capsys, CELL)
    assert code == 1
    assert "flaky: red in 2 of 7 runs (29 %, 95 % interval 3.7 % to 71 %)\n" in out
    assert "nothing that is recorded differs between the two" in out
    code, found = as_json(capsys, CELL)
    (group,) = found["flaky"]
    assert code == 1
    assert (group["events"], group["runs"]) == (2, 7)
    assert (group["low"], group["high"]) == pytest.approx((0.0367, 0.7096), abs=5e-5)


def test_flaky_environment_is_named_where_there_are_several(capsys: Capture, results: Path) -> None:
    for number, data in enumerate((GOOD, BAD, GOOD), start=1):
        write(results / f"{number}.json", torch(data, number, "2.12.0"))
    write(results / "4.json", torch(GOOD, 4, "2.13.0"))
    assert "%), under torch 2.12.0\n" in told(capsys, CELL)[1]


def test_json_has_all_of_it(capsys: Capture, results: Path) -> None:
    write(results / "a.json", torch(GOOD, 1, "2.12.0"))
    write(results / "b.json", torch(BAD, 2, "2.13.0"))
    code, found = as_json(capsys, CELL)
    assert code == 1
    first, second = found.pop("records")
    assert first["environment"]["torch"] == "2.12.0"
    assert (first["verdict"], first["outcome"], first["worst"]["abs"]) == ("pass", "pass", 0.0)
    assert (second["verdict"], second["outcome"]) == ("diverged", "diverged")
    assert second["worst"]["abs"] > 0
    assert found == {
        "cell": CELL,
        "flaky": [],
        "first_red": {"file": "results/b.json", "time": day(2)},
        "last_green_before": {"file": "results/a.json", "time": day(1)},
        "between": [{"name": "torch", "before": "2.12.0", "after": "2.13.0"}],
        "suspects": [{"name": "torch", "values": {"2.12.0": "pass", "2.13.0": "diverged"}}],
        "left_out": {
            "probes of a search for a cause": 0,
            "copies of a record that is listed": 0,
        },
    }


def test_many_changes_and_long_values_are_shortened(capsys: Capture, results: Path) -> None:
    write(results / "a.json", document(GOOD, day(1)))
    environment = {f"library{n}": "z" * 100 for n in range(5)}
    write(results / "b.json", document(GOOD, day(2), environment=environment))
    row = told(capsys, CELL)[1].splitlines()[3]
    assert "library0: not recorded -> " in row
    assert ", and 3 more  " in row
    assert f"{'z' * 37}...," in row


def test_revisions_are_shown_as_far_as_they_tell(capsys: Capture, results: Path) -> None:
    for number in (1, 2):
        revision = {"vllm_parity_revision": f"{number}" * 40 + "-dirty"}
        write(results / f"{number}.json", document(GOOD, day(number), environment=revision))
    changed = "vllm_parity_revision: 1111111111-dirty -> 2222222222-dirty  "
    assert changed in told(capsys, CELL)[1]


def test_what_a_file_holds_does_not_move_the_cursor(capsys: Capture, results: Path) -> None:
    write(results / "a.json", document(GOOD, day(1), environment={"vllm": "\x1b[2J\n1"}))
    out = told(capsys, CELL)[1]
    assert "\x1b" not in out
    assert "\\x1b[2J\\n1" in out


def test_negative_control_is_as_it_must_be(capsys: Capture, results: Path) -> None:
    write(results / "a.json", document(BAD, day(1), cell=NUDGED))
    code, out, _ = told(capsys, NUDGED)
    assert code == 0
    assert "diverged (as it must)" in out
    assert "no record of it is red" in out


def test_waiver_is_for_the_latest_alone(capsys: Capture, results: Path) -> None:
    write(results / "a.json", torch(GOOD, 1, "2.12.0"))
    write(results / "b.json", torch(BAD, 2, "2.13.0"))
    waivers = results / "waivers.toml"
    waivers.write_text(
        f'[[waivers]]\ncell = "{CELL}"\nverdict = "diverged"\nreason = "known"\n'
        'issue = "https://example.org/1"\nends = 2999-01-01\n'
    )
    code, out, _ = told(capsys, CELL, "--waivers", str(waivers))
    assert code == 0
    assert "latest: diverged (waived until 2999-01-01: https://example.org/1)" in out
    assert "take the waiver out" not in out


# Which files


def test_foreign_files_break_nothing(capsys: Capture, results: Path) -> None:
    write(results / "good.json", document(GOOD, day(1)))
    for name, data in {
        "list": [1],
        "judged": [{"cell": CELL}],
        "text": "x",
        "odd": {"cell": 3, "schema": ["x"]},
        "other": {**document(BAD), "schema": "something.else/1"},
    }.items():
        (results / f"{name}.json").write_text(json.dumps(data))
    for number, data in enumerate(
        (b"", b"{", b"\xff\xfe\x00{}", b"[" * 100_000, b'{"a":1}\n{"a":2}')
    ):
        (results / f"broken-{number}.json").write_bytes(data)
    (results / "run.jsonl").write_text('{"cell": "x"}\n')
    (results / "folder.json").mkdir()
    (results / "gone.json").symlink_to("nowhere")
    code, out, err = told(capsys, CELL)
    assert (code, err) == (0, "")
    assert out.count("results/") == 1


def test_half_written_file_of_the_cell_is_2_and_the_others_are_shown(
    capsys: Capture, results: Path
) -> None:
    whole = write(results / "good.json", document(GOOD, day(1)))
    half = results / "half.json"
    half.write_bytes(whole.read_bytes()[: whole.stat().st_size // 2])
    code, out, err = told(capsys, CELL)
    assert code == 2
    assert err.startswith(f"error: {half}: ")
    assert "latest: pass" in out
    write(results / "other.json", document(GOOD, day(1), cell=OTHER))
    assert told(capsys, OTHER)[0] == 0


@pytest.mark.parametrize("name", [f"{CELL}.json", f"run/meta/attempts/{CELL}-1.json"])
def test_empty_file_is_told_by_its_name(capsys: Capture, results: Path, name: str) -> None:
    (results / name).parent.mkdir(parents=True)
    (results / name).touch()
    code, out, err = told(capsys, CELL)
    assert (code, out) == (2, "")
    assert name in err


def test_observation_that_is_wrong_in_itself_is_named(capsys: Capture, results: Path) -> None:
    write(results / "good.json", document(GOOD, day(1)))
    write(results / "wrong.json", {**document(), "environment": "none"})
    write(results / "newer.json", {**document(), "schema": "vllm-parity.observation/2"})
    code, _, err = told(capsys, CELL)
    assert code == 2
    assert sorted(line.split(":")[1] for line in err.splitlines()) == [
        " results/newer.json",
        " results/wrong.json",
    ]


def test_probes_are_left_out_and_counted(capsys: Capture, results: Path) -> None:
    write(results / "good.json", document(GOOD, day(1), probe=None, repeat=2))
    for number, probe in enumerate(({"prefix_cache": "off"}, {})):
        write(results / "attribute" / f"{number}.json", document(BAD, day(2), probe=probe))
    code, out, _ = told(capsys, CELL)
    assert code == 0
    assert "left out: probes of a search for a cause: 2\n" in out
    assert "attribute" not in out


def test_probes_alone_are_no_record(capsys: Capture, results: Path) -> None:
    write(results / "a.json", document(BAD, day(2), probe={}))
    code, _, err = told(capsys, CELL)
    assert code == 2
    assert "but those of a search for a cause" in err


def test_run_that_was_fetched_twice_counts_once(capsys: Capture, results: Path) -> None:
    one = write(results / "a" / "x.json", document(GOOD, day(1)))
    shutil.copytree(one.parent, results / "b")
    code, found = as_json(capsys, CELL, "results", "results/a", "results/../results")
    assert code == 0
    assert len(found["records"]) == 1
    assert found["left_out"]["copies of a record that is listed"] == 1


def test_equal_files_without_a_time_are_runs_of_their_own(capsys: Capture, results: Path) -> None:
    for number in (1, 2):
        write(results / f"2026120{number}-000000-aaaa" / "x.json", document())
    assert len(as_json(capsys, CELL)[1]["records"]) == 2


def test_folders_are_names_and_no_patterns(capsys: Capture, results: Path) -> None:
    write(results / "a[1]*?" / "x's.json", document(GOOD, day(1)))
    write(results / "a[1]*?" / "b\\c {d,e} %41=2 ä.json", document(GOOD, day(2)))
    write(results / "a[1]*?" / "*.json", document(GOOD, day(3)))
    write(results / "a1" / "y.json", document(GOOD, day(4)))
    _, found = as_json(capsys, CELL, "results/../results/a[1]*?")
    assert [Path(one["file"]).name for one in found["records"]] == [
        "x's.json",
        "b\\c {d,e} %41=2 ä.json",
        "*.json",
    ]


def test_name_that_is_not_utf8_is_named(capsys: Capture, results: Path) -> None:
    write(results / os.fsdecode(b"\xff.json"), document(GOOD, day(1)))
    code, _, err = told(capsys, CELL)
    assert code == 2
    assert err.startswith("error: 'results/\\udcff.json': a name that is not UTF-8")


def test_query_that_fails_is_one_message(
    capsys: Capture, results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(results / "a.json", document(GOOD, day(1)))
    monkeypatch.setattr(
        "vllm_parity.report.history_query._QUERY", "SELECT * FROM nowhere WHERE x IN $files"
    )
    code, _, err = told(capsys, CELL)
    assert code == 2
    assert err.startswith("error: the records cannot be searched: ")
    assert err.count("\n") == 1


def test_file_that_is_gone_when_it_is_read_is_named(
    capsys: Capture, results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(results / "a.json", document(GOOD, day(1)))
    gone = f"results/b/{CELL}.json"
    monkeypatch.setattr(
        "vllm_parity.report.history_command.find_files", lambda _: ["results/a.json", gone]
    )
    code, out, err = told(capsys, CELL)
    assert (code, err) == (2, f"error: {gone}: cannot be read: No such file or directory\n")
    assert "latest: pass" in out


def test_more_files_than_are_read_at_once(capsys: Capture, results: Path) -> None:
    for number in range(1, 121):
        at = f"2026-12-01T{number // 60:02}:{number % 60:02}:00Z"
        write(results / f"{number}.json", document(GOOD, at))
    assert len(as_json(capsys, CELL)[1]["records"]) == 120


# Which cell


def test_beginning_of_one_id_is_enough_and_an_exact_one_wins(
    capsys: Capture, results: Path
) -> None:
    write(results / "a.json", document(GOOD, day(1)))
    write(results / "b.json", document(BAD, day(1), cell=NUDGED))
    write(results / "c.json", document(GOOD, day(1), cell=OTHER))
    assert as_json(capsys, CELL)[1]["cell"] == CELL
    assert as_json(capsys, f"{CELL}-n")[1]["cell"] == NUDGED
    assert as_json(capsys, "cpu-batch_invariance-im")[1]["cell"] == OTHER
    code, out, err = told(capsys, "cpu-batch_invariance-text")
    assert (code, out) == (2, "")
    assert err == (
        "error: several cells begin with 'cpu-batch_invariance-text': "
        f"{CELL}, {NUDGED}; give one in full\n"
    )


@pytest.mark.parametrize("word", ["cpu-batch_invariance-text-eager-apc_of-x", ""])
def test_cell_without_a_record_is_an_error(capsys: Capture, results: Path, word: str) -> None:
    write(results / "a.json", document(GOOD, day(1)))
    code, out, err = told(capsys, word)
    assert (code, out) == (2, "")
    assert err.startswith(f"error: no record in results: unknown cell {word!r}; allowed: {CELL}")
    assert (f"did you mean {CELL!r}?" in err) is bool(word)


def test_cell_of_no_matrix_has_a_history_as_well(capsys: Capture, results: Path) -> None:
    write(results / "a.json", document(BAD, day(1), cell="tpu-something"))
    code, out, _ = told(capsys, "tpu")
    assert code == 1
    assert "diverged (not a cell of the matrix)" in out


@pytest.mark.parametrize("folders", [[], ["none"]])
def test_folder_that_is_not_there(capsys: Capture, results: Path, folders: list[str]) -> None:
    assert not results.exists()
    code, out, err = told(capsys, CELL, *folders)
    assert (code, out) == (2, "")
    assert f"{(folders or ['results'])[0]}: there is no such folder" in err


def test_folder_without_a_file(capsys: Capture, results: Path) -> None:
    results.mkdir()
    code, _, err = told(capsys, CELL)
    assert code == 2
    assert "no record in results: " in err
