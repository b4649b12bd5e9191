"""Pairing the alternatives of two arms, and judging those that one arm alone lists."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from vllm_parity.judge.findings import Code
from vllm_parity.judge.values import Pairs, compare_pairs

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from vllm_parity.judge.sides import Listed
    from vllm_parity.judge.tally import Place, Tally


def compare_alternatives(
    a: Listed, b: Listed, rows: NDArray[np.bool_], tally: Tally, place: Place
) -> None:
    """Compare the alternatives of the positions in `rows`, where both arms have the same token."""
    same, left, right = _aligned(a, b, rows)
    where = np.repeat(np.arange(len(rows)), np.diff(a.offsets[: len(rows) + 1]))
    pairs = Pairs(
        a=a.values[: len(left)][left],
        b=b.values[: len(right)][right],
        at=where[left],
        keys=a.keys[: len(left)][left],
        own=False,
    )
    loose = np.flatnonzero(rows & ~same)
    extra = [_loose_row(a, b, int(position), tally, place) for position in loose]
    compare_pairs(_joined([pairs, *extra]), tally, place)


def _aligned(
    a: Listed, b: Listed, rows: NDArray[np.bool_]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.bool_]]:
    """Find the rows that list the same keys in the same order, and their entries in each arm.

    Nearly all rows do, so that nearly everything is compared without a loop.
    """
    n = len(rows)
    counts_a, counts_b = np.diff(a.offsets[: n + 1]), np.diff(b.offsets[: n + 1])
    same = rows & (counts_a == counts_b)
    left, right = np.repeat(same, counts_a), np.repeat(same, counts_b)
    differ = a.keys[: len(left)][left] != b.keys[: len(right)][right]
    if differ.any():
        at = np.repeat(np.arange(n), counts_a)[left]
        same[at[differ]] = False
        left, right = np.repeat(same, counts_a), np.repeat(same, counts_b)
    return same, left, right


def _loose_row(a: Listed, b: Listed, position: int, tally: Tally, place: Place) -> Pairs:
    """Pair one row by key, whatever its order; the generated token is the same in both arms."""
    row_a, row_b = a.alternatives(position), b.alternatives(position)
    check_members(a, b, row_a, row_b, tally, place.at(position))
    shared = [key for key in row_a if key in row_b]
    return pairs_of(row_a, row_b, shared, position, own=False)


def pairs_of(
    row_a: dict[int, float], row_b: dict[int, float], keys: list[int], position: int, *, own: bool
) -> Pairs:
    """Return the values of some keys in both rows."""
    return Pairs(
        a=np.array([row_a[key] for key in keys], np.float32),
        b=np.array([row_b[key] for key in keys], np.float32),
        at=np.full(len(keys), position),
        keys=np.array(keys, np.int64),
        own=own,
    )


def check_members(
    a: Listed,
    b: Listed,
    row_a: dict[int, float],
    row_b: dict[int, float],
    tally: Tally,
    place: Place,
) -> None:
    """Check that each key that one arm alone lists is at the other's cut.

    The last place of a top-k list goes to any of the tokens that tie for it, so a member may
    differ there, and there only.
    """
    position = place.position or 0
    for row, other, side, name in ((row_a, row_b, b, "reference"), (row_b, row_a, a, "candidate")):
        alone = [key for key in row if key not in other]
        if not alone:
            continue
        cut = side.cut(position)
        for key in alone:
            value = row[key]
            if tally.lenient and not np.isfinite(value):
                continue
            if np.isnan(value):
                tally.add(Code.NONFINITE, f"an alternative of the {name} alone is nan", place)
            elif not (value == cut or abs(value - cut) <= tally.contract.gap):
                message = (
                    f"{_named(key)} is listed by the {name} alone, with {np.float32(value)!s}, "
                    f"and the other arm's list ends at {np.float32(cut)!s}"
                )
                tally.add(Code.ALTERNATIVES, message, place)


def _named(key: int) -> str:
    return f"token {key}" if key >= 0 else "an alternative"


def _joined(parts: list[Pairs]) -> Pairs:
    if len(parts) == 1:
        return parts[0]
    return Pairs(
        a=np.concatenate([part.a for part in parts]),
        b=np.concatenate([part.b for part in parts]),
        at=np.concatenate([part.at for part in parts]),
        keys=np.concatenate([part.keys for part in parts]),
        own=False,
    )
