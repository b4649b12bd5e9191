"""Searching for a cause: which settings to measure next, until a minimal set is proven both ways.

Delta debugging (Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input", IEEE
TSE 28(2), 2002), with the bisection that few culprits allow: with all suspects as the cell has
them the fault is there, with all of them at their other value it is not, and somewhere between lies
the knob that turns it. Nothing is taken on trust: whatever set is found must bring the fault by
itself, and the fault must go without it.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from vllm_parity.attribution.answer import Answer, Kind, kind_of
from vllm_parity.attribution.grid import Sign
from vllm_parity.rates import Rate, clean_runs_needed

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Kept = frozenset[str]
"""The suspects that are as the cell has them; the others have their other value."""

CONTROLS = 20
"""Runs of the cell itself before anything is changed. A fault that comes in 4 of 5 runs looks like
one that comes each time with a probability of 1 %."""

CLEAN = clean_runs_needed(0.05, 0.95)
"""Clean runs after which nothing is said to diverge: less than 5 % do, with 95 % confidence."""

PROOFS = 5
"""Runs of each of the two settings that prove a cause."""

_LUCK = 0.005
"""A setting is called steady where an unsteady one would look so with this probability at most."""

_MOST_RUNS = 100


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What one run showed. Two with the same `label` gave the same outputs."""

    sign: Sign
    label: str = ""


class Lab(Protocol):
    """Who measures. What was measured before is not measured again."""

    def run(self, kept: Kept, times: int) -> Sequence[Outcome]:
        """Return the outcomes of at least so many runs.

        Raises:
            OutOfBudgetError: where there is no time left for it.

        """


class OutOfBudgetError(Exception):
    """There is no time for the next run."""


