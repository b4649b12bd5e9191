"""What README.md tells people to type exists."""

from __future__ import annotations

import functools
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from vllm_parity.cli import _COMMANDS, main
from vllm_parity.matrix import Execution, Selection, load_matrix, load_platforms, select

ROOT = Path(__file__).parents[2]
PLACEHOLDER = re.compile(r"[A-Z][A-Z_]*|<.*>|.*(\.\.\.|…).*")
"""A word that stands for another, such as NAME or `cpu_...`."""


def code_spans(text: str) -> list[str]:
    """Return the lines of fenced blocks, continued ones joined, and the inline spans."""
    fences = re.findall(r"^```[^\n]*\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    rest = re.sub(r"^```[^\n]*\n.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    lines = [line for fence in fences for line in fence.replace("\\\n", " ").splitlines()]
    return lines + [one for _, one in re.findall(r"(`+)(.+?)\1", rest)]


def commands(text: str) -> list[list[str]]:
    """Return the words of each command in the code of a text, without prompt and variables."""
    found = []
    for span in code_spans(text):
        for part in re.split(r"&&|\|\||[|;]", span):
            try:
                words = shlex.split(part, comments=True)
            except ValueError:  # a span of something else than shell
                continue
            while words and (words[0] == "$" or re.fullmatch(r"\w+=.*", words[0])):
                words = words[1:]
            if words[1:3] == ["-m", "nox"]:
                words = words[2:]
            if words:
                found.append(words)
    return found


def sessions_named(text: str) -> set[str]:
    """Return what stands after `-s` in calls of nox."""
    found: set[str] = set()
    for words in commands(text):
        flags = [n for n, word in enumerate(words) if word in {"-s", "--session", "--sessions"}]
        if words[0] != "nox" or not flags:
            continue
        for word in words[flags[0] + 1 :]:
            if word.startswith("-"):
                break
            found.add(word)
    return {name for name in found if not PLACEHOLDER.fullmatch(name)}


def subcommands_named(text: str) -> dict[str, set[str]]:
    """Return the subcommands of vllm-parity, each with the options used."""
    found: dict[str, set[str]] = {}
    for words in commands(text):
        if words[0] != "vllm-parity" or len(words) < 2 or words[1].startswith("-"):
            continue
        if PLACEHOLDER.fullmatch(words[1]):
            continue
        options = {word.partition("=")[0] for word in words[2:] if word.startswith("--")}
        found.setdefault(words[1], set()).update(options)
    return found


README = (ROOT / "README.md").read_text(encoding="utf-8")


@functools.cache
def sessions() -> set[str]:
    """Return all names that `nox -s` takes: of sessions, and with their parameters."""
    done = subprocess.run(
        [sys.executable, "-m", "nox", "--list", "--json", "-k", "not nothing"],
        cwd=ROOT,
        env=os.environ | {"NOX_SCRIPT_MODE": "none"},
        capture_output=True,
        text=True,
        check=True,
    )
    return {one[key] for one in json.loads(done.stdout) for key in ("session", "name")}


# README.md


def test_readme_names_sessions_that_exist() -> None:
    named = sessions_named(README)
    assert {"smoke", "tests"} <= named
    assert named <= sessions()


def test_readme_names_subcommands_that_exist() -> None:
    named = set(subcommands_named(README))
    assert named
    assert named <= set(_COMMANDS)


def test_readme_uses_options_that_exist(capsys: pytest.CaptureFixture[str]) -> None:
    for name, options in subcommands_named(README).items():
        with pytest.raises(SystemExit):
            main([name, "--help"])
        assert options <= set(re.findall(r"--[\w-]+", capsys.readouterr().out)), name


def test_readme_links_to_files_that_exist() -> None:
    links = re.findall(r"\]\((?!https?:|#|mailto:)([^)#\s]+)", README)
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_default_vllm_of_each_platform_is_named() -> None:
    """Where a lock or the image is renewed, the README says so, and the example fits."""
    (told,) = re.findall(r"\*\*Which vLLM\.\*\* .*?\n\n", README, re.DOTALL)
    example = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
    for platform, settings in load_platforms().items():
        plan = settings.install
        if plan.lock is None:
            assert f"`{plan.image}`" in told
            continue
        lock = (ROOT / "configs" / "locks" / plan.lock).read_text(encoding="utf-8")
        (version,) = set(re.findall(r"^vllm(?:-cpu)?(?:\[\w+\])?==(\S+)", lock, re.MULTILINE))
        assert f"{version} on `{platform}`" in told
        if f"platform: {platform} " in example:
            assert f'vllm: "{version}"' in example


# What reads it


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("type `nox -s smoke`", {"smoke"}),
        ("```\n$ nox -s lint tests -- -k x\n```", {"lint", "tests"}),
        ("```sh\npip install nox && python3 -m nox -s smoke  # eight minutes\n```", {"smoke"}),
        ('`nox -s "cpu_streaming(eager-apc_off)" -- --cell x`', {"cpu_streaming(eager-apc_off)"}),
        ("```\nHF_HOME=/x nox \\\n  -s smoke\n```", {"smoke"}),
        ("`nox -s NAME`, `nox -s cpu_...` and nox -s outside", set()),
        ("`nox -l`, `it's`", set()),
    ],
)
def test_sessions_are_found(text: str, expected: set[str]) -> None:
    assert sessions_named(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("`vllm-parity judge a.json --json`", {"judge": {"--json"}}),
        ("`vllm-parity plan | wc -l; vllm-parity compare a b`", {"plan": set(), "compare": set()}),
        ("`vllm-parity`, `vllm-parity --version`, `vllm-parity COMMAND`", {}),
        ("```\ngit clone x/vllm-parity && cd vllm-parity\n```", {}),
    ],
)
def test_subcommands_are_found(text: str, expected: dict[str, set[str]]) -> None:
    assert subcommands_named(text) == expected


def test_each_finding_has_the_command_that_shows_its_cell() -> None:
    text = (ROOT / "docs" / "findings.md").read_text(encoding="utf-8")
    matrix = load_matrix().built_in()
    sections = re.split(r"^## \d+\. ", text, flags=re.MULTILINE)[1:]
    assert len(sections) == len(re.findall(r"^\| \d+ \|", text, re.MULTILINE)) >= 6
    for section in sections:
        (words,) = [words for words in commands(section) if words[:2] == ["nox", "-s"]]
        platform, family, execution = re.split(r"_(?=batch|spec|stream)|[()]", words[2])[:3]
        pattern = words[words.index("--cell") + 1]
        wanted = Selection(cells=(pattern,), execution=Execution(execution))
        cells = select(matrix, wanted)
        assert {(cell.platform, cell.family) for cell in cells} == {(platform, family)}
