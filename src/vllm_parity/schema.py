"""The observation format as frozen structs: everything that a judge needs to know of one cell.

:mod:`vllm_parity.observation` reads and writes them, and checks what types alone cannot say.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence  # noqa: TC003 - msgspec reads annotations
from enum import StrEnum
from typing import Annotated, Any, Literal

import msgspec

from vllm_parity.contracts import Kind
from vllm_parity.matrix.axes import Family

__all__ = [
    "SCHEMA",
    "Arm",
    "Arms",
    "Contract",
    "Count",
    "Failure",
    "Family",
    "Kind",
    "Number",
    "Observation",
    "Output",
    "Packed",
    "Platform",
    "Request",
    "Rows",
    "unpacked",
]

SCHEMA = "vllm-parity.observation/1"

Count = Annotated[int, msgspec.Meta(ge=0)]
Number = float | Literal["nan", "inf", "-inf"]
Rows = list[dict[int, Number]]


class Platform(StrEnum):
    """Where the cell ran."""

    CPU = "cpu"
    CUDA = "cuda"
    ROCM = "rocm"
    OTHER = "other"


class Contract(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How equal is equal.

    >>> Contract(kind="close", atol=1e-5, rtol=0.0).gap
    1e-05
    >>> Contract(kind="close", atol=1e-5)
    Traceback (most recent call last):
    ValueError: a close contract needs both atol and rtol
    """

    kind: Kind
    atol: float | None = None
    rtol: float | None = None
    tie_gap: float | None = None
    min_compared: float | None = None
    name: str | None = None
    """The name under which `contracts.toml` holds it: where it comes from."""

    def __post_init__(self) -> None:
        # Python callers write plain strings; a StrEnum keeps comparisons by identity honest.
        msgspec.structs.force_setattr(self, "kind", Kind(self.kind))
        if self.kind is Kind.CLOSE and (self.atol is None or self.rtol is None):
            msg = "a close contract needs both atol and rtol"
            raise ValueError(msg)
        for field in ("atol", "rtol", "tie_gap"):
            value = getattr(self, field)
            if value is not None and not (math.isfinite(value) and value >= 0):
                msg = f"{field} must be a finite number, 0 or more, and is {value}"
                raise ValueError(msg)
        if self.min_compared is not None and not 0 <= self.min_compared <= 1:
            msg = f"min_compared must be from 0 to 1, and is {self.min_compared}"
            raise ValueError(msg)

    @property
    def gap(self) -> float:
        """The largest distance of two logprobs that makes a flip between them a tie."""
        if self.kind is Kind.CLOSE:
            return self.atol or 0.0 if self.tie_gap is None else self.tie_gap
        return self.tie_gap or 0.0 if self.kind is Kind.TOKENS else 0.0

    @property
    def floor(self) -> float | None:
        """The share of expected positions that must be compared, where the kind has one."""
        if self.kind not in {Kind.CLOSE, Kind.TOKENS}:
            return None
        return 1.0 if self.min_compared is None else self.min_compared

    @property
    def reads_logprobs(self) -> bool:
        """Whether logprob values are part of the contract."""
        return self.kind in {Kind.BITWISE, Kind.CLOSE}


class Output(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One completion of a request. What was not returned is None."""

    index: int
    token_ids: Sequence[int] | None = None
    text: str | None = None
    finish_reason: str | None = None
    logprobs: Sequence[Mapping[int, float]] | None = None


class Packed:
    """JSON that came over the wire, as the bytes of its file: unpacked only while it is looked at.

    Unpacked, a stream takes six times the memory of its text.
    """

    __slots__ = ("_raw",)

    def __init__(self, raw: msgspec.Raw) -> None:
        self._raw = raw

    def unpack(self) -> Any:  # noqa: ANN401 - any JSON value
        """Return the value itself, made anew each time."""
        return msgspec.json.decode(self._raw)

    def __eq__(self, other: object) -> bool:
        return bool(self.unpack() == unpacked(other))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Packed({self.unpack()!r})"


def unpacked(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """Return a value that may be packed as it is."""
    return value.unpack() if isinstance(value, Packed) else value


class Request(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One request of an arm: with `outputs`, or with what came over the wire.

    A streaming cell has `response` in its reference (and control), and `events`, `done` and
    `after_done` in its candidate. Those that were read from a file are packed: see `unpacked`.
    """

    id: str
    expect_tokens: Count | None = None
    prompt_tokens: Count | None = None
    prompt_tail: str | None = None
    """The end of the prompt, for people; never judged."""
    outputs: Sequence[Output] | None = None
    response: dict[str, Any] | Packed | None = None
    events: list[Any] | Packed | None = None
    done: bool | None = None
    after_done: Count | None = None


class Arm(msgspec.Struct, frozen=True, kw_only=True):
    """One side of a cell: effective settings, what was counted, and what came back."""

    knobs: dict[str, Any]
    witness: dict[str, Any]
    requests: Sequence[Request]


class Arms(msgspec.Struct, frozen=True, kw_only=True):
    """The two sides of a cell, and the reference run once more where there is a control."""

    reference: Arm | None = None
    candidate: Arm | None = None
    control: Arm | None = None


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """Why there is nothing to judge: an engine failed to start, crashed or timed out."""

    arm: str | None
    kind: str
    message: str


class Observation(msgspec.Struct, frozen=True, kw_only=True):
    """One cell, as it ran."""

    schema: Literal["vllm-parity.observation/1"] = "vllm-parity.observation/1"
    cell: str
    family: Family
    platform: Platform
    contrast: Sequence[str]
    follows: Sequence[str] = ()
    contract: Contract
    require: Sequence[str] = ()
    environment: dict[str, str]
    arms: Arms = Arms()
    error: Failure | None = None
    not_run: str | None = None
    repeat: int | None = None
    """Which of several runs with the same settings it is, where there are several."""
    probe: dict[str, str] | None = None
    """What a search for a cause has changed of the cell's settings; None in the cell itself."""
    recorded_at: str | None = None
    """When it was run, by UTC: ``2026-12-01T12:00:00Z``. Never judged."""
