"""From the bytes of a file to an observation, without ever having all of it as Python objects.

The head of a file is decoded first and its requests one by one after it, logprobs turned into
columns a group at a time, streams left packed: so memory stays near the size of the file.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar

import msgspec

from vllm_parity.errors import FormatError
from vllm_parity.logprobs import Logprobs
from vllm_parity.schema import (
    Arm,
    Arms,
    Contract,
    Count,
    Failure,
    Family,
    Observation,
    Output,
    Packed,
    Platform,
    Request,
    Rows,
)

T = TypeVar("T")

_GROUP = 1 << 10
"""So many rows of logprobs are decoded before they become columns: few calls, little memory."""

TokenId = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class _WireOutput(msgspec.Struct, gc=False):
    index: int
    token_ids: list[TokenId] | None = None
    text: str | None = None
    finish_reason: str | None = None
    logprobs: Rows | None = None


class _WireRequest(msgspec.Struct, gc=False):
    id: str
    expect_tokens: Count | None = None
    prompt_tokens: Count | None = None
    prompt_tail: str | None = None
    outputs: list[_WireOutput] | None = None
    response: dict[str, Any] | None = None
    events: list[Any] | None = None
    done: bool | None = None
    after_done: Count | None = None


class _WirePayload(msgspec.Struct):
    response: msgspec.Raw = msgspec.Raw()
    events: msgspec.Raw = msgspec.Raw()


class _WireArm(msgspec.Struct):
    knobs: dict[str, Any]
    witness: dict[str, Any]
    requests: list[msgspec.Raw]


class _WireArms(msgspec.Struct):
    reference: _WireArm | None = None
    candidate: _WireArm | None = None
    control: _WireArm | None = None


class _WireObservation(msgspec.Struct):
    schema: Literal["vllm-parity.observation/1"]
    cell: Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9_.\-]+\Z")]
    family: Family
    platform: Platform
    contrast: list[str]
    contract: Contract
    environment: dict[str, str]
    arms: _WireArms | None
    follows: list[str] = []
    require: list[str] = []
    error: Failure | None = None
    not_run: str | None = None
    repeat: int | None = None
    probe: dict[str, str] | None = None
    recorded_at: str | None = None


_head_decoder = msgspec.json.Decoder(_WireObservation)
_request_decoder = msgspec.json.Decoder(_WireRequest)
_payload_decoder = msgspec.json.Decoder(_WirePayload)


def read(data: bytes, name: str) -> Observation:
    """Read an observation from the bytes of a file, its types checked; `name` is the file's."""
    head = _decode(_head_decoder, data, name, "$")
    arms = head.arms or _WireArms()
    return Observation(
        cell=head.cell,
        family=head.family,
        platform=head.platform,
        contrast=head.contrast,
        follows=head.follows,
        contract=head.contract,
        require=head.require,
        environment=head.environment,
        arms=Arms(
            reference=_arm(arms.reference, name, "$.arms.reference"),
            candidate=_arm(arms.candidate, name, "$.arms.candidate"),
            control=_arm(arms.control, name, "$.arms.control"),
        ),
        error=head.error,
        not_run=head.not_run,
        repeat=head.repeat,
        probe=head.probe,
        recorded_at=head.recorded_at,
    )


def _arm(wire: _WireArm | None, name: str, place: str) -> Arm | None:
    if wire is None:
        return None
    requests: list[Request] = []
    group: list[_WireRequest] = []
    rows = 0
    for number, raw in enumerate(wire.requests):
        request = _decode(_request_decoder, raw, name, f"{place}.requests[{number}]")
        if request.response is not None or request.events is not None:
            # It was decoded to see that it can be; it is kept as it came.
            _pack(request, raw)
        group.append(request)
        rows += sum(len(output.logprobs or ()) for output in request.outputs or ())
        if rows >= _GROUP:
            requests += _requests(group, name, f"{place}.requests")
            group, rows = [], 0
    requests += _requests(group, name, f"{place}.requests")
    return Arm(knobs=wire.knobs, witness=wire.witness, requests=requests)


def _pack(request: _WireRequest, raw: msgspec.Raw) -> None:
    payload = _payload_decoder.decode(raw)
    for field in ("response", "events"):
        if getattr(request, field) is not None:
            setattr(request, field, Packed(getattr(payload, field)))


def _requests(group: list[_WireRequest], name: str, place: str) -> list[Request]:
    """Turn decoded requests into public ones, all their logprobs into columns at once."""
    listed = [
        output.logprobs
        for request in group
        for output in request.outputs or ()
        if output.logprobs is not None
    ]
    try:
        columns = iter(Logprobs.of_many(listed))
    except OverflowError as error:
        msg = f"{name}: at {place}: expected token ids of at most 64 bits in logprobs: {error}"
        raise FormatError(msg) from None
    return [
        Request(
            id=wire.id,
            expect_tokens=wire.expect_tokens,
            prompt_tokens=wire.prompt_tokens,
            prompt_tail=wire.prompt_tail,
            outputs=None
            if wire.outputs is None
            else [
                Output(
                    index=output.index,
                    token_ids=output.token_ids,
                    text=output.text,
                    finish_reason=output.finish_reason,
                    logprobs=None if output.logprobs is None else next(columns),
                )
                for output in wire.outputs
            ],
            response=wire.response,
            events=wire.events,
            done=wire.done,
            after_done=wire.after_done,
        )
        for wire in group
    ]


def _decode(
    decoder: msgspec.json.Decoder[T], data: bytes | msgspec.Raw, name: str, place: str
) -> T:
    """Decode a part of a file; `place` is where in the file that part is."""
    try:
        return decoder.decode(data)
    except RecursionError:
        msg = f"{name}: at {place}: expected no more than a few hundred levels of nesting"
    except msgspec.ValidationError as error:
        what, _, where = str(error).partition(" - at ")
        where = where.replace("`", "")
        inner = where.rpartition("$")
        msg = f"{name}: at {inner[0]}{place}{inner[2]}: {what.replace('`', '')}"
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        msg = f"{name}: at {place}: expected JSON: {error}"
    raise FormatError(msg)
