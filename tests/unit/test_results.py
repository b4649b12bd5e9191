"""The folder of a run: made at once, each file whole or not at all, one message where it fails."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from vllm_parity.errors import ResultsError
from vllm_parity.observation import load_observation
from vllm_parity.results import Results

if TYPE_CHECKING:
    from vllm_parity.observation import Observation

DATA = Path(__file__).parents[1] / "data"


@pytest.fixture
def observation() -> Observation:
    return load_observation(DATA / "good-spec_decode.json")


def failing(number: int) -> Any:
    def fails(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    return fails


def test_folder_is_named_after_the_time_and_there_at_once(tmp_path: Path) -> None:
    results = Results(tmp_path / "results")
    assert results.folder.parent == tmp_path / "results"
    assert re.fullmatch(r"\d{8}-\d{6}-[0-9a-f]{4}", results.folder.name)
    assert results.meta.is_dir()


def test_two_runs_have_two_folders(tmp_path: Path) -> None:
    assert Results(tmp_path).folder != Results(tmp_path).folder


def test_observation_is_written_under_its_cell_and_reads_back(
    tmp_path: Path, observation: Observation
) -> None:
    results = Results(tmp_path)
    path = results.write(observation)
    assert path == results.folder / f"{observation.cell}.json"
    again = load_observation(path)
    assert (again.cell, again.contract, again.require) == (
        observation.cell,
        observation.contract,
        observation.require,
    )
    assert sorted(one.name for one in results.folder.iterdir()) == [path.name, "meta"]


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.ENOSPC, "No space left on device; make room, or name another folder with --results"),
        (errno.EDQUOT, "exceeded; make room, or name another folder with --results"),
        (errno.EACCES, "Permission denied; name another folder with --results"),
    ],
)
def test_observation_that_cannot_be_written_leaves_the_old_one_whole(
    tmp_path: Path,
    observation: Observation,
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    words: str,
) -> None:
    results = Results(tmp_path)
    path = results.write(observation)
    before = path.read_bytes()
    monkeypatch.setattr(os, "fsync", failing(number))
    with pytest.raises(ResultsError) as caught:
        results.write(observation)
    assert str(caught.value).startswith(f"{path}: cannot be written: ")
    assert str(caught.value).endswith(words)
    assert path.read_bytes() == before
    assert sorted(one.name for one in results.folder.iterdir()) == [path.name, "meta"]


def test_summary_is_one_line_and_the_last_one_counts(tmp_path: Path) -> None:
    results = Results(tmp_path)
    results.write_summary({"cells": 1})
    results.write_summary({"cells": 2, "worst": "pass"})
    text = (results.meta / "run.jsonl").read_text(encoding="utf-8")
    assert text.count("\n") == 1
    assert json.loads(text) == {"cells": 2, "worst": "pass"}
    assert [one.name for one in results.meta.iterdir()] == ["run.jsonl"]


def test_summary_that_cannot_be_written_leaves_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = Results(tmp_path)
    results.write_summary({"cells": 1})
    monkeypatch.setattr(Path, "replace", failing(errno.ENOSPC))
    with pytest.raises(ResultsError, match=r"run\.jsonl: cannot be written: No space left"):
        results.write_summary({"cells": 2})
    assert json.loads((results.meta / "run.jsonl").read_text(encoding="utf-8")) == {"cells": 1}


@pytest.mark.parametrize("taken", ["results", "results/below"])
def test_folder_that_cannot_be_made(tmp_path: Path, taken: str) -> None:
    (tmp_path / "results").touch()
    with pytest.raises(ResultsError, match=r"cannot be written: .*; name another folder with --re"):
        Results(tmp_path / taken)


@pytest.mark.parametrize(
    ("number", "hint"), [(errno.EROFS, "; name another"), (errno.ENOSPC, "; make room, or name an")]
)
def test_file_system_that_takes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, hint: str
) -> None:
    monkeypatch.setattr(Path, "mkdir", failing(number))
    with pytest.raises(ResultsError, match=hint):
        Results(tmp_path)


def test_too_little_space_shows_at_the_start_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=5_000_000))
    with pytest.raises(ResultsError) as caught:
        Results(tmp_path)
    assert str(caught.value) == (
        f"{tmp_path}: only 5.0 MB are free, and a run needs 34 MB;"
        " make room, or name another folder with --results"
    )
    assert list(tmp_path.iterdir()) == []
