"""`vllm-parity plan` shows what would run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from vllm_parity.cli import main
from vllm_parity.families import load_config, make_plan
from vllm_parity.matrix import load_matrix

if TYPE_CHECKING:
    from pathlib import Path

    from vllm_parity.matrix import Cell

CELLS = load_matrix().cells
Capture = pytest.CaptureFixture[str]


def shown(capsys: Capture, *arguments: str) -> list[str]:
    assert main(["plan", *arguments]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    return captured.out.splitlines()


def test_one_line_a_cell(capsys: Capture) -> None:
    lines = shown(capsys)
    assert [line.split()[0] for line in lines] == [cell.id for cell in CELLS]
    config = load_config()
    for line, cell in zip(lines, CELLS, strict=True):
        contrast = "+".join(make_plan(cell, config).contrast)
        assert line.split()[1:3] == [cell.model, contrast]


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["--family", "streaming"], "-streaming-"),
        (["--cell", "*-video-*"], "-video-"),
        (["--platform", "cpu", "--tier", "smoke", "--cell", "*-nudged"], "-nudged"),
    ],
)
def test_selection(capsys: Capture, arguments: list[str], part: str) -> None:
    lines = shown(capsys, *arguments)
    assert len(lines) == sum(part in cell.id for cell in CELLS)
    assert all(part in line for line in lines)


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell.id)
def test_explained_cell(capsys: Capture, cell: Cell) -> None:
    planned = make_plan(cell, load_config())
    lines = shown(capsys, "--explain", planned.cell.id)
    assert lines[0] == f"cell       {planned.cell.id}"
    text = "\n".join(lines)
    for name, value in planned.variables.items():
        assert f"\n  {name}={value}  " in text
    for requirement in planned.require:
        assert requirement in text
    assert text.count(f'\n  model = "{planned.cell.model}"') == 2
    assert ("\nnudge " in text) is planned.cell.negative_control


def test_explained_variables_have_reasons(capsys: Capture) -> None:
    lines = shown(capsys, "--explain", "cpu-streaming-text-eager-apc_off")
    assert (
        "  VLLM_SERVER_DEV_MODE=1  opens the calls that read settings back and nudge a weight"
        in lines
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--cell", "nothing"], "error: --cell: unknown cell 'nothing'; allowed: cpu-"),
        (["--explain", "nothing"], "unknown cell 'nothing'; allowed: cpu-"),
        (["--platform", "rocm"], "error: no cell of matrix.toml has platform rocm; see"),
    ],
)
def test_nothing_to_show_is_an_error(capsys: Capture, arguments: list[str], words: str) -> None:
    assert main(["plan", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert words in captured.err
    assert captured.err.count("\n") == 1


def test_matrix_that_is_not_there(tmp_path: Path, capsys: Capture) -> None:
    assert main(["plan", "--matrix", str(tmp_path / "matrix.toml")]) == 2
    assert capsys.readouterr().err.endswith("matrix.toml: no such configuration file\n")
