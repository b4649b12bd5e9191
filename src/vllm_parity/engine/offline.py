"""An offline engine (`vllm.LLM`) in a host, as the families use it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vllm_parity.engine.readback import effective_knobs
from vllm_parity.engine.stats import counted, traced

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vllm_parity.engine.host import Host
    from vllm_parity.engine.request import Request
    from vllm_parity.engine.stats import Counts
    from vllm_parity.engine.trace import TracedStep


@dataclass(frozen=True, kw_only=True)
class Generated:
    """What one call returned: an output a request, in order, and what was counted on the way.

    Each output has `prompt_tokens`, `cached_tokens` and `outputs`; see `worker.py`.
    """

    outputs: list[dict[str, Any]]
    counts: list[Counts]
    steps: list[TracedStep] | None

    @property
    def witness(self) -> dict[str, float]:
        """What was counted, as an observation has it."""
        return {**counted(self.counts), **traced(self.steps)}


def joined(parts: Sequence[Generated]) -> Generated:
    """Return several calls as one."""
    steps = [part.steps for part in parts]
    return Generated(
        outputs=[one for part in parts for one in part.outputs],
        counts=[one for part in parts for one in part.counts],
        steps=None if None in steps else [step for part in steps for step in part or ()],
    )


class OfflineEngine:
    """A warm engine, shared by all cells with the same settings."""

    def __init__(self, host: Host, key: str, described: dict[str, Any]) -> None:
        self.host = host
        self.key = key
        self.environment: dict[str, str] = described["environment"]
        self.knobs = effective_knobs(described)
        self.witness: dict[str, int] = described["witness"]

    def generate(self, requests: Sequence[Request], *, together: bool) -> Generated:
        """Run requests.

        Args:
            requests: what to run.
            together: all in one call, so that they run as one batch; else one after another.

        """
        sent = [
            {"prompt": one.prompt, "media": list(one.media), "sampling": one.sampling}
            for one in requests
        ]
        answer = self._ask("generate", requests=sent, together=together)
        return Generated(**answer)

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
        return self.host.ask(call, key=self.key, **arguments)
