"""One side of a comparison: an output or a choice, in the columns that both families share."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from vllm_parity.errors import FormatError
from vllm_parity.logprobs import Logprobs

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from vllm_parity.schema import Output


@dataclass(frozen=True, kw_only=True, slots=True)
class Listed:
    """The logprobs of one output: its own values, and the alternatives beside them.

    A key says which entries of two arms are the same thing. For a plain output it is the token
    id; a stream's alternatives have no ids, and get a number for their bytes.
    """

    own: NDArray[np.float32]
    present: NDArray[np.bool_]
    """Whether a position has an own value at all."""
    own_keys: NDArray[np.int64]
    offsets: NDArray[np.int64]
    """The alternatives of position ``i`` are ``offsets[i]:offsets[i + 1]`` of the next two."""
    keys: NDArray[np.int64]
    values: NDArray[np.float32]
    at: NDArray[np.int64]
    """The position of each alternative."""

    def row(self, position: int) -> dict[int, float]:
        """Return what is listed at a position, own entry first."""
        own = {int(self.own_keys[position]): float(self.own[position])}
        return own | self.alternatives(position)

    def alternatives(self, position: int) -> dict[int, float]:
        """Return what is listed at a position beside the generated token."""
        part = slice(self.offsets[position], self.offsets[position + 1])
        return dict(zip(self.keys[part].tolist(), self.values[part].tolist(), strict=True))

    def cut(self, position: int) -> float:
        """Return the smallest listed value: below it, an id may be missing from the list.

        The generated token is listed however improbable it is, so its entry says nothing of
        where the list ends, unless there is no other.
        """
        own = int(self.own_keys[position])
        row = self.row(position)
        others = [value for key, value in row.items() if key != own and not math.isnan(value)]
        return min(others, default=row[own])


@dataclass(frozen=True, kw_only=True, slots=True)
class Side:
    """An output of one arm, ready to compare."""

    index: int
    token_ids: NDArray[np.int64] | None
    listed: Listed | None
    text: Mapping[str, str | None] = field(default_factory=dict)
    """Every text that counts, by name; a null one is not compared."""
    finish_reason: str | None
    finished: bool = True
    """False for a choice of a stream that began and never ended."""
    surplus: int = 0
    """How many logprobs came over the wire for which there was no token id."""

    @property
    def length(self) -> int:
        """The number of generated tokens that were returned."""
        return 0 if self.token_ids is None else len(self.token_ids)


def from_output(output: Output) -> Side:
    """Return a plain output as a side."""
    ids = None if output.token_ids is None else id_column([output.token_ids])
    listed = None
    if ids is not None and output.logprobs is not None:
        listed = split(ids, Logprobs.of(output.logprobs))
    return Side(
        index=output.index,
        token_ids=ids,
        listed=listed,
        text={"text": output.text},
        finish_reason=output.finish_reason,
    )


def id_column(parts: Iterable[Sequence[int]]) -> NDArray[np.int64]:
    """Return token ids, one part after the other."""
    try:
        return np.fromiter(chain.from_iterable(parts), np.int64)
    except (OverflowError, ValueError, TypeError) as error:
        msg = f"expected token ids that are numbers of at most 64 bits: {error}"
        raise FormatError(msg) from None


def split(ids: NDArray[np.int64], rows: Logprobs) -> Listed:
    """Part own values from alternatives; positions without an own one are not present."""
    length = len(ids)
    counts = np.zeros(length, np.int64)
    counts[: len(rows)] = np.diff(rows.offsets)
    is_own = rows.ids == np.repeat(ids, counts)
    at = np.repeat(np.arange(length), counts)
    own = np.full(length, np.nan, np.float32)
    own_at = at[is_own]
    own[own_at] = rows.values[is_own]
    present = np.zeros(length, np.bool_)
    present[own_at] = True
    counts -= present
    return Listed(
        own=own,
        present=present,
        own_keys=ids,
        offsets=np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)]),
        keys=rows.ids[~is_own],
        values=rows.values[~is_own],
        at=at[~is_own],
    )
