"""The folder of a run: one observation a cell, and what else belongs to it.

::

    results/20261130-210512-3fa1/
        cpu-streaming-text-eager-apc_off.json    observations, as OBSERVATION.md describes them
        meta/run.jsonl                           verdicts, seconds, what was started
        meta/run-gw0.jsonl                       the same of one worker of pytest-xdist
        meta/attempts/                           records of cells that were tried again since
        meta/*.log                               what each process of vLLM wrote
"""

from __future__ import annotations

import errno
import json
import secrets
import shutil
import time
from typing import TYPE_CHECKING, Any

from vllm_parity.errors import ResultsError
from vllm_parity.observation import write_observation, write_whole

if TYPE_CHECKING:
    from pathlib import Path

    from vllm_parity.observation import Observation

_NEEDED = 32 << 20
"""Bytes that must be free at the start: a smoke run's observations and logs take 10 MB."""


class Results:
    """The folder of one run, made at once, so that a full or closed disk shows at the start.

    Args:
        root: where the folders of runs are.
        run_id: the folder's name where several processes share it; else a new one.
        worker: the name of this one among them.

    """

    def __init__(self, root: Path, *, run_id: str | None = None, worker: str = "") -> None:
        self.worker = worker
        self.folder = root / (run_id or new_run_id())
        self.meta = self.folder / "meta"
        try:
            self.meta.mkdir(parents=True, exist_ok=run_id is not None)
            free = shutil.disk_usage(self.meta).free
        except OSError as error:
            raise _cannot_write(self.folder, error) from None
        if free < _NEEDED:
            if run_id is None:
                shutil.rmtree(self.folder)
            msg = (
                f"{root}: only {free / 1e6:.1f} MB are free, and a run needs"
                f" {_NEEDED / 1e6:.0f} MB; make room, or name another folder with --results"
            )
            raise ResultsError(msg)

    def write(self, observation: Observation, name: str | None = None) -> Path:
        """Write an observation, whole or not at all, under its cell's name or another."""
        path = self.folder / f"{name or observation.cell}.json"
        try:
            write_observation(path, observation)
        except OSError as error:
            raise _cannot_write(path, error) from None
        return path

    def set_aside(self, cell: str, attempt: int) -> None:
        """Keep the record of an attempt beside that of the next."""
        path = self.meta / "attempts" / f"{cell}-{attempt}.json"
        try:
            path.parent.mkdir(exist_ok=True)
            (self.folder / f"{cell}.json").replace(path)
        except OSError as error:
            raise _cannot_write(path, error) from None

    def write_summary(self, summary: dict[str, Any]) -> None:
        """Write ``meta/run.jsonl``, whole or not at all; one line, so that runs can be joined."""
        path = self.meta / (f"run-{self.worker}.jsonl" if self.worker else "run.jsonl")
        try:
            write_whole(path, json.dumps(summary).encode() + b"\n")
        except OSError as error:
            raise _cannot_write(path, error) from None


def new_run_id() -> str:
    """Return the name of a run's folder: the time by UTC, and what tells runs of a second apart."""
    return f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{secrets.token_hex(2)}"


def _cannot_write(path: Path, error: OSError) -> ResultsError:
    full = error.errno in {errno.ENOSPC, errno.EDQUOT}
    hint = "make room, or name" if full else "name"
    msg = f"{path}: cannot be written: {error.strerror}; {hint} another folder with --results"
    return ResultsError(msg)
