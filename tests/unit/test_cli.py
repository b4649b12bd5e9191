"""The command: one message for what was foreseen, and an exit code that tells."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from vllm_parity import __version__
from vllm_parity.cli import _COMMANDS, main
from vllm_parity.matrix import load_models

Capture = pytest.CaptureFixture[str]
GOOD = Path(__file__).parents[1] / "data" / "good-spec_decode.json"


def exits(*arguments: str) -> object:
    """Return the exit code of a call that argparse ends."""
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    return caught.value.code


def test_unknown_file_is_one_message(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "none.json"
    assert main(["judge", str(path)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("error: ")
    assert str(path) in captured.err
    assert captured.err.count("\n") == 1


def test_good_observation_is_0(capsys: Capture) -> None:
    assert main(["judge", str(GOOD)]) == 0
    assert capsys.readouterr().out.startswith("PASS ")


def test_double_dash_before_the_command_is_taken_or_refused_as_python_has_it() -> None:
    try:
        code: object = main(["--", "judge", str(GOOD)])
    except SystemExit as error:
        code = error.code
    assert code in {0, 2}


def test_file_may_be_called_like_a_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    (tmp_path / "plan").write_bytes(GOOD.read_bytes())
    monkeypatch.chdir(tmp_path)
    assert main(["judge", "plan"]) == 0
    assert capsys.readouterr().out.startswith("PASS ")


def test_models_are_listed(capsys: Capture) -> None:
    assert main(["models", "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(load_models())


def test_version(capsys: Capture) -> None:
    assert exits("--version") == 0
    assert capsys.readouterr().out == f"vllm-parity {__version__}\n"


def test_help_lists_every_command(capsys: Capture) -> None:
    assert exits("--help") == 0
    out = capsys.readouterr().out
    for name, (summary, _) in _COMMANDS.items():
        assert re.search(rf"^ +{name}\s+{re.escape(summary)}$", out, re.MULTILINE)


@pytest.mark.parametrize("name", _COMMANDS)
def test_every_command_has_help_of_its_own(name: str, capsys: Capture) -> None:
    assert exits(name, "--help") == 0
    assert capsys.readouterr().out.startswith(f"usage: vllm-parity {name} ")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "the following arguments are required: COMMAND"),
        (["jugde"], "invalid choice: 'jugde'"),
        (["plan", "--format", "xml"], "argument --format: invalid"),
        (["plan", "--cel", "x", "--no"], "unrecognized arguments: --no"),
    ],
)
def test_wrong_words_are_2(arguments: list[str], words: str, capsys: Capture) -> None:
    assert exits(*arguments) == 2
    assert words in capsys.readouterr().err


def python(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments, "-c", code], capture_output=True, text=True, check=False
    )


def test_reader_that_has_seen_enough_is_no_traceback() -> None:
    code = (
        "import os, sys; from vllm_parity.cli import main;"
        "read, write = os.pipe(); os.close(read); os.dup2(write, 1);"
        "sys.exit(main(['models', '--list']))"
    )
    done = python(code)
    assert done.returncode != 0
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "never"),
    [
        (["plan"], ["vllm", "torch"]),
        (["judge", str(GOOD)], ["vllm", "torch", "httpx", "pytest"]),
        (["models", "--list"], ["vllm", "torch", "httpx", "pytest"]),
    ],
    ids=["plan", "judge", "models"],
)
def test_command_imports_what_it_needs(arguments: list[str], never: list[str]) -> None:
    code = (
        f"import sys; from vllm_parity.cli import main; main({arguments});"
        f"sys.exit(str([name for name in {never} if name in sys.modules]))"
    )
    assert python(code).stderr == "[]\n"


def test_package_is_imported_without_numpy() -> None:
    code = "import sys, vllm_parity; sys.exit(str('numpy' in sys.modules))"
    assert python(code).stderr == "False\n"
