"""Verdicts, their exit codes, and which of them is the worst."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class Verdict(StrEnum):
    """What is said of one cell, from worst to best. Only `PASS` is green."""

    DIVERGED = "diverged"
    ERROR = "error"
    INVALID_PAIR = "invalid_pair"
    NOISY = "noisy"
    UNVERIFIED = "unverified"
    NOT_RUN = "not_run"
    PASS = "pass"

    @property
    def exit_code(self) -> int:
        """The process exit code of a run whose worst verdict is this one."""
        return _EXIT_CODES[self]


_EXIT_CODES = {
    Verdict.DIVERGED: 1,
    Verdict.ERROR: 7,
    Verdict.INVALID_PAIR: 8,
    Verdict.NOISY: 9,
    Verdict.UNVERIFIED: 5,
    Verdict.NOT_RUN: 3,
    Verdict.PASS: 0,
}


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the worst of some verdicts; `NOT_RUN` where there is none: nothing was shown."""
    order = list(Verdict)
    return min(verdicts, key=order.index, default=Verdict.NOT_RUN)
