"""Comparing one output of the reference with the candidate's of the same index."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from vllm_parity.judge.findings import Code
from vllm_parity.judge.rows import check_members, compare_alternatives, pairs_of
from vllm_parity.judge.tally import Places
from vllm_parity.judge.texts import compare_endings
from vllm_parity.judge.ties import is_tie
from vllm_parity.judge.values import Pairs, compare_pairs
from vllm_parity.schema import Kind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from vllm_parity.judge.sides import Listed, Side
    from vllm_parity.judge.tally import Place, Tally


def compare_output(
    a: Side, b: Side, expect: int | None, tally: Tally, place: Place, *, wire: bool = False
) -> bool:
    """Compare two outputs, a being the reference's; return whether their tokens part ways.

    On the `wire` texts are compared whatever the lengths: there they are a contract of their own.
    """
    if tally.contract.kind is Kind.TEXT:
        compare_endings(a, b, tally, place)
        return False
    if a.token_ids is None or b.token_ids is None:
        arms = [
            name for name, side in (("reference", a), ("candidate", b)) if side.token_ids is None
        ]
        tally.add(Code.MISSING_TOKENS, f"no token ids in the {' and the '.join(arms)}", place)
        compare_endings(a, b, tally, place)
        return False
    if tally.contract.reads_logprobs and (a.surplus or b.surplus):
        message = f"{max(a.surplus, b.surplus)} logprobs have no token id"
        tally.add(Code.MISSING_TOKENS, message, place)
    flip = first_flip(a, b)
    span = min(a.length, b.length) if flip is None else min(flip + 1, a.length, b.length)
    compared = _compare_logprobs(a.token_ids, a, b, span, flip, tally, place)
    tally.count(compared, a.length if expect is None else expect, place)
    if flip is not None:
        _check_flip(a, b, flip, tally, place)
    _check_lengths(a, b, expect, flip, tally, place)
    if flip is None and (wire or a.length == b.length):
        compare_endings(a, b, tally, place)
    return flip is not None


def first_flip(a: Side, b: Side) -> int | None:
    """Return the first position at which the generated tokens differ."""
    if a.token_ids is None or b.token_ids is None:
        return None
    n = min(a.length, b.length)
    differ = np.flatnonzero(a.token_ids[:n] != b.token_ids[:n])
    if len(differ):
        return int(differ[0])
    # A stream that was cut off may be shorter than the response, but has no business to be longer.
    return n if b.length > n and not b.finished else None


def _check_flip(a: Side, b: Side, flip: int, tally: Tally, place: Place) -> None:
    ids = [
        str(side.token_ids[flip]) if side.token_ids is not None and flip < side.length else "none"
        for side in (a, b)
    ]
    if tally.contract.kind is Kind.BITWISE or not is_tie(a, b, flip, tally.contract.gap):
        message = f"token {ids[0]} in the reference is {ids[1]} in the candidate"
        tally.add(Code.TOKEN_FLIP, message, place.at(flip))


def _check_lengths(
    a: Side, b: Side, expect: int | None, flip: int | None, tally: Tally, place: Place
) -> None:
    if not b.finished:
        return
    if flip is None and a.length != b.length:
        message = f"{a.length} tokens in the reference, {b.length} in the candidate"
        tally.add(Code.LENGTH, message, place.at(min(a.length, b.length)))
    if expect is not None and max(a.length, b.length) < expect:
        message = f"both arms give fewer than the {expect} tokens that were expected"
        tally.add(Code.SHORT, message, place)


def _compare_logprobs(
    ids: NDArray[np.int64],
    a: Side,
    b: Side,
    span: int,
    flip: int | None,
    tally: Tally,
    place: Place,
) -> int:
    """Compare what is listed at the first `span` positions; return how many could be."""
    if not tally.contract.reads_logprobs:
        return span
    if a.listed is None or b.listed is None:
        if span:
            arms = [n for n, side in (("reference", a), ("candidate", b)) if side.listed is None]
            tally.add(Code.MISSING_LOGPROBS, f"no logprobs in the {' and the '.join(arms)}", place)
        return 0
    usable = a.listed.present[:span] & b.listed.present[:span]
    compared = int(np.count_nonzero(usable))
    if compared < span:
        first = int(np.argmin(usable))
        message = f"{span - compared} of {span} positions lack the generated token's logprob"
        tally.add(Code.MISSING_LOGPROBS, message, place.at(first))
    if flip is not None and flip < span and usable[flip]:
        _compare_flipped(a.listed, b.listed, flip, tally, place)
        usable[flip] = False
    compare_straight(ids, a.listed, b.listed, usable, tally, Places([place]))
    return compared


def compare_straight(
    ids: NDArray[np.int64],
    a: Listed,
    b: Listed,
    usable: NDArray[np.bool_],
    tally: Tally,
    places: Places,
) -> None:
    """Compare positions at which both arms generated the same token."""
    at = np.flatnonzero(usable)
    own = Pairs(a=a.own[at], b=b.own[at], at=at, keys=ids[at], own=True)
    compare_pairs(own, tally, places)
    compare_alternatives(a, b, usable, tally, places)


def _compare_flipped(a: Listed, b: Listed, flip: int, tally: Tally, place: Place) -> None:
    """Compare the position of a flip: the context is still the same, so the values should be.

    Own is the reference's token there, in both arms.
    """
    row_a, row_b = a.row(flip), b.row(flip)
    own = int(a.own_keys[flip])
    check_members(a, b, (row_a, row_b), flip, tally, place.at(flip))
    shared = [key for key in row_a if key in row_b]
    for keys, is_own in (
        ([k for k in shared if k == own], True),
        ([k for k in shared if k != own], False),
    ):
        compare_pairs(pairs_of(row_a, row_b, keys, flip, own=is_own), tally, Places([place]))
