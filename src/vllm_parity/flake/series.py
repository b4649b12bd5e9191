"""What repeats of one cell show: classes of outcomes, a rate, and whether a claim is settled."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from vllm_parity.rates import Rate, clean_runs_needed, too_many
from vllm_parity.report.settings import Sign, sign_of

if TYPE_CHECKING:
    from vllm_parity.verdict import Verdict


class Claim(StrEnum):
    """What became of the claim that red runs are rarer than a rate."""

    HOLDS = "holds"
    REFUTED = "refuted"
    OPEN = "open"


@dataclass(frozen=True, kw_only=True)
class Repeat:
    """One run. Two of one `label` gave the same token ids and the same bits in both arms."""

    verdict: Verdict
    label: str
    record: str


@dataclass(frozen=True, kw_only=True)
class Series:
    """Repeats under equal settings, in order. What is neither pass nor red counts for nothing."""

    name: str
    repeats: tuple[Repeat, ...]

    @property
    def counted(self) -> list[Repeat]:
        """The repeats that show something."""
        return [one for one in self.repeats if sign_of(one.verdict, None) is not Sign.NONE]

    @property
    def rate(self) -> Rate:
        """How many of the counted are red."""
        reds = sum(sign_of(one.verdict, None) is Sign.RED for one in self.counted)
        return Rate(events=reds, runs=len(self.counted))

    @property
    def classes(self) -> dict[tuple[str, Verdict], int]:
        """How many repeats gave which outputs, the most frequent first."""
        return dict(Counter((one.label, one.verdict) for one in self.counted).most_common())

    @property
    def first_flip(self) -> int | None:
        """The number, from 1, of the first counted repeat that is not as the first one was."""
        for number, one in enumerate(self.counted, start=1):
            if (one.label, one.verdict) != (self.counted[0].label, self.counted[0].verdict):
                return number
        return None

    @property
    def is_flaky(self) -> bool:
        """Whether some repeats pass and some are red."""
        return 0 < self.rate.events < self.rate.runs

    def claim(self, rate: float, confidence: float) -> Claim:
        """Return what became of the claim that red runs are rarer than `rate`.

        One plan for as many runs as a clean series needs: it holds if none of them is red, and is
        refuted by as many reds as are too many for that rate. Both can be known before the end,
        and stopping then changes no probability.
        """
        needed = clean_runs_needed(rate, confidence)
        if self.rate.events >= too_many(rate, confidence, needed):
            return Claim.REFUTED
        if self.rate.runs >= needed and not self.rate.events:
            return Claim.HOLDS
        return Claim.OPEN
