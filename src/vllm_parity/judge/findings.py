"""What a judge says: codes, reasons, and the judgement of one cell."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from vllm_parity.logprobs import written

if TYPE_CHECKING:
    from vllm_parity.verdict import Verdict


class Code(StrEnum):
    """Why a verdict is what it is, in the order in which reasons are listed."""

    ENGINE = "engine"
    EXTRA_KNOB = "extra_knob"
    SAME_KNOB = "same_knob"
    PROMPT = "prompt"
    TOKEN_FLIP = "token_flip"
    LOGPROB = "logprob"
    ALTERNATIVES = "alternatives"
    LENGTH = "length"
    TEXT = "text"
    DETOKENIZE = "detokenize"
    FINISH_REASON = "finish_reason"
    USAGE = "usage"
    NONFINITE = "nonfinite"
    DEGENERATE = "degenerate"
    PROTOCOL = "protocol"
    CONTROL = "control"
    WITNESS = "witness"
    MISSING_LOGPROBS = "missing_logprobs"
    MISSING_TOKENS = "missing_tokens"
    MISSING_REQUEST = "missing_request"
    EMPTY = "empty"
    SHORT = "short"
    NO_SIGNAL = "no_signal"
    MIN_COMPARED = "min_compared"
    TRUNCATED_STREAM = "truncated_stream"


INVALID = frozenset({Code.EXTRA_KNOB, Code.SAME_KNOB, Code.PROMPT})
DIVERGED = frozenset(
    {
        Code.TOKEN_FLIP,
        Code.LOGPROB,
        Code.ALTERNATIVES,
        Code.LENGTH,
        Code.TEXT,
        Code.DETOKENIZE,
        Code.FINISH_REASON,
        Code.USAGE,
        Code.NONFINITE,
        Code.DEGENERATE,
        Code.PROTOCOL,
    }
)
MISSING = frozenset(
    {
        Code.MISSING_LOGPROBS,
        Code.MISSING_TOKENS,
        Code.MISSING_REQUEST,
        Code.TRUNCATED_STREAM,
        Code.EMPTY,
    }
)
"""What makes a control worth nothing."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Reason:
    """One finding. Its place is as exact as the finding is: None where it concerns the whole."""

    code: Code
    request: str | None = None
    output: int | None = None
    position: int | None = None
    message: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Worst:
    """The pair of logprobs that is furthest apart."""

    abs: float
    rel: float
    """The absolute difference over the magnitude of the reference's value."""
    ulp: int | None
    """The float32 values between the two; None where one is not finite."""
    request: str
    output: int
    position: int
    token_id: int | None
    """None for an alternative in a stream, which has no id on the wire."""
    allowed: float
    """The absolute difference that the contract allows there."""
    reference: float
    candidate: float

    @property
    def headroom(self) -> float | None:
        """The share of what is allowed that is left; negative beyond it, None for bitwise."""
        return None if self.allowed == 0 else 1 - self.abs / self.allowed


@dataclass(frozen=True, kw_only=True, slots=True)
class Compared:
    """How much was compared, in pairs."""

    requests: int = 0
    positions: int = 0
    logprobs: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Judgement:
    """The verdict on one cell, and everything that was found."""

    cell: str
    verdict: Verdict
    reasons: tuple[Reason, ...] = ()
    compared: Compared = field(default_factory=Compared)
    worst: Worst | None = None

    @property
    def codes(self) -> frozenset[Code]:
        """The set of reason codes."""
        return frozenset(reason.code for reason in self.reasons)

    def as_dict(self) -> dict[str, Any]:
        """Return what `judge --json` prints for this cell, but for the file."""
        worst = None
        if self.worst is not None:
            worst = {
                "abs": written(self.worst.abs),
                "rel": written(self.worst.rel),
                "ulp": self.worst.ulp,
                "request": self.worst.request,
                "output": self.worst.output,
                "position": self.worst.position,
                "token_id": self.worst.token_id,
                "allowed": written(self.worst.allowed),
            }
        return {
            "cell": self.cell,
            "verdict": str(self.verdict),
            "reasons": [
                {
                    "code": str(reason.code),
                    "request": reason.request,
                    "output": reason.output,
                    "position": reason.position,
                    "message": reason.message,
                }
                for reason in self.reasons
            ],
            "compared": {
                "requests": self.compared.requests,
                "positions": self.compared.positions,
                "logprobs": self.compared.logprobs,
            },
            "worst": worst,
        }
