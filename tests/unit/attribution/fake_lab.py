"""A pure fake engine: a function from settings to outcomes, and truths to find in it."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from vllm_parity.attribution.answer import Kind
from vllm_parity.attribution.grid import Point, Sign
from vllm_parity.attribution.search import Kept, Outcome, OutOfBudgetError

if TYPE_CHECKING:
    from collections.abc import Sequence

KNOBS = tuple(f"knob{number}" for number in range(10))


class Noise(StrEnum):
    """What is not the same each time."""

    NO = "no"
    CAUSE = "cause"
    """The culprits bring the fault with a probability."""
    AMBIENT = "ambient"
    """The candidate differs with a probability, whatever the settings."""
    CONTROL = "control"
    """With the culprits the reference differs from itself with a probability."""


@dataclass(frozen=True, kw_only=True)
class Truth:
    """Which sets of knobs bring the fault, each by itself, and how often they do."""

    sets: tuple[frozenset[str], ...] = ()
    noise: Noise = Noise.NO
    rate: float = 1.0
    always: bool = False
    """It diverges under all settings."""

    @property
    def kind(self) -> Kind:
        """The right answer."""
        if self.noise is Noise.CONTROL:
            return Kind.NOISE
        if self.noise is not Noise.NO:
            return Kind.NONDETERMINISTIC
        if self.always:
            return Kind.UNDETERMINED
        if not self.sets:
            return Kind.NONE
        return Kind.INTERACTION if any(len(one) > 1 for one in self.sets) else Kind.SINGLE


@dataclass
class FakeLab:
    """Answers by a truth; keeps what it was asked, as a lab must."""

    truth: Truth
    random: random.Random
    budget: int = 1 << 30
    void: tuple[frozenset[str], ...] = ()
    """Settings of which a part is at its other value cannot be measured: these knobs together."""
    asked: dict[Kept, list[Outcome]] = field(default_factory=dict)

    def run(self, kept: Kept, times: int) -> Sequence[Outcome]:
        """Return at least so many outcomes."""
        outcomes = self.asked.setdefault(kept, [])
        while len(outcomes) < times:
            if sum(map(len, self.asked.values())) >= self.budget:
                raise OutOfBudgetError
            outcomes.append(self._measure(kept))
        return outcomes

    @property
    def probes(self) -> int:
        """How many settings were measured besides the cell itself."""
        return sum(bool(outcomes) for outcomes in self.asked.values()) - 1

    def points(self) -> list[Point]:
        """Return all that was measured as the points of a grid."""
        return [
            Point(
                settings={knob: "cell" if knob in kept else "other" for knob in KNOBS},
                sign=outcome.sign,
                label=outcome.label,
            )
            for kept, outcomes in self.asked.items()
            for outcome in outcomes
        ]

    def _measure(self, kept: Kept) -> Outcome:
        if any(not one & kept for one in self.void):
            return Outcome(sign=Sign.VOID)
        there = self.truth.always or any(one <= kept for one in self.truth.sets)
        if self.truth.noise is Noise.AMBIENT:
            there = True
        happens = there and self.random.random() < self.truth.rate
        if self.truth.noise is Noise.CONTROL:
            return Outcome(sign=Sign.NOISY if happens else Sign.SAME, label=str(happens))
        settings = ",".join(sorted(kept))
        return (
            Outcome(sign=Sign.DIVERGED, label=f"{settings}: apart")
            if happens
            else Outcome(sign=Sign.SAME, label=settings)
        )


def draw_truth(source: random.Random, *, noisy: bool) -> Truth:
    """Draw one, two or no culprits among the knobs; two are together or each by itself."""
    count = source.choice((0, 1, 1, 2, 2))
    names = source.sample(KNOBS, count)
    sets: tuple[frozenset[str], ...] = (frozenset(names),) if names else ()
    if not noisy:
        if count == 2 and source.random() < 0.3:
            sets = tuple(frozenset({name}) for name in names)
        return Truth(sets=sets, always=not sets and source.random() < 0.5)
    rate = source.uniform(0.2, 0.8)
    if not sets:
        return Truth(noise=Noise.AMBIENT, rate=rate)
    return Truth(sets=sets, noise=source.choice((Noise.CAUSE, Noise.CONTROL)), rate=rate)
