"""Records of many jobs come together without loss, and the worst of them counts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from vllm_parity.cli import main
from vllm_parity.matrix import load_matrix
from vllm_parity.outcome import Outcome
from vllm_parity.report.markdown import LIMIT, escape, markdown
from vllm_parity.report.merge import Entry, Merged, merge
from vllm_parity.verdict import Verdict

DATA = Path(__file__).parents[2] / "data"
GOOD = json.loads((DATA / "good-batch_invariance.json").read_text(encoding="utf-8"))
BAD = json.loads((DATA / "mutated-one-bit.json").read_text(encoding="utf-8"))
MATRIX = load_matrix()
PLAIN, OTHER = "cpu-batch_invariance-text-eager-apc_off", "cpu-batch_invariance-image-eager-apc_off"
NUDGED = "cpu-batch_invariance-text-eager-apc_off-nudged"
UNGATED = next(cell.id for cell in MATRIX.cells if cell.ungated)
Capture = pytest.CaptureFixture[str]


def record(folder: Path, cell: str, data: dict[str, Any] = GOOD, **changes: Any) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps({**data, "cell": cell, **changes})
    (folder / f"{cell}.json").write_text(text, encoding="utf-8")


def not_run(folder: Path, cell: str, reason: str) -> None:
    arms = {"reference": None, "candidate": None, "control": None}
    record(folder, cell, not_run=reason, arms=arms)


def merged(capsys: Capture, *arguments: str) -> tuple[int, str, str]:
    code = main(["merge", *arguments])
    out, err = capsys.readouterr()
    return code, out, err


def test_folders_of_many_jobs_are_one_table(capsys: Capture, tmp_path: Path) -> None:
    record(tmp_path / "job-1" / "20261201-000000-aaaa", PLAIN)
    record(tmp_path / "job-2" / "20261201-000000-bbbb", OTHER)
    record(tmp_path / "job-2" / "20261201-000000-bbbb", NUDGED, BAD)
    code, out, err = merged(capsys, str(tmp_path))
    assert (code, err) == (0, "")
    assert [line.split()[0] for line in out.splitlines()[1:4]] == [PLAIN, OTHER, NUDGED]
    assert "diverged (as it must)" in out
    assert "3 of 3 cells green: 1 diverged, 2 pass; worst: pass" in out


def test_divergence_is_1(capsys: Capture, tmp_path: Path) -> None:
    record(tmp_path, PLAIN, BAD)
    record(tmp_path, OTHER)
    code, out, _ = merged(capsys, str(tmp_path))
    assert code == 1
    assert "1 of 2 cells green" in out


def test_ungated_divergence_is_shown_and_green(capsys: Capture, tmp_path: Path) -> None:
    record(tmp_path, UNGATED, BAD)
    code, out, _ = merged(capsys, str(tmp_path))
    assert code == 0
    assert "diverged (reported, does not gate)" in out


def test_planned_cell_without_a_record_is_an_error(capsys: Capture, tmp_path: Path) -> None:
    record(tmp_path, PLAIN)
    code, out, _ = merged(capsys, str(tmp_path), "--cell", PLAIN, "--cell", OTHER)
    assert code == 7
    assert "error (no record)" in out
    assert merged(capsys, str(tmp_path), "--cell", PLAIN)[0] == 0


def test_records_of_cells_that_were_not_chosen_are_left_out_and_counted(
    capsys: Capture, tmp_path: Path
) -> None:
    record(tmp_path / "a", PLAIN)
    record(tmp_path / "b", PLAIN)
    record(tmp_path / "b", OTHER, BAD)
    record(tmp_path / "c", OTHER, BAD)
    record(tmp_path / "c", "tpu-something", BAD)
    summary = tmp_path / "summary.md"
    chosen = ("--cell", PLAIN, "--summary", str(summary))
    code, out, err = merged(capsys, str(tmp_path), *chosen)
    assert (code, err) == (0, "")
    assert OTHER not in out
    told = "records of other cells that were left out: 3"
    assert f"{told}\n1 of 1 cells green: 1 pass; worst: pass\n" in out
    assert told in summary.read_text(encoding="utf-8")
    code, out, _ = merged(capsys, str(tmp_path))
    assert (code, "left out" in out) == (1, False)


def test_not_run_is_3_with_its_reason(capsys: Capture, tmp_path: Path) -> None:
    not_run(tmp_path, PLAIN, "needs an AMD GPU")
    code, out, _ = merged(capsys, str(tmp_path))
    assert code == 3
    assert "needs an AMD GPU" in out


def test_cell_recorded_twice_counts_as_the_worse_and_says_both(
    capsys: Capture, tmp_path: Path
) -> None:
    record(tmp_path / "a", PLAIN)
    record(tmp_path / "b", PLAIN, BAD)
    code, out, _ = merged(capsys, str(tmp_path))
    assert code == 1
    assert "recorded twice: pass in " in out


def test_cell_that_is_flaky_in_one_environment_says_so(capsys: Capture, tmp_path: Path) -> None:
    record(tmp_path / "a", PLAIN)
    record(tmp_path / "b", PLAIN, BAD)
    code, out, _ = merged(capsys, str(tmp_path))
    assert code == 1
    assert "diverged (flaky: red in 1 of 2 records; recorded twice: pass in " in out
    record(tmp_path / "c", PLAIN, environment={**GOOD["environment"], "torch": "2.14.0"})
    record(tmp_path / "d", PLAIN)
    out = merged(capsys, str(tmp_path))[1]
    assert "flaky: red in 1 of 3 records; recorded 4 times: pass in " in out


@pytest.mark.parametrize(
    ("data", "changes"),
    [
        (BAD, {"environment": {"vllm": "0.33.0"}}),
        (BAD, {"contract": {"kind": "close", "atol": 0, "rtol": 0}}),
        (GOOD, {"require": ["never_seen"]}),
        (GOOD, {}),
    ],
    ids=["environment", "contract", "unverified", "same"],
)
def test_records_that_differ_in_more_or_not_in_numbers_are_not_flaky(
    capsys: Capture, tmp_path: Path, data: dict[str, Any], changes: dict[str, Any]
) -> None:
    record(tmp_path / "a", PLAIN)
    record(tmp_path / "b", PLAIN, data, **changes)
    out = merged(capsys, str(tmp_path))[1]
    assert "recorded twice: " in out
    assert "flaky" not in out


@pytest.mark.parametrize("probe", [{"prefix_cache": "off"}, {}])
def test_probes_of_a_search_are_left_out_and_counted(
    capsys: Capture, tmp_path: Path, probe: dict[str, str]
) -> None:
    record(tmp_path / "a", PLAIN)
    record(tmp_path / "b", PLAIN, BAD, probe=probe)
    record(tmp_path / "c", OTHER)
    told = "records of a search for a cause that were left out: 1\n"
    code, out, _ = merged(capsys, str(tmp_path))
    assert code == 0
    assert told in out
    assert "recorded twice" not in out
    assert "left out: 1; records of" in merged(capsys, str(tmp_path), "--cell", PLAIN)[1]


@pytest.mark.parametrize("command", ["merge", "judge"])
def test_first_attempt_of_a_cell_that_was_tried_again_does_not_count(
    capsys: Capture, tmp_path: Path, command: str
) -> None:
    record(tmp_path / "run", PLAIN)
    record(tmp_path / "run" / "meta" / "attempts", PLAIN, BAD)
    assert main([command, str(tmp_path)]) == 0
    assert "recorded twice" not in capsys.readouterr().out


def test_built_in_cells_are_known_as_well(capsys: Capture, tmp_path: Path) -> None:
    cell = "cuda-batch_invariance-text-n8_small-graph-apc_off-flash_attn-bi"
    record(tmp_path, cell)
    assert "not a cell of the matrix" not in merged(capsys, str(tmp_path))[1]
    planned = ("--cell", cell, "--models", "built-in")
    assert merged(capsys, str(tmp_path), *planned)[0] == 0


def test_unknown_cell_is_judged_and_named_as_such(capsys: Capture, tmp_path: Path) -> None:
    record(tmp_path, "tpu-something")
    code, out, _ = merged(capsys, str(tmp_path))
    assert code == 0
    assert "not a cell of the matrix" in out


def waived(folder: Path, ends: str) -> str:
    path = folder / "waivers.toml"
    path.write_text(
        f'[[waivers]]\ncell = "{PLAIN}"\nverdict = "diverged"\nreason = "known"\n'
        f'issue = "https://example.org/1"\nends = {ends}\n',
        encoding="utf-8",
    )
    return str(path)


def test_waiver_is_strict(capsys: Capture, tmp_path: Path) -> None:
    waivers = ("--waivers", waived(tmp_path, "2999-01-01"))
    record(tmp_path / "bad", PLAIN, BAD)
    record(tmp_path / "good", PLAIN)
    assert merged(capsys, str(tmp_path / "bad"), *waivers)[0] == 0
    code, out, _ = merged(capsys, str(tmp_path / "good"), *waivers)
    assert code == 6
    assert "take the waiver out" in out
    ended = ("--waivers", waived(tmp_path, "2026-01-01"))
    code, out, _ = merged(capsys, str(tmp_path / "bad"), *ended)
    assert code == 1
    assert "its waiver ended on 2026-01-01" in out


def test_nothing_recorded_is_an_error_and_no_empty_green(capsys: Capture, tmp_path: Path) -> None:
    code, out, err = merged(capsys, str(tmp_path))
    assert (code, out) == (2, "")
    assert err.startswith("error: ")


def test_file_that_cannot_be_read_is_2_and_the_others_are_shown(
    capsys: Capture, tmp_path: Path
) -> None:
    record(tmp_path, PLAIN)
    (tmp_path / "broken.json").write_text("{", encoding="utf-8")
    code, out, err = merged(capsys, str(tmp_path))
    assert code == 2
    assert "broken.json" in err
    assert PLAIN in out


def test_summary_goes_to_the_file_and_to_the_step(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = tmp_path / "step.md"
    step.write_text("before\n", encoding="utf-8")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(step))
    record(tmp_path / "r", PLAIN, BAD)
    record(tmp_path / "r", OTHER)
    merged(capsys, str(tmp_path / "r"), "--summary", str(tmp_path / "summary.md"))
    text = (tmp_path / "summary.md").read_text(encoding="utf-8")
    assert text.startswith("## vllm-parity: diverged\n")
    assert step.read_text(encoding="utf-8") == "before\n" + text
    assert "cpu\\_batch\\_invariance(eager)" in text
    assert text.index("diverged") < text.index("<details>")


def test_summary_that_cannot_be_written(capsys: Capture, tmp_path: Path) -> None:
    record(tmp_path, PLAIN)
    code, _, err = merged(capsys, str(tmp_path), "--summary", str(tmp_path / "no" / "such"))
    assert code == 2
    assert "the summary cannot be written" in err


# Markdown


def test_what_a_model_says_cannot_break_out_of_the_table() -> None:
    hostile = "<script>|`a`\n| $x$ [l](http://x)"
    shown = escape(hostile)
    assert "<" not in shown
    assert "\n" not in shown
    assert all(f"\\{char}" in shown for char in "|`[]$")


@pytest.mark.parametrize("verdict", [Verdict.PASS, Verdict.ERROR])
def test_summary_stays_below_its_limit(verdict: Verdict) -> None:
    outcome = Outcome(verdict=verdict, counts=verdict, note="x" * 1500)
    many = Merged(entries=tuple(Entry(id=f"cell-{n}", outcome=outcome) for n in range(5000)))
    text = markdown(many, "all")
    assert len(text.encode()) <= LIMIT
    assert "left out, for length" in text
    assert text.startswith(f"## all: {verdict}\n")


def test_order_is_that_of_the_matrix(tmp_path: Path) -> None:
    for cell in reversed(MATRIX.cells[:6]):
        record(tmp_path, cell.id)
    found = merge(sorted(map(str, tmp_path.glob("*.json")), reverse=True), MATRIX)
    assert [entry.id for entry in found.entries] == [cell.id for cell in MATRIX.cells[:6]]
