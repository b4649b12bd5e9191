"""When a flipped token is no more than a tie that fell the other way."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vllm_parity.judge.sides import Listed, Side


def is_tie(a: Side, b: Side, flip: int, gap: float) -> bool:
    """Say whether both arms show the two tokens at a flip as no further apart than `gap`.

    What cannot be shown is no tie.
    """
    if a.listed is None or b.listed is None or flip >= min(a.length, b.length):
        return False
    if not (a.listed.present[flip] and b.listed.present[flip]):
        return False
    keys = int(a.listed.own_keys[flip]), int(b.listed.own_keys[flip])
    if keys[0] == keys[1]:
        # Two tokens that read the same cannot be told apart in a list without ids.
        return False
    return all(_near(side.listed, flip, keys, gap) for side in (a, b))


def _near(listed: Listed | None, flip: int, keys: tuple[int, int], gap: float) -> bool:
    row = {} if listed is None else listed.row(flip)
    if not all(key in row for key in keys):
        return False
    # Two infinities are NaN apart, and NaN is not near.
    return abs(row[keys[0]] - row[keys[1]]) <= gap
