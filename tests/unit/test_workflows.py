"""The files of CI systems name tiers, platforms, sessions and runners that there are."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from vllm_parity.matrix import Models, Platform, Tier, load_platforms

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
FILES = [
    *WORKFLOWS,
    *sorted((ROOT / ".buildkite").iterdir()),
    ROOT / ".ci" / "run",
    ROOT / ".ci" / "setup",
]
BUILT_IN_LABELS = {"self-hosted", "linux", "x64", "ubuntu-latest"}


def run(*words: str, **options: str) -> str:
    done = subprocess.run(
        [sys.executable, *words],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src"), "NOX_SCRIPT_MODE": "none"},
        capture_output=True,
        text=True,
        check=False,
        **options,  # type: ignore[call-overload]
    )
    assert done.returncode == 0, done.stderr
    return str(done.stdout)


def workflow(name: str) -> str:
    return (ROOT / ".github" / "workflows" / name).read_text(encoding="utf-8")


def choices(text: str, name: str) -> set[str]:
    """Return the options of an input of a workflow that is started by hand."""
    (found,) = re.findall(rf"{name}:\n(?: +\w+: .*\n)*? +options: \[(.*)\]", text)
    return set(found.split(", "))


@pytest.mark.parametrize("tier", Tier)
def test_list_of_nox_feeds_the_matrix_of_the_workflow(tier: Tier, tmp_path: Path) -> None:
    """What parity.yml does in its job `plan`."""
    sessions = tmp_path / "sessions.json"
    sessions.write_text(run("-m", "nox", "-l", "--json", "-t", tier), encoding="utf-8")
    words = ("plan", "--format", "github", "--tier", tier, "--sessions", str(sessions))
    rows = json.loads(run("-m", "vllm_parity.cli", *words))["include"]
    names = [one["session"] for one in json.loads(sessions.read_text(encoding="utf-8"))]
    assert [row["session"] for row in rows] == names
    text = workflow("parity.yml")
    assert 'nox -l --json -t "$TIER" > sessions.json' in text
    assert "plan --format github --sessions sessions.json" in text
    # Each key that the workflow takes of a row is in every row.
    keys = set(re.findall(r"\bmatrix\.(\w+)", text))
    assert all(keys <= row.keys() for row in rows)


def test_choices_are_those_of_the_axes() -> None:
    text = workflow("parity.yml")
    assert choices(text, "tier") == set(Tier)
    assert choices(text, "platform") == {*Platform, "all"}
    assert choices(text, "models") == set(Models)


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_tiers_and_platforms_that_are_called_for_exist(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert set(re.findall(r"^ +tier: (\w+)$", text, re.MULTILINE)) <= set(Tier)
    assert set(re.findall(r"^ +platform: (\w+)$", text, re.MULTILINE)) <= set(Platform)


def test_nightly_calls_every_platform() -> None:
    found = re.findall(r"^ +platform: (\w+)$", workflow("nightly.yml"), re.MULTILINE)
    assert sorted(found) == sorted(Platform)


def test_sessions_that_are_named_exist() -> None:
    listed = json.loads(run("-m", "nox", "-l", "--json", "-k", "not nothing"))
    names = {one["name"] for one in listed} | {one["session"] for one in listed}
    for path in FILES:
        text = path.read_text(encoding="utf-8")
        assert set(re.findall(r"nox -s ([a-z_]+)", text)) <= names
    loop = re.search(r"for session in (.*); do", (ROOT / ".ci" / "run").read_text(encoding="utf-8"))
    assert loop
    assert set(loop[1].split()) <= names


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_actions_are_pinned_and_permissions_least(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    for used in re.findall(r"uses: (\S+)(.*)", text):
        assert re.fullmatch(r"\./\.github/workflows/\w+\.yml|\S+@[0-9a-f]{40}", used[0]), used
        assert used[0].startswith("./") or re.fullmatch(r" # v\d+\.\d+\.\d+", used[1])
    assert "\npermissions: {}\n" in text
    assert not re.search(r": write|secrets: inherit", text)
    assert text.count("timeout-minutes:") == len(re.findall(r"^ +runs-on:", text, re.MULTILINE))


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_token_of_the_hub_is_the_only_secret_and_only_where_cells_run(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    given = re.findall(r"^ +(\w+: .*secrets.*)$", text, re.MULTILINE)
    if path.name == "ci.yml":
        assert "tier: smoke" in text
        assert not given, "the models of the smoke tier are built in"
        return
    assert set(given) == {"HF_TOKEN: ${{ secrets.HF_TOKEN }}"}
    if path.name == "parity.yml":
        assert len(given) == 1
        step = text[text.index("- name: nox -s ${{ matrix.session }}") :]
        assert given[0] in step[: step.index(" run: |")]
        declared = text[text.index("\n    secrets:\n") : text.index("\n  workflow_dispatch:")]
        assert re.findall(r"(HF_TOKEN):|required: (\w+)", declared) == [
            ("HF_TOKEN", ""),
            ("", "false"),
        ]
    else:
        assert len(given) == text.count("uses: ./.github/workflows/parity.yml")


def test_labels_of_runners_are_known_to_the_linter() -> None:
    text = (ROOT / ".github" / "actionlint.yaml").read_text(encoding="utf-8")
    labels = set(re.findall(r"^ +- (\S+)$", text, re.MULTILINE))
    used = {label for one in load_platforms().values() for label in one.ci.runner}
    assert labels == used - BUILT_IN_LABELS


def test_verdict_is_given_whatever_became_of_the_jobs() -> None:
    text = workflow("parity.yml")
    job = text[text.index("\n  verdict:") :]
    assert "needs: [plan, cells]\n    if: always()" in job
    assert "vllm-parity merge records" in job
    assert "if-no-files-found: error" in text