class _StuckError(Exception):
    """What was measured contradicts itself, or cannot be measured; the message says which."""

    def __init__(self, message: str, kept: Kept | None = None) -> None:
        super().__init__(message)
        self.kept = kept


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What a search came to.

    `alone` are the settings that prove a set of culprits to be enough, one for each set; `without`
    the one that proves it to be needed. `rate` is how often the cell itself went wrong. `dropped`
    are suspects whose other value could not be measured. `open` are the settings to measure next
    where the answer is undetermined.
    """

    answer: Answer
    rate: Rate
    alone: tuple[Kept, ...] = ()
    without: Kept | None = None
    dropped: tuple[str, ...] = ()
    open: Kept | None = None


@dataclass
class Search:
    """One search.

    Suspects that are dear to change are best first in `suspects`: the first half of them is left
    alone longest.
    """

    suspects: Sequence[str]
    lab: Lab
    controls: int = CONTROLS
    _asked: Kept | None = field(default=None, init=False)
    _steady_runs: int = field(default=1, init=False)
    _restless: bool = field(default=False, init=False)
    _noisy: bool = field(default=False, init=False)
    _always: Kept = field(default=frozenset(), init=False)
    """Suspects that stay as the cell has them."""

    def find(self) -> Finding:
        """Find the cause."""
        everything = frozenset(self.suspects)
        outcomes: Sequence[Outcome] = ()
        try:
            outcomes = self._run(everything, self.controls)
            if all(one.sign is Sign.SAME for one in outcomes) and len(ways(outcomes)) == 1:
                outcomes = self._run(everything, CLEAN)
        except OutOfBudgetError:
            return self._unfinished(rate_of(outcomes), "there was no time for the controls")
        rate = rate_of(outcomes)
        counted = counting(outcomes)
        if not counted:
            words = "no run of the cell itself counts"
            return self._unfinished(rate, words)
        self._noisy = any(one.sign is Sign.NOISY for one in counted)
        self._restless = not self._noisy and len(ways(counted)) > 1
        if self._noisy or self._restless:
            return self._shaky()
        if counted[0].sign is Sign.SAME:
            words = f"nothing diverged: {rate.words}"
            return Finding(answer=Answer(kind=Kind.NONE, evidence=words), rate=rate)
        return self._isolate(Kind.SINGLE, f"the cell diverges each time: {rate.words}", rate)

    def _shaky(self) -> Finding:
        """Go on where equal settings disagree: measure how often, look for what makes it stop."""
        everything = frozenset(self.suspects)
        try:
            outcomes = self._run(everything, 2 * self.controls)
        except OutOfBudgetError:
            outcomes = self.lab.run(everything, 0)
        counted = counting(outcomes)
        rate = rate_of(outcomes)
        found = ways(counted)
        if self._noisy:
            kind, words = Kind.NOISE, f"the reference does not repeat itself: {rate.words}"
            usual = sum(one.sign is not Sign.NOISY for one in counted)
        else:
            kind = Kind.NONDETERMINISTIC
            words = f"equal settings disagree: {rate.words}, {len(found)} different outcomes"
            usual = max(found.values())
        # The largest share that the usual outcome may have decides how many runs tell it from all.
        share = Rate(events=usual, runs=len(counted)).interval(0.9)[1]
        runs = math.log(_LUCK) / math.log(share) if share < 1 else _MOST_RUNS + 1
        if runs > _MOST_RUNS:
            words += "; it is too rare to tell where it stops"
            return Finding(answer=Answer(kind=kind, evidence=words), rate=rate)
        self._steady_runs = math.ceil(runs)
        return self._isolate(kind, words, rate)

    def _isolate(self, kind: Kind, words: str, rate: Rate) -> Finding:
        """Find all sets of suspects that bring the fault, and prove them."""
        pool = list(self.suspects)
        dropped: tuple[str, ...] = ()
        steady = kind is Kind.SINGLE
        try:
            dropped = self._drop_what_cannot_be_measured(pool)
            sets = self._all_sets(pool)
            if not sets:
                more = f"; so it does with all {len(pool)} suspects at their other value"
                if steady:
                    kind = Kind.UNDETERMINED
                return Finding(
                    answer=Answer(kind=kind, evidence=words + more), rate=rate, dropped=dropped
                )
            without = frozenset(self.suspects) - frozenset().union(*sets)
            self._prove(sets, without)
        except OutOfBudgetError:
            return self._unfinished(rate, f"{words}; no time was left", None if steady else kind)
        except _StuckError as error:
            return self._unfinished(rate, f"{words}; {error}", None if steady else kind, error.kept)
        culprits = tuple(tuple(name for name in self.suspects if name in one) for one in sets)
        each = ", or ".join(" and ".join(one) for one in culprits)
        more = f"; enough with all else at its other value, and gone without: {each}"
        return Finding(
            answer=Answer(
                kind=kind_of(culprits) if steady else kind, culprits=culprits, evidence=words + more
            ),
            rate=rate,
            alone=tuple(frozenset(one) | frozenset(dropped) for one in sets),
            without=without,
            dropped=dropped,
        )

    def _drop_what_cannot_be_measured(self, pool: list[str]) -> tuple[str, ...]:
        """Take suspects out of the pool until all of it can be at its other value at once."""
        if self._happens(frozenset()) is not None:
            return ()
        everything = frozenset(self.suspects)
        for name in list(pool):
            if self._happens(everything - {name}) is None:
                pool.remove(name)
        dropped = tuple(name for name in self.suspects if name not in pool)
        self._always = frozenset(dropped)
        if not dropped or self._happens(frozenset()) is None:
            msg = "with all suspects at their other value nothing can be measured"
            raise _StuckError(msg, self._always)
        return dropped

    def _all_sets(self, pool: list[str]) -> list[Kept]:
        """Return minimal sets until none is left that brings the fault without the others."""
        sets: list[Kept] = []
        if self._happens(frozenset()):
            return sets
        left = list(pool)
        while self._sure(frozenset(left)):
            found = self._minimal(left)
            sets.append(found)
            left = [name for name in left if name not in found]
        return sets

    def _minimal(self, pool: list[str]) -> Kept:
        """Return a set that brings the fault, of a pool that does, none of whose parts does."""
        found: Kept = frozenset()
        while not self._sure(found):
            if not pool:
                msg = f"{', '.join(sorted(found))} did not bring it when measured again"
                raise _StuckError(msg, found)
            low, high = 0, len(pool)
            while high - low > 1:
                middle = self._measurable(found, pool, low, high)
                if self._sure(found.union(pool[:middle])):
                    high = middle
                else:
                    low = middle
            found |= {pool[high - 1]}
            pool = pool[: high - 1]
        for name in found if len(found) > 1 else ():
            if self._sure(found - {name}):
                msg = f"{name} changes what the others do, in more than one way"
                raise _StuckError(msg, found - {name})
        return found

    def _measurable(self, found: Kept, pool: list[str], low: int, high: int) -> int:
        """Return the place nearest to the middle at which the pool can be cut and measured."""
        middle = (low + high) // 2
        for place in sorted(range(low + 1, high), key=lambda one: abs(one - middle)):
            if self._happens(found.union(pool[:place])) is not None:
                return place
        msg = (
            f"{', '.join(pool[low:high])} cannot be told apart: no setting between can be measured"
        )
        raise _StuckError(msg, found.union(pool[:middle]))

    def _prove(self, sets: Sequence[Kept], without: Kept) -> None:
        """Measure the proofs more than once; what does not hold each time proves nothing."""
        if self._restless or self._noisy:
            self._steady_runs *= 2
            parts = [one - {name} for one in sets for name in one]
            for kept in [*parts, without]:
                if self._sure(kept):
                    names = ", ".join(sorted(kept)) or "none of them"
                    msg = f"with {names} as in the cell it came after all, measured for longer"
                    raise _StuckError(msg, kept)
            return
        for kept, expected in [(one, Sign.DIVERGED) for one in sets] + [(without, Sign.SAME)]:
            outcomes = self._run(kept, PROOFS)
            if any(one.sign is not expected for one in outcomes):
                names = ", ".join(sorted(kept)) or "none of them"
                msg = f"with {names} as in the cell it did not come out {expected} each time"
                raise _StuckError(msg, kept)

    def _sure(self, kept: Kept) -> bool:
        """Return whether the fault is there; settings that cannot be measured end the search."""
        happens = self._happens(kept)
        if happens is None:
            names = ", ".join(sorted(kept)) or "none of the suspects"
            msg = f"with {names} as in the cell, and the rest not, no run counts"
            raise _StuckError(msg, kept)
        return happens

    def _happens(self, kept: Kept) -> bool | None:
        """Return whether the fault is there under these settings; None where no run counts."""
        if not (self._restless or self._noisy):
            (first, *_) = self._run(kept, 1)
            if first.sign in {Sign.VOID, Sign.NOISY}:
                return None
            return first.sign is Sign.DIVERGED
        # Run until it shows, or until it would have shown.
        for times in range(2, self._steady_runs + 1):
            counted = counting(self._run(kept, times))
            if not counted:
                return None
            if self._noisy and any(one.sign is Sign.NOISY for one in counted):
                return True
            if self._restless and len(ways(counted)) > 1:
                return True
        return False

    def _run(self, kept: Kept, times: int) -> Sequence[Outcome]:
        self._asked = kept | self._always
        return self.lab.run(self._asked, times)

    def _unfinished(
        self, rate: Rate, words: str, kind: Kind | None = None, kept: Kept | None = None
    ) -> Finding:
        """Return what is known so far; a kind is known where the controls have shown it."""
        return Finding(
            answer=Answer(kind=kind or Kind.UNDETERMINED, evidence=words),
            rate=rate,
            open=self._asked if kept is None else kept | self._always,
            dropped=tuple(name for name in self.suspects if name in self._always),
        )


def counting(outcomes: Iterable[Outcome]) -> list[Outcome]:
    """Return the outcomes that show something."""
    return [one for one in outcomes if one.sign is not Sign.VOID]


def ways(outcomes: Iterable[Outcome]) -> Counter[tuple[Sign, str]]:
    """Return how many of the runs that count came out in which way."""
    return Counter((one.sign, one.label) for one in counting(outcomes))


def rate_of(outcomes: Iterable[Outcome]) -> Rate:
    """Return how many of the runs that count went wrong."""
    counted = counting(outcomes)
    return Rate(events=sum(one.sign is not Sign.SAME for one in counted), runs=len(counted))
