"""`vllm-parity plan` shows what would run: cells, both arms, tiers, exclusions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from each import each

from vllm_parity.cli import main
from vllm_parity.families import load_config, make_plan
from vllm_parity.matrix import Cell, Family, Platform, Tier
from vllm_parity.report.plan import both_arms, explained

ROOT = Path(__file__).parents[3]
CONFIG = load_config()
CELLS = CONFIG.matrix.cells
Capture = pytest.CaptureFixture[str]


def shown(capsys: Capture, *arguments: str) -> list[str]:
    assert main(["plan", *arguments]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    return captured.out.splitlines()


def test_list_is_one_line_a_cell(capsys: Capture) -> None:
    lines = shown(capsys, "--list")
    assert [line.split()[0] for line in lines] == [cell.id for cell in CELLS]
    assert [line.split()[1] for line in lines] == [cell.model for cell in CELLS]


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["--family", "streaming"], "-streaming-"),
        (["--cell", "*-video-*"], "-video-"),
        (["--execution", "graph"], "-graph-"),
        (["--prefix-cache", "on"], "-apc_on"),
    ],
)
def test_selection(capsys: Capture, arguments: list[str], part: str) -> None:
    lines = shown(capsys, "--list", *arguments)
    assert len(lines) == sum(part in cell.id for cell in CELLS)
    assert all(part in line for line in lines)


def test_built_in_models(capsys: Capture) -> None:
    lines = shown(capsys, "--list", "--models", "built-in", "--platform", "cuda")
    assert {line.split()[1] for line in lines} == {
        "small-qwen3",
        "small-qwen3-vl",
        "tiny-qwen2-audio",
    }


def test_both_arms_of_each_cell_are_equal_but_for_the_contrast(capsys: Capture) -> None:
    text = "\n".join(shown(capsys, "--platform", "rocm", "--family", "spec_decode"))
    blocks = text.split("\n\n")
    chosen = [c for c in CELLS if (c.platform, c.family) == (Platform.ROCM, Family.SPEC_DECODE)]
    assert [block.splitlines()[0] for block in blocks] == [cell.id for cell in chosen]
    for block, cell in zip(blocks, chosen, strict=True):
        own = block[block.index("\n  reference\n") :].splitlines()
        names = {line.split(" = ")[0].strip() for line in own if " = " in line}
        nudged = {"nudged_weight"} if cell.negative_control else set()
        assert names == {"speculative_config"} | nudged
        assert "    max_num_seqs = 1\n" in block
        assert "    VLLM_ROCM_USE_SKINNY_GEMM=0\n" in block


def test_what_a_machine_cannot_run_is_marked(capsys: Capture) -> None:
    record = str(ROOT / "tests" / "data" / "machines" / "no-gpu.json")
    for form in ([], ["--list"]):
        lines = shown(capsys, *form, "--machine", record, "--cell", "*-streaming-text-*")
        text = "\n".join(lines)
        assert text.count("needs an NVIDIA GPU, and there is none") == text.count("cuda-streaming-")
    one = shown(capsys, "--machine", record, "--explain", "rocm-*")
    assert "not_run    needs an AMD GPU, and there is none" in one


@each(CELLS)
def test_explained_cell(cell: Cell) -> None:
    planned = make_plan(cell, CONFIG)
    text = explained(planned, CONFIG)
    assert text.startswith(f"cell       {cell.id}\n")
    for name, value in planned.variables.items():
        assert f"\n  {name}={value}  {planned.reasons[name]}" in text
    assert all(requirement in text for requirement in planned.require)
    assert text.count(f'\n  model = "{cell.model}"') == 2
    assert ("\nnudge " in text) is cell.negative_control
    assert ("\nungated " in text) is bool(cell.ungated)
    assert cell.id in both_arms(planned)


def test_explained_variables_have_reasons(capsys: Capture) -> None:
    lines = shown(capsys, "--explain", "cpu-streaming-text-eager-apc_off")
    expected = (
        "  VLLM_SERVER_DEV_MODE=1  opens the calls that read settings back and nudge a weight"
    )
    assert expected in lines


def test_tiers_are_shown_with_what_they_are_for_and_take(capsys: Capture) -> None:
    lines = shown(capsys, "--tiers")
    for tier, settings in CONFIG.matrix.tiers.items():
        assert any(line.startswith(f"{tier} ") and settings.purpose in line for line in lines)
    assert (
        len(lines)
        == len(Tier) + sum(map(len, (t.minutes for t in CONFIG.matrix.tiers.values()))) + 1
    )


def test_exclusions_are_shown_with_their_reasons(capsys: Capture) -> None:
    text = "\n".join(shown(capsys, "--excluded"))
    assert all(one.why in text for one in CONFIG.matrix.exclusions)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--cell", "nothing"], "error: --cell: unknown cell 'nothing'; allowed: "),
        (["--explain", "nothing"], "unknown cell 'nothing'; allowed: "),
        (["--platform", "rocm", "--tier", "smoke"], "error: no cell of matrix.toml has tier smoke"),
        (["--sessions", "x"], "error: --sessions is for jobs: give --format github"),
        (["--format", "github", "--tier", "pr", "--sessions", "/x"], "/x: cannot be read"),
    ],
)
def test_nothing_to_show_is_an_error(capsys: Capture, arguments: list[str], words: str) -> None:
    assert main(["plan", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert words in captured.err
    assert captured.err.count("\n") == 1


@pytest.mark.parametrize("form", ["github", "buildkite", "json"])
def test_jobs_of_nothing_are_an_error_and_no_empty_green(capsys: Capture, form: str) -> None:
    assert main(["plan", "--format", form, "--tier", "smoke", "--platform", "cuda"]) == 2
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("text", ["", "[]", "{}", '[{"session": "x"}]'])
def test_list_of_sessions_that_is_none(capsys: Capture, tmp_path: Path, text: str) -> None:
    path = tmp_path / "sessions.json"
    path.write_text(text, encoding="utf-8")
    assert main(["plan", "--format", "github", "--tier", "pr", "--sessions", str(path)]) == 2
    assert "nox -l --json -t TIER" in capsys.readouterr().err


def test_github_rows_have_what_a_job_needs(capsys: Capture) -> None:
    (line,) = shown(capsys, "--format", "github", "--tier", "pr", "--platform", "rocm")
    for row in json.loads(line)["include"]:
        assert row["runner"] == list(CONFIG.platforms[Platform.ROCM].ci.runner)
        assert row["image"] == CONFIG.platforms[Platform.ROCM].install.image
        assert "--device=/dev/kfd" in row["container"]["options"]
        assert row["timeout"] >= 10
        assert row["cells"] > 0


def test_matrix_that_is_not_there(tmp_path: Path, capsys: Capture) -> None:
    assert main(["plan", "--matrix", str(tmp_path / "matrix.toml")]) == 2
    assert capsys.readouterr().err.endswith("matrix.toml: no such configuration file\n")
