"""Comparing one arm with another: requests pair by id, outputs and choices by index."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from vllm_parity.judge.findings import Code
from vllm_parity.judge.outputs import compare_output
from vllm_parity.judge.sides import from_output
from vllm_parity.judge.streams import check_roles, compare_usage, read_wires
from vllm_parity.judge.tally import SENTINEL, Place, Tally
from vllm_parity.schema import Family, Kind

if TYPE_CHECKING:
    from vllm_parity.judge.sides import Side
    from vllm_parity.judge.tally import Signal
    from vllm_parity.schema import Arm, Contract, Observation, Request


def compare_arms(
    observation: Observation,
    reference: Arm,
    other: Arm,
    *,
    lenient: bool = False,
    streamed: tuple[bool, bool] = (False, True),
) -> Tally:
    """Compare another arm with the reference and return everything that was found.

    With `lenient`, values that are not finite are passed over. In a streaming cell, `streamed`
    says of each arm whether its requests are streams or whole responses.
    """
    tally = Tally(contract=observation.contract, lenient=lenient)
    compare = _compare_plain
    if observation.family is Family.STREAMING:
        compare = partial(_compare_wire, streamed=streamed)
    others = {request.id: request for request in other.requests}
    for request in reference.requests:
        pair = others.pop(request.id, None)
        if pair is None:
            tally.add(Code.MISSING_REQUEST, "not in the candidate", Place(request=request.id))
        compare(request, pair, tally)
    for request in others.values():
        tally.add(Code.MISSING_REQUEST, "not in the reference", Place(request=request.id))
        compare(None, request, tally)
    _check_whole(tally)
    return tally


def both_sides(
    observation: Observation, request_id: str | None
) -> tuple[Request, dict[int, Side], dict[int, Side]] | None:
    """Return a request and its outputs in both arms, None where one of them has no such request."""
    found = []
    for arm in (observation.arms.reference, observation.arms.candidate):
        requests = () if arm is None else arm.requests
        found.append(next((request for request in requests if request.id == request_id), None))
    a, b = found
    if a is None or b is None:
        return None
    if observation.family is not Family.STREAMING:
        return a, _sides_of(a), _sides_of(b)
    left, right = read_wires((a, b), (False, True))
    return a, left.sides, right.sides


def _sides_of(request: Request | None) -> dict[int, Side]:
    """Return the outputs of a plain request by index."""
    if request is None or request.outputs is None:
        return {}
    return {output.index: from_output(output) for output in request.outputs}


def _compare_plain(a: Request | None, b: Request | None, tally: Tally) -> None:
    _compare_sides(a, b, _sides_of(a), _sides_of(b), tally)


def _compare_wire(
    a: Request | None, b: Request | None, tally: Tally, streamed: tuple[bool, bool]
) -> None:
    left, right = read_wires((a, b), streamed)
    flipped = _compare_sides(a, b, left.sides, right.sides, tally)
    if b is None:
        return
    place = Place(request=b.id)
    # What breaks the protocol does so whether or not there is anything to compare with.
    for message in [*right.protocol, *check_roles(left, right)]:
        tally.add(Code.PROTOCOL, message, place)
    if right.truncated:
        tally.add(Code.TRUNCATED_STREAM, right.truncated, place)
    whole = left.sides.keys() == right.sides.keys() and all(
        side.finished for side in right.sides.values()
    )
    if whole and not flipped:
        compare_usage(left, right, tally, place)


def _compare_sides(
    a: Request | None,
    b: Request | None,
    left: dict[int, Side],
    right: dict[int, Side],
    tally: Tally,
) -> bool:
    """Compare the outputs of one request; return whether the tokens of any part ways."""
    request = a or b
    assert request is not None  # noqa: S101 - one of them asked for the comparison
    whole = a is not None and b is not None
    before, flipped = tally.positions, False
    for index in [*left, *(index for index in right if index not in left)]:
        place = Place(request=request.id, output=index)
        one, two = left.get(index), right.get(index)
        expect = request.expect_tokens
        tally.expected += (one.length if one else 0) if expect is None else expect
        for side, signal in zip((one, two), tally.signals, strict=True):
            if side is not None:
                _listen(side, signal, place)
        if one is not None and two is not None:
            wire = request.outputs is None
            flipped |= compare_output(one, two, expect, tally, place, wire=wire)
        elif whole:
            missing = "candidate" if two is None else "reference"
            tally.add(Code.MISSING_REQUEST, f"this output is not in the {missing}", place)
    if whole and not left and not right:
        message = "neither arm has an output"
        tally.add(Code.MISSING_REQUEST, message, Place(request=request.id))
    tally.requests += tally.positions > before
    return flipped


def _listen(side: Side, signal: Signal, place: Place) -> None:
    """Take in the own logprobs of one output, to see whether its arm says anything."""
    signal.outputs += 1
    signal.positions += side.length
    if side.listed is None:
        return
    own = side.listed.own[side.listed.present]
    signal.count += len(own)
    signal.zeros += int(np.count_nonzero(own == 0))
    sentinels = np.isfinite(side.listed.own) & (side.listed.own <= SENTINEL)
    if signal.sentinel is None and sentinels.any():
        signal.sentinel = place.at(int(np.argmax(sentinels)))


def _check_whole(tally: Tally) -> None:
    """Check what only the whole file can tell."""
    contract = tally.contract
    a, b = tally.signals
    if contract.kind is Kind.TEXT:
        if not a.outputs and not b.outputs:
            tally.add(Code.EMPTY, "neither arm has an output")
    elif not a.positions and not b.positions:
        tally.add(Code.EMPTY, "neither arm has a generated token")
    if contract.reads_logprobs:
        _check_signals(a, b, tally)
    _check_floor(contract, tally)


def _check_signals(a: Signal, b: Signal, tally: Tally) -> None:
    if a.fault and b.fault:
        tally.add(Code.NO_SIGNAL, f"in both arms: {b.fault}", b.sentinel)
    elif a.fault:
        tally.add(Code.DEGENERATE, f"in the reference: {a.fault}", a.sentinel)
    elif b.fault:
        tally.add(Code.DEGENERATE, f"in the candidate: {b.fault}", b.sentinel)


def _check_floor(contract: Contract, tally: Tally) -> None:
    floor = contract.floor
    if floor is not None and tally.expected and tally.credited / tally.expected < floor:
        message = (
            f"{tally.credited} of {tally.expected} expected positions were compared, "
            f"and the contract asks for {floor:.0%} of them"
        )
        tally.add(Code.MIN_COMPARED, message)
