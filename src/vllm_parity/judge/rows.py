"""Pairing the alternatives of two arms, and judging those that one arm alone lists."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from vllm_parity.judge.findings import Code
from vllm_parity.judge.values import Pairs, compare_pairs

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from vllm_parity.judge.sides import Listed
    from vllm_parity.judge.tally import Place, Places, Tally


def compare_alternatives(
    a: Listed, b: Listed, rows: NDArray[np.bool_], tally: Tally, places: Places
) -> None:
    """Compare the alternatives of the positions in `rows`, where both arms have the same token."""
    ordered, left, right = _aligned(a, b, rows)
    parts = [_straight(a, b, left, right)]
    loose = rows & ~ordered
    if loose.any():
        a, b = _sorted(a, loose), _sorted(b, loose)
        sorted_, left, right = _aligned(a, b, loose)
        parts.append(_straight(a, b, left, right))
        for position in np.flatnonzero(loose & ~sorted_).tolist():
            row_a, row_b = a.alternatives(position), b.alternatives(position)
            check_members(a, b, (row_a, row_b), position, tally, places.of(position))
            shared = [key for key in row_a if key in row_b]
            parts.append(pairs_of(row_a, row_b, shared, position, own=False))
    compare_pairs(_joined(parts), tally, places)


def _aligned(
    a: Listed, b: Listed, rows: NDArray[np.bool_]
) -> tuple[NDArray[np.bool_], NDArray[np.int64], NDArray[np.int64]]:
    """Find the rows that list the same keys in the same order, and their entries in each arm.

    Nearly all rows do, so that nearly everything is compared without a loop.
    """
    n = len(rows)
    counts_a, counts_b = np.diff(a.offsets[: n + 1]), np.diff(b.offsets[: n + 1])
    same = rows & (counts_a == counts_b)
    left, right = (np.flatnonzero(np.repeat(same, counts)) for counts in (counts_a, counts_b))
    differ = a.keys[left] != b.keys[right]
    if differ.any():
        at = a.at[left]
        same[at[differ]] = False
        keep = same[at]
        left, right = left[keep], right[keep]
    return same, left, right


def _straight(a: Listed, b: Listed, left: NDArray[np.int64], right: NDArray[np.int64]) -> Pairs:
    return Pairs(a=a.values[left], b=b.values[right], at=a.at[left], keys=a.keys[left], own=False)


def _sorted(listed: Listed, rows: NDArray[np.bool_]) -> Listed:
    """Return the same with the entries of some rows in order of their keys."""
    entries = np.flatnonzero(np.repeat(rows, np.diff(listed.offsets[: len(rows) + 1])))
    order = entries[np.lexsort((listed.keys[entries], listed.at[entries]))]
    keys, values = listed.keys.copy(), listed.values.copy()
    keys[entries], values[entries] = keys[order], values[order]
    return replace(listed, keys=keys, values=values)


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
    rows: tuple[dict[int, float], dict[int, float]],
    position: int,
    tally: Tally,
    place: Place,
) -> None:
    """Check that each key that one arm alone lists is at the other's cut.

    The last place of a top-k list goes to any of the tokens that tie for it, so a member may
    differ there, and there only.
    """
    row_a, row_b = rows
    for row, other, side, name in ((row_a, row_b, b, "reference"), (row_b, row_a, a, "candidate")):
        alone = [key for key in row if key not in other]
        if not alone:
            continue
        cut = side.cut(position)
        for key in alone:
            value = row[key]
            if tally.lenient and not (np.isfinite(value) and np.isfinite(cut)):
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
