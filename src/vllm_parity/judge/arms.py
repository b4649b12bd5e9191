"""Comparing one arm with another: requests pair by id, outputs and choices by index."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, TypeVar

from vllm_parity.judge.blocks import Block, Pair
from vllm_parity.judge.findings import Code
from vllm_parity.judge.outputs import compare_output
from vllm_parity.judge.sides import from_output
from vllm_parity.judge.streams import check_roles, compare_usage, read_wires
from vllm_parity.judge.tally import Place, Tally
from vllm_parity.schema import Family, Kind

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vllm_parity.judge.sides import Side
    from vllm_parity.judge.tally import Signal
    from vllm_parity.schema import Arm, Contract, Observation, Output, Request

T = TypeVar("T")


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
    block = Block(tally)
    compare = partial(_compare_plain, block=block)
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
    block.flush()
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
        left, right = ({o.index: from_output(o) for o in _outputs(one)} for one in (a, b))
        return a, left, right
    wires = read_wires((a, b), (False, True))
    return a, wires[0].sides, wires[1].sides


def _outputs(request: Request | None) -> Sequence[Output]:
    return () if request is None else request.outputs or ()


def _compare_plain(a: Request | None, b: Request | None, tally: Tally, block: Block) -> None:
    left, right = ({output.index: output for output in _outputs(request)} for request in (a, b))
    for place, one, two, expect in _pairs(a, b, left, right, tally):
        tally.expected += len((one and one.token_ids) or ()) if expect is None else expect
        if one is not None and two is not None:
            block.compare(Pair(place=place, expect=expect, reference=one, candidate=two))
            continue
        for output, signal in zip((one, two), tally.signals, strict=True):
            if output is not None:
                signal.hear(from_output(output), place)


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
    """Compare the choices of one request; return whether the tokens of any part ways."""
    flipped = False
    for place, one, two, expect in _pairs(a, b, left, right, tally):
        tally.expected += (one.length if one else 0) if expect is None else expect
        for side, signal in zip((one, two), tally.signals, strict=True):
            if side is not None:
                signal.hear(side, place)
        if one is not None and two is not None:
            flipped |= compare_output(one, two, expect, tally, place, wire=True)
    return flipped


def _pairs(
    a: Request | None, b: Request | None, left: dict[int, T], right: dict[int, T], tally: Tally
) -> Iterator[tuple[Place, T | None, T | None, int | None]]:
    """Pair what two requests gave, by index, and note what has no partner."""
    name = next(request.id for request in (a, b) if request is not None)
    expect = next(request.expect_tokens for request in (a, b) if request is not None)
    whole = a is not None and b is not None
    for index in [*left, *(index for index in right if index not in left)]:
        place = Place(request=name, output=index)
        one, two = left.get(index), right.get(index)
        if whole and (one is None or two is None):
            missing = "candidate" if two is None else "reference"
            tally.add(Code.MISSING_REQUEST, f"this output is not in the {missing}", place)
        yield place, one, two, expect
    if whole and not left and not right:
        tally.add(Code.MISSING_REQUEST, "neither arm has an output", Place(request=name))


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
