"""A cell: one combination of axes for which two runs of vLLM are compared."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from vllm_parity.matrix.axes import (
    CacheStart,
    Contrast,
    Dtype,
    Execution,
    Family,
    Models,
    Platform,
    Switch,
    Tier,
    Transport,
)

if TYPE_CHECKING:
    from vllm_parity.matrix.axes import (
        Attention,
        EncoderAttention,
        LogprobsMode,
        Method,
        Modality,
        Workload,
    )

_MEDIA = {
    Transport.TEXT: "text",
    Transport.TOOLS: "text",
    Transport.IMAGE_URL: "image",
    Transport.AUDIO_URL: "audio",
    Transport.INPUT_AUDIO: "audio",
}
_TIERS = tuple(Tier)


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One combination of axes. `id` is flat and the same word everywhere: pytest, files, reports.

    An axis that a family or platform does not have is None. A negative control is a cell whose
    candidate has one weight nudged: it must come out `diverged`. `ungated` says why a difference
    in this cell is shown and does not count; it is None where it counts. `tier` is the smallest
    that the cell belongs to. `engine` and `variables` are set besides what all such cells have.
    """

    family: Family
    platform: Platform
    model: str
    contrast: Contrast
    execution: Execution
    prefix_cache: Switch
    dtype: Dtype
    models: Models = Models.BUILT_IN
    tier: Tier = Tier.FULL
    modality: Modality | None = None
    workload: Workload | None = None
    cache_start: CacheStart | None = None
    encoder_attention: EncoderAttention | None = None
    attention: Attention | None = None
    mm_cache: Switch | None = None
    batch_invariant: Switch | None = None
    method: Method | None = None
    logprobs_mode: LogprobsMode | None = None
    transport: Transport | None = None
    negative_control: bool = False
    ungated: str | None = None
    timeout_s: float = 300.0
    engine: dict[str, Any] = field(default_factory=dict, hash=False)
    variables: dict[str, str] = field(default_factory=dict, hash=False)

    @property
    def variant(self) -> tuple[str, ...]:
        """The values of the family's own axes: what is asked of the model."""
        values = (self.modality, self.workload, self.method, self.logprobs_mode, self.transport)
        return tuple(value for value in values if value is not None)

    @property
    def medium(self) -> str:
        """What the cell's requests carry, and so the model must take."""
        return _MEDIA[self.transport] if self.transport else self.modality or "text"

    @property
    def id(self) -> str:
        """The flat id, such as ``cpu-batch_invariance-image-compiled-apc_off``.

        It names a model of the hub, not a built-in one, and of the rest what is not usual.
        """
        parts: list[str] = [self.platform, self.family, *self.variant]
        if self.models is Models.HUB:
            parts.append(self.model)
        parts += [self.execution, f"apc_{self.prefix_cache}"]
        if self.cache_start is CacheStart.COLD:
            parts.append(self.cache_start)
        if self.attention:
            parts.append(self.attention.lower())
        if self.encoder_attention:
            parts.append(f"enc_{self.encoder_attention.lower()}")
        if self.mm_cache is Switch.ON:
            parts.append("mmc_on")
        if self.batch_invariant is Switch.ON:
            parts.append("bi")
        if self.dtype is not usual_dtype(self.platform):
            parts.append(self.dtype)
        if self.contrast is Contrast.PREFIX_CACHE_STATE:
            parts.append("warm")
        if self.negative_control:
            parts.append("nudged")
        return "-".join(parts)

    @property
    def session(self) -> str:
        """The session of nox that runs the cell, as `nox -s` takes it."""
        return f"{self.platform}_{self.family}({self.execution})"

    def is_in(self, tier: Tier) -> bool:
        """Return whether the cell belongs to a tier."""
        return _TIERS.index(self.tier) <= _TIERS.index(tier)


def usual_dtype(platform: Platform) -> Dtype:
    """Return the dtype that needs no mention: what the models of a platform compute in."""
    return Dtype.FLOAT32 if platform is Platform.CPU else Dtype.BFLOAT16
