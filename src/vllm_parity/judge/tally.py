"""What is found while two arms are compared, gathered in one place."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from vllm_parity.judge.findings import Code, Compared, Reason, Worst

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from vllm_parity.judge.sides import Listed, Side
    from vllm_parity.schema import Contract

DEGENERATE_COUNT = 4
SENTINEL = -9999.0


class Place(NamedTuple):
    """Which request, output and position something is about."""

    request: str | None = None
    output: int | None = None
    position: int | None = None

    def at(self, position: int) -> Place:
        """Return the same place at a position."""
        return self._replace(position=position)


class Places:
    """The places of positions in outputs that were laid end to end."""

    def __init__(self, outputs: list[Place], starts: NDArray[np.int64] | None = None) -> None:
        self._outputs = outputs
        self._starts = np.zeros(1, np.int64) if starts is None else starts

    def owner(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the number of the output that each position belongs to."""
        return np.searchsorted(self._starts, positions, side="right") - 1

    def of(self, position: int) -> Place:
        """Return the place of one position."""
        number = int(self.owner(np.asarray(position)))
        return self._outputs[number].at(position - int(self._starts[number]))


@dataclass(kw_only=True, slots=True)
class Signal:
    """Whether the own logprobs of an arm say anything at all."""

    outputs: int = 0
    positions: int = 0
    count: int = 0
    zeros: int = 0
    sentinel: Place | None = None

    def hear(self, side: Side, place: Place) -> None:
        """Take in one output."""
        self.outputs += 1
        self.positions += side.length
        if side.listed is not None:
            self.hear_values(side.listed, Places([place]))

    def hear_values(self, listed: Listed, places: Places) -> None:
        """Take in the own logprobs of outputs laid end to end."""
        own = listed.own[listed.present]
        self.count += len(own)
        self.zeros += int(np.count_nonzero(own == 0))
        sentinels = np.isfinite(listed.own) & (listed.own <= SENTINEL)
        if self.sentinel is None and sentinels.any():
            self.sentinel = places.of(int(np.argmax(sentinels)))

    @property
    def fault(self) -> str | None:
        """What is wrong with the arm as a whole, in words."""
        if self.sentinel is not None:
            return f"an own logprob is {SENTINEL:g} or less: a stand-in, not a value"
        if self.count >= DEGENERATE_COUNT and self.zeros == self.count:
            return f"all {self.count} own logprobs are exactly 0.0"
        return None


@dataclass(kw_only=True, slots=True)
class Tally:
    """Reasons and counts of one comparison.

    With `lenient`, values that are not finite are passed over: that is how a control is compared.
    """

    contract: Contract
    lenient: bool = False
    reasons: list[Reason] = field(default_factory=list)
    first: dict[tuple[Code, str | None, int | None], Reason] = field(default_factory=dict)
    requests: set[str | None] = field(default_factory=set)
    """Those of which at least one position was compared."""
    positions: int = 0
    logprobs: int = 0
    expected: int = 0
    credited: int = 0
    """Compared positions, none counting for more than its output expects."""
    worst: Worst | None = None
    signals: tuple[Signal, Signal] = field(default_factory=lambda: (Signal(), Signal()))

    def add(self, code: Code, message: str, place: Place | None = None) -> None:
        """Note a finding."""
        place = place or Place()
        reason = Reason(
            code=code,
            request=place.request,
            output=place.output,
            position=place.position,
            message=message,
        )
        if place.position is None:
            self.reasons.append(reason)
            return
        # One reason a code and output, the first of its positions: a thousand would hide it.
        key = code, place.request, place.output
        first = self.first.get(key)
        if first is None or place.position < (first.position or 0):
            self.first[key] = reason

    def count(self, positions: int, expected: int, place: Place) -> None:
        """Count the compared positions of an output."""
        self.positions += positions
        self.credited += min(positions, expected)
        if positions:
            self.requests.add(place.request)

    def found(self) -> list[Reason]:
        """Return every reason, in the order in which reasons are listed."""
        order = {code: place for place, code in enumerate(Code)}
        return sorted([*self.reasons, *self.first.values()], key=lambda reason: order[reason.code])

    def compared(self) -> Compared:
        """Return the counts."""
        return Compared(
            requests=len(self.requests), positions=self.positions, logprobs=self.logprobs
        )
