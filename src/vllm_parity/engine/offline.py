"""An offline engine (`vllm.LLM`) in a host, as the families use it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vllm_parity.engine.readback import effective_knobs
from vllm_parity.engine.stats import witness

if TYPE_CHECKING:
    from vllm_parity.engine.host import Host
    from vllm_parity.models.prompts import Prompt


@dataclass(frozen=True, kw_only=True)
class Generated:
    """What one call returned: an output a request, in order, and what was counted on the way.

    Each output has `prompt_tokens`, `cached_tokens` and `outputs`; see `worker.py`.
    """

    outputs: list[dict[str, Any]]
    witness: dict[str, int]


class OfflineEngine:
    """A warm engine, shared by all cells with the same settings."""

    def __init__(self, host: Host, key: str, described: dict[str, Any]) -> None:
        self.host = host
        self.key = key
        self.environment: dict[str, str] = described["environment"]
        self.knobs = effective_knobs(described)
        self.deadline = 0.0

    def generate(
        self, requests: Sequence[tuple[Prompt, dict[str, Any]]], *, together: bool
    ) -> Generated:
        """Run requests (a prompt and its sampling parameters each).

        Args:
            requests: what to run.
            together: all in one call, so that they run as one batch; else one after another.

        """
        sent = [
            {"prompt": prompt.text, "media": list(prompt.media), "sampling": sampling}
            for prompt, sampling in requests
        ]
        answer = self._ask("generate", requests=sent, together=together)
        return Generated(outputs=answer["outputs"], witness=witness(answer["steps"]))

    def reset_prefix_cache(self) -> bool:
        """Forget all cached prefixes; return whether vLLM says that it did."""
        return bool(self._ask("reset_prefix_cache"))

    def set_weight(
        self, name: str, index: int, *, value: float | None = None, delta: float = 0.0
    ) -> dict[str, float]:
        """Set one weight to `value`, or move it by `delta`; return what it was and is."""
        answer: dict[str, float] = self._ask(
            "set_weight", name=name, index=index, value=value, delta=delta
        )
        return answer

    def _ask(self, call: str, **arguments: Any) -> Any:  # noqa: ANN401
        return self.host.ask(call, deadline=self.deadline, key=self.key, **arguments)
