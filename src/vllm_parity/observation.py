"""Reading and writing observation files.

The format is fixed by ``OBSERVATION.md``. Reading is strict about what the format says and lets
unknown fields pass; every complaint names the file, the place in it, and what was expected.
"""

from __future__ import annotations

import math
import os
import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import msgspec

from vllm_parity.errors import FormatError
from vllm_parity.logprobs import Logprobs, written
from vllm_parity.schema import (
    SCHEMA,
    Arm,
    Arms,
    Contract,
    Count,
    Failure,
    Family,
    Kind,
    Observation,
    Output,
    Packed,
    Platform,
    Request,
    Rows,
    unpacked,
)

__all__ = [
    "SCHEMA",
    "Arm",
    "Arms",
    "Contract",
    "Failure",
    "Family",
    "Kind",
    "Observation",
    "Output",
    "Packed",
    "Platform",
    "Request",
    "check_observation",
    "decode_observation",
    "encode_observation",
    "load_observation",
    "unpacked",
    "write_observation",
]

T = TypeVar("T")

_GROUP = 1 << 10
"""So many rows of logprobs are decoded before they become columns: few calls, little memory."""

# Reading
#
# The head of a file is decoded first and its requests one by one after it, each turned into
# columns at once: so the whole file is never in memory as Python objects.


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


_head_decoder = msgspec.json.Decoder(_WireObservation)
_request_decoder = msgspec.json.Decoder(_WireRequest)
_payload_decoder = msgspec.json.Decoder(_WirePayload)


def load_observation(path: str | os.PathLike[str]) -> Observation:
    """Read one observation file.

    Raises FormatError where the file cannot be read or is not what the format says.
    """
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        msg = f"{os.fspath(path)}: cannot be read: {error.strerror}"
        raise FormatError(msg) from error
    return decode_observation(data, os.fspath(path))


def decode_observation(data: bytes, name: str = "<bytes>") -> Observation:
    """Read an observation from the bytes of a file; `name` is the file's, for complaints."""
    head = _decode(_head_decoder, data, name, "$")
    arms = head.arms or _WireArms()
    observation = Observation(
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
    )
    try:
        check_observation(observation)
    except FormatError as error:
        msg = f"{name}: {error}"
        raise FormatError(msg) from None
    return observation


def check_observation(observation: Observation) -> None:
    """Check what types alone cannot say; raise FormatError with the place in the file.

    No id and no index may come twice, and each request must have the shape of its family.
    """
    for name in observation.arms.__struct_fields__:
        arm: Arm | None = getattr(observation.arms, name)
        if arm is None:
            continue
        place = f"at $.arms.{name}.requests"
        _no_twins([request.id for request in arm.requests], place, "id")
        needed = ["outputs"]
        if observation.family is Family.STREAMING:
            needed = ["events", "done", "after_done"] if name == "candidate" else ["response"]
        for position, request in enumerate(arm.requests):
            for field in needed:
                if getattr(request, field) is None:
                    msg = f"{place}[{position}]: expected {field} in a {name} request"
                    raise FormatError(msg)
            _check_outputs(request.outputs or (), f"{place}[{position}].outputs")


def _check_outputs(outputs: Sequence[Output], place: str) -> None:
    if len(outputs) > 1:
        _no_twins([output.index for output in outputs], place, "index")
    for position, output in enumerate(outputs):
        ids, logprobs = output.token_ids, output.logprobs
        if ids is not None and logprobs is not None and len(logprobs) > len(ids):
            msg = (
                f"{place}[{position}].logprobs: expected at most one mapping for each of "
                f"{len(ids)} token ids, got {len(logprobs)}"
            )
            raise FormatError(msg)


def _no_twins(keys: Sequence[str | int], place: str, name: str) -> None:
    if len({*keys}) == len(keys):
        return
    position = next(at for at, key in enumerate(keys) if key in keys[:at])
    msg = f"{place}[{position}].{name}: expected each {name} once, got {keys[position]!r} again"
    raise FormatError(msg)


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


# Writing


def encode_observation(observation: Observation) -> bytes:
    """Return the bytes of an observation file: one line for each field and each request.

    Logprobs are rounded to float32 and written with the nine digits that lose nothing.
    """
    fields = {
        name: getattr(observation, name)
        for name in observation.__struct_fields__
        if not (name == "repeat" and observation.repeat is None)
    }
    lines = [
        f'  "{name}": {_arms(value) if name == "arms" else _json(value)}'
        for name, value in fields.items()
    ]
    return ("{\n" + ",\n".join(lines) + "\n}\n").encode()


def _arms(arms: Arms) -> str:
    parts = []
    for name in arms.__struct_fields__:
        arm: Arm | None = getattr(arms, name)
        if arm is None:
            parts.append(f'    "{name}": null')
            continue
        requests = ",\n".join(f"        {_json(request)}" for request in arm.requests)
        listed = f"[\n{requests}\n      ]" if requests else "[]"
        parts.append(
            f'    "{name}": {{\n      "knobs": {_json(arm.knobs)},\n'
            f'      "witness": {_json(arm.witness)},\n      "requests": {listed}\n    }}'
        )
    return "{\n" + ",\n".join(parts) + "\n  }"


def _json(value: Any) -> str:  # noqa: ANN401 - any JSON value
    return msgspec.json.encode(_plain(value)).decode()


def _plain(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """Return a value as JSON has it: structs as objects, and no float without a literal."""
    value = unpacked(value)
    if isinstance(value, msgspec.Struct):
        fields = {
            field.name: getattr(value, field.name)
            for field in msgspec.structs.fields(value)
            if getattr(value, field.name) is not None or field.required
        }
        if isinstance(value, Output) and value.logprobs is not None:
            fields["logprobs"] = [
                {token: written(logprob) for token, logprob in row.items()}
                for row in value.logprobs
            ]
        value = fields
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def write_observation(path: str | os.PathLike[str], observation: Observation) -> None:
    """Write an observation file whole or not at all: no reader ever sees half of one."""
    target = Path(path)
    data = encode_observation(observation)
    # The same folder, so that the last step is one rename within one file system.
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
    try:
        with temporary.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
