"""Comparing many outputs at once.

A batch cell has few tokens an output, and numpy costs as much for eight values as for a thousand.
So plain outputs that have nothing to tell but their values are laid end to end and compared as one;
any that turns out to have more to tell is compared again by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from vllm_parity.judge.outputs import compare_output, compare_straight
from vllm_parity.judge.sides import from_output, id_column, split
from vllm_parity.judge.tally import Place, Places, Tally
from vllm_parity.logprobs import Logprobs

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from vllm_parity.judge.sides import Listed
    from vllm_parity.schema import Output

POSITIONS = 1 << 15
"""Enough for numpy's own cost not to matter, and little enough to stay in a cache."""


class Pair(NamedTuple):
    """One output of both arms."""

    place: Place
    expect: int | None
    reference: Output
    candidate: Output

    @property
    def plain(self) -> bool:
        """Whether there can be nothing to tell but of tokens and values."""
        a, b = self.reference, self.candidate
        if a.token_ids is None or b.token_ids is None or a.logprobs is None or b.logprobs is None:
            return False
        length = len(a.token_ids)
        return (
            length == len(b.token_ids) == len(a.logprobs) == len(b.logprobs)
            and (self.expect is None or length >= self.expect)
            and (a.text == b.text or a.text is None or b.text is None)
            and a.finish_reason == b.finish_reason
        )


class Block:
    """Pairs that wait to be compared together."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._pairs: list[Pair] = []
        self._positions = 0

    def compare(self, pair: Pair) -> None:
        """Compare a pair, now or with those that come after it."""
        if not (self._tally.contract.reads_logprobs and pair.plain):
            a, b = from_output(pair.reference), from_output(pair.candidate)
            for side, signal in zip((a, b), self._tally.signals, strict=True):
                signal.hear(side, pair.place)
            compare_output(a, b, pair.expect, self._tally, pair.place)
            return
        self._pairs.append(pair)
        self._positions += len(pair.reference.token_ids or ())
        if self._positions >= POSITIONS:
            self.flush()

    def flush(self) -> None:
        """Compare every pair that still waits."""
        if self._pairs:
            _compare(self._pairs, self._tally)
        self._pairs, self._positions = [], 0


def _compare(pairs: list[Pair], tally: Tally) -> None:
    lengths = [len(pair.reference.token_ids or ()) for pair in pairs]
    ends = np.cumsum(lengths, dtype=np.int64)
    places = Places([pair.place for pair in pairs], ends - np.array(lengths, np.int64))
    ids_a, a = _end_to_end([pair.reference for pair in pairs])
    ids_b, b = _end_to_end([pair.candidate for pair in pairs])
    for listed, signal in zip((a, b), tally.signals, strict=True):
        signal.outputs += len(pairs)
        signal.positions += len(ids_a)
        signal.hear_values(listed, places)
    odd = np.flatnonzero((ids_a != ids_b) | ~(a.present & b.present))
    apart = set(places.owner(odd).tolist())
    rows = np.ones(len(ids_a), np.bool_)
    for number in apart:
        rows[ends[number] - lengths[number] : ends[number]] = False
    compare_straight(ids_a, a, b, rows, tally, places)
    for number, (pair, length) in enumerate(zip(pairs, lengths, strict=True)):
        if number in apart:
            sides = from_output(pair.reference), from_output(pair.candidate)
            compare_output(*sides, pair.expect, tally, pair.place)
        else:
            tally.count(length, length if pair.expect is None else pair.expect, pair.place)


def _end_to_end(outputs: list[Output]) -> tuple[NDArray[np.int64], Listed]:
    ids = id_column(output.token_ids or () for output in outputs)
    rows = Logprobs.joined([Logprobs.of(output.logprobs or ()) for output in outputs])
    return ids, split(ids, rows)
