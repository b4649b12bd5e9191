"""How often something happens, as far as a number of runs can tell."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Rate:
    """`events` of `runs`."""

    events: int
    runs: int

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Return the exact two-sided interval of Clopper and Pearson (Biometrika 26, 1934).

        >>> [round(bound, 4) for bound in Rate(events=2, runs=7).interval()]
        [0.0367, 0.7096]
        """
        # It takes half a second to import, and most commands do without.
        from scipy.stats import binomtest  # noqa: PLC0415

        if not self.runs:
            return 0.0, 1.0
        found = binomtest(self.events, self.runs).proportion_ci(confidence, method="exact")
        return float(found.low), float(found.high)

    @property
    def words(self) -> str:
        """The rate and its interval, for people.

        >>> Rate(events=2, runs=7).words
        '2 of 7 runs (29 %, 95 % interval 3.7 % to 71 %)'
        """
        if not self.runs:
            return "none of 0 runs"
        low, high = (_percent(bound) for bound in self.interval())
        share = _percent(self.events / self.runs)
        return f"{self.events} of {self.runs} runs ({share} %, 95 % interval {low} % to {high} %)"


def _percent(share: float) -> str:
    """Return a share in percent, with two digits; 100 has three.

    >>> _percent(0.0367), _percent(0.7096), _percent(1.0)
    ('3.7', '71', '100')
    """
    percent = 100 * share
    return f"{percent:.2g}" if percent < 99.5 else f"{percent:.3g}"


def clean_runs_needed(rate: float, confidence: float) -> int:
    """Return how many runs without an event show that it is rarer than `rate`.

    The smallest n with (1 - rate)^n <= 1 - confidence.

    >>> clean_runs_needed(0.05, 0.95), clean_runs_needed(0.01, 0.95)
    (59, 299)
    """
    return math.ceil(math.log(1 - confidence) / math.log(1 - rate))


def too_many(rate: float, confidence: float, runs: int) -> int:
    """Return how many events in so many runs show that it is more frequent than `rate`.

    The smallest k with P(X >= k) <= 1 - confidence, X binomial.

    >>> too_many(0.05, 0.95, 59)
    7
    """
    from scipy.stats import binom  # noqa: PLC0415 - as above

    return int(binom.ppf(confidence, runs, rate)) + 1
