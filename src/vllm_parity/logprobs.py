"""Logprobs of one output, kept as columns.

A hundred megabytes of mappings from token id to float would be half a gigabyte of Python objects.
As columns they are smaller than the file they came from, and can be compared without a loop.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, overload

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Logprobs(Sequence[dict[int, float]]):
    """One mapping from token id to float32 logprob for each generated token.

    It reads like a list of dicts, and is made from one:

    >>> rows = Logprobs([{5: -0.25, 7: -1.5}, {9: float("-inf")}])
    >>> len(rows), rows[0], rows[-1]
    (2, {5: -0.25, 7: -1.5}, {9: -inf})
    >>> rows.offsets.tolist(), rows.ids.tolist()
    ([0, 2, 3], [5, 7, 9])
    """

    __slots__ = ("ids", "offsets", "values")

    offsets: NDArray[np.int64]
    """Row ``i`` is the slice ``offsets[i]:offsets[i + 1]`` of the two columns."""
    ids: NDArray[np.int64]
    values: NDArray[np.float32]

    def __init__(self, rows: Sequence[Mapping[int, float | str]]) -> None:
        """Take rows in which a value may also be ``"nan"``, ``"inf"`` or ``"-inf"``."""
        counts = np.fromiter(map(len, rows), np.int64, len(rows))
        self.offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
        total = int(self.offsets[-1])
        self.ids = np.fromiter(chain.from_iterable(rows), np.int64, total)
        values = np.fromiter(chain.from_iterable(row.values() for row in rows), float, total)
        self.values = as_float32(values)

    @classmethod
    def of(cls, rows: Sequence[Mapping[int, float | str]]) -> Logprobs:
        """Return rows that are columns already as they are, others as columns."""
        return rows if isinstance(rows, cls) else cls(rows)

    @classmethod
    def _from_columns(
        cls, offsets: NDArray[np.int64], ids: NDArray[np.int64], values: NDArray[np.float32]
    ) -> Logprobs:
        new = cls.__new__(cls)
        new.offsets, new.ids, new.values = offsets, ids, values
        return new

    @classmethod
    def of_many(cls, outputs: Sequence[Sequence[Mapping[int, float | str]]]) -> list[Logprobs]:
        """Return the rows of many outputs, as views of columns that they share."""
        every = cls(list(chain.from_iterable(outputs)))
        made = []
        first = 0
        for rows in outputs:
            last = first + len(rows)
            start, stop = every.offsets[first], every.offsets[last]
            offsets = every.offsets[first : last + 1] - start
            part = slice(start, stop)
            made.append(cls._from_columns(offsets, every.ids[part], every.values[part]))
            first = last
        return made

    @classmethod
    def joined(cls, parts: Sequence[Logprobs]) -> Logprobs:
        """Return the rows of all parts, one after the other."""
        counts = np.concatenate([part.offsets[1:] - part.offsets[:-1] for part in parts])
        return cls._from_columns(
            np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)]),
            np.concatenate([part.ids for part in parts]),
            np.concatenate([part.values for part in parts]),
        )

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @overload
    def __getitem__(self, index: int) -> dict[int, float]: ...

    @overload
    def __getitem__(self, index: slice) -> list[dict[int, float]]: ...

    def __getitem__(self, index: int | slice) -> dict[int, float] | list[dict[int, float]]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        row = range(len(self))[index]
        part = slice(self.offsets[row], self.offsets[row + 1])
        return dict(zip(self.ids[part].tolist(), self.values[part].tolist(), strict=True))

    def __eq__(self, other: object) -> bool:
        """Say whether rows, ids and values are the same; NaN equals NaN here."""
        if not isinstance(other, Sequence) or isinstance(other, str | bytes):
            return NotImplemented
        columns = Logprobs.of(other)
        return (
            np.array_equal(self.offsets, columns.offsets)
            and np.array_equal(self.ids, columns.ids)
            and np.array_equal(self.values, columns.values, equal_nan=True)
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Logprobs({list(self)!r})"


def as_float32(values: NDArray[np.float64]) -> NDArray[np.float32]:
    """Round to float32; what is too large for it becomes infinite, as it would in the engine."""
    with np.errstate(over="ignore"):
        return values.astype(np.float32)


def written(value: float) -> float | str:
    """Return a float32 value as it goes into JSON: nine digits lose nothing, three are words.

    >>> written(0.1), written(float("-inf")), written(-0.25)
    (0.100000001, '-inf', -0.25)
    """
    single = float(as_float32(np.asarray(value, float)))
    if not np.isfinite(single):
        return str(single)
    return float(f"{single:.9g}")
