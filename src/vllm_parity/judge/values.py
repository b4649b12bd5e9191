"""Comparing logprob values, position by position and all at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from vllm_parity.judge.findings import Code, Worst
from vllm_parity.judge.ulp import ulp_float32
from vllm_parity.schema import Kind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from vllm_parity.judge.tally import Places, Tally
    from vllm_parity.schema import Contract


@dataclass(frozen=True, kw_only=True, slots=True)
class Pairs:
    """Values that both arms give for the same thing."""

    a: NDArray[np.float32]
    b: NDArray[np.float32]
    at: NDArray[np.int64]
    """The position of each pair."""
    keys: NDArray[np.int64]
    own: bool


def allowed(contract: Contract, a: NDArray[np.float32] | np.float32) -> NDArray[np.float64]:
    """Return the absolute difference that a contract allows from each reference value."""
    if contract.kind is not Kind.CLOSE:
        return np.zeros(np.shape(a))
    # A close contract has both; a share of 0 of an infinity would be NaN.
    atol, rtol = contract.atol or 0.0, contract.rtol or 0.0
    with np.errstate(over="ignore"):
        return atol + (rtol * np.abs(np.asarray(a, np.float64)) if rtol else np.zeros(np.shape(a)))


def differences(pairs: Pairs) -> NDArray[np.float64]:
    """Return absolute differences, in float64: there the difference of two float32 is itself."""
    with np.errstate(invalid="ignore"):
        gap = np.abs(pairs.a.astype(np.float64) - pairs.b)
    # Two equal infinities are no distance apart, whatever their difference is.
    gap[pairs.a == pairs.b] = 0.0
    return gap


def compare_pairs(pairs: Pairs, tally: Tally, places: Places) -> None:
    """Compare values under the contract and note the first of each kind of finding."""
    if not len(pairs.a):
        return
    gap = differences(pairs)
    finite = np.isfinite(pairs.a) & np.isfinite(pairs.b)
    broken = ~finite if pairs.own else np.isnan(pairs.a) | np.isnan(pairs.b)
    apart = gap > 0.0
    if tally.contract.kind is Kind.CLOSE:
        # An infinity is not within reach of anything but itself, though its own share would be.
        apart &= (gap > allowed(tally.contract, pairs.a)) | np.isinf(gap)
    apart &= finite if tally.lenient else ~broken
    code = Code.LOGPROB if pairs.own else Code.ALTERNATIVES
    if apart.any():
        _note(code, pairs, apart, gap, tally, places)
    if broken.any() and not tally.lenient:
        _note(Code.NONFINITE, pairs, broken, gap, tally, places)
    tally.logprobs += len(gap)
    _note_worst(pairs, gap, tally, places)


def _note(
    code: Code,
    pairs: Pairs,
    mask: NDArray[np.bool_],
    gap: NDArray[np.float64],
    tally: Tally,
    places: Places,
) -> None:
    """Note the first of the marked pairs in each output, and how many there are."""
    marked = np.flatnonzero(mask)
    marked = marked[np.argsort(pairs.at[marked], kind="stable")]
    _, firsts, counts = np.unique(
        places.owner(pairs.at[marked]), return_index=True, return_counts=True
    )
    what = "own logprob" if pairs.own else "an alternative's logprob"
    for first, count in zip(marked[firsts].tolist(), counts.tolist(), strict=True):
        message = (
            f"{what} is {pairs.a[first]!s} in the reference and {pairs.b[first]!s} in the "
            f"candidate (apart by {gap[first]:.9g}); {count} of this output"
        )
        tally.add(code, message, places.of(int(pairs.at[first])))


def _note_worst(pairs: Pairs, gap: NDArray[np.float64], tally: Tally, places: Places) -> None:
    # NaN has no order: it is the worst only where there is nothing else.
    known = np.where(np.isnan(gap), -1.0, gap)
    first = int(np.argmax(known))
    so_far = tally.worst
    if so_far is not None and not (known[first] > so_far.abs or np.isnan(so_far.abs)):
        return
    a, b = pairs.a[first], pairs.b[first]
    size = abs(float(a))
    distance = float(gap[first])
    key = int(pairs.keys[first])
    place = places.of(int(pairs.at[first]))
    tally.worst = Worst(
        abs=distance,
        rel=0.0 if distance == 0 else distance / size if size else float("inf"),
        ulp=int(ulp_float32(a, b)) if np.isfinite(a) and np.isfinite(b) else None,
        request=place.request or "",
        output=place.output or 0,
        position=place.position or 0,
        token_id=key if key >= 0 else None,
        allowed=float(allowed(tally.contract, a)),
        reference=float(a),
        candidate=float(b),
    )
