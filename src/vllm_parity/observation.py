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
from typing import Any

import msgspec

from vllm_parity.errors import FormatError
from vllm_parity.logprobs import written
from vllm_parity.schema import (
    SCHEMA,
    Arm,
    Arms,
    Contract,
    Failure,
    Family,
    Kind,
    Observation,
    Output,
    Packed,
    Platform,
    Request,
    unpacked,
)
from vllm_parity.wire import read

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
    "write_whole",
]


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
    observation = read(data, name)
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


# Writing

_LEFT_OUT = {"repeat", "probe", "recorded_at"}
"""Fields that a file has only where they say something."""


def encode_observation(observation: Observation) -> bytes:
    """Return the bytes of an observation file: one line for each field and each request.

    Logprobs are rounded to float32 and written with the nine digits that lose nothing.
    """
    fields = {
        name: getattr(observation, name)
        for name in observation.__struct_fields__
        if name not in _LEFT_OUT or getattr(observation, name) is not None
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
    """Write an observation file, as :func:`write_whole` does."""
    write_whole(path, encode_observation(observation))


def write_whole(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a file whole or not at all: no reader ever sees half of one."""
    target = Path(path)
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
