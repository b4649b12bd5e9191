"""A cell: one combination of axes for which two runs of vLLM are compared."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from vllm_parity.matrix.axes import (
    Contrast,
    Dtype,
    Execution,
    Family,
    Platform,
    Switch,
    Tier,
    Transport,
)

if TYPE_CHECKING:
    from vllm_parity.matrix.axes import LogprobsMode, Method, Modality

_MEDIA: dict[Transport, str] = {
    Transport.TEXT: "text",
    Transport.AUDIO_URL: "audio",
    Transport.INPUT_AUDIO: "audio",
    Transport.IMAGE_URL: "image",
    Transport.TOOLS: "text",
}


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One combination of axes. `id` is flat and the same word everywhere: pytest, files, reports.

    The axes of one family alone (`modality`, `method` and `logprobs_mode`, `transport`) are None
    in the others. A negative control is a cell whose candidate has one weight nudged: it must
    come out `diverged`.
    """

    family: Family
    platform: Platform
    model: str
    contrast: Contrast
    execution: Execution
    prefix_cache: Switch
    tiers: tuple[Tier, ...]
    modality: Modality | None = None
    method: Method | None = None
    logprobs_mode: LogprobsMode | None = None
    transport: Transport | None = None
    dtype: Dtype = Dtype.FLOAT32
    negative_control: bool = False
    timeout_s: float = 300.0
    engine: dict[str, Any] = field(default_factory=dict, hash=False)

    @property
    def variant(self) -> tuple[str, ...]:
        """The values of the family's own axes."""
        values = (self.modality, self.method, self.logprobs_mode, self.transport)
        return tuple(value for value in values if value is not None)

    @property
    def medium(self) -> str:
        """What the cell's requests carry, and so the model must take."""
        if self.transport is not None:
            return _MEDIA[self.transport]
        return self.modality or "text"

    @property
    def group(self) -> str:
        """The part of the id that a nox session is parametrized by."""
        return f"{self.execution}-apc_{self.prefix_cache}"

    @property
    def id(self) -> str:
        """The flat id, such as ``cpu-batch_invariance-image-compiled-apc_off``."""
        parts = [self.platform, self.family, *self.variant, self.group]
        if self.dtype is not Dtype.FLOAT32:
            parts.append(self.dtype)
        if self.contrast is Contrast.PREFIX_CACHE_STATE:
            parts.append("warm")
        if self.negative_control:
            parts.append("nudged")
        return "-".join(parts)
