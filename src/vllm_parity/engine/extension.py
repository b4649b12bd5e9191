"""The part that vLLM loads into its own worker (`worker_extension_cls`): it looks, and it nudges.

The same class serves offline engines and servers, whose RPC carries strings alone.
"""

from __future__ import annotations

from typing import Any


class ParityExtension:
    """Mixed into vLLM's worker class, whose `model_runner` it uses."""

    model_runner: Any
    vllm_config: Any
    parity_trace: Any

    def parity_describe(self) -> dict[str, Any]:
        """Return what the worker runs with: configuration, chosen parts, variables, versions."""
        from vllm_parity.engine.fingerprint import fingerprint, visible_variables
        from vllm_parity.engine.readback import dump_config
        from vllm_parity.engine.trace import Trace

        self.parity_trace = Trace(self.model_runner)
        runner = type(self.model_runner)
        groups = getattr(self.model_runner, "attn_groups", [])
        backends = {group.backend.get_name() for kind in groups for group in kind}
        return {
            "config": dump_config(self.vllm_config),
            "environment": fingerprint(),
            "variables": visible_variables(),
            "witness": _compiled_graphs(),
            # vLLM's two model runners have the same name in different modules.
            "model_runner": f"{runner.__module__}.{runner.__name__}",
            "attention_backend": "+".join(sorted(backends)),
        }

    def parity_steps(self) -> list[dict[str, Any]] | None:
        """Return what was computed since the last call; see :class:`vllm_parity.engine.trace`."""
        steps: list[dict[str, Any]] | None = self.parity_trace.drain()
        return steps

    def parity_set_weight(
        self,
        name: str,
        index: int | str,
        value: float | str | None = None,
        delta: float | str = 0.0,
    ) -> dict[str, float]:
        """Set one weight to `value`, or move it by `delta`; return what it was and is.

        Args:
            name: the parameter's name in vLLM's model, such as ``model.norm.weight``.
            index: the weight's place in the flattened parameter.
            value: the new value; None or empty moves it by `delta`.
            delta: how far.

        """
        import torch

        weights = dict(self.model_runner.get_model().named_parameters())[name].data.view(-1)
        before = float(weights[int(index)])
        with torch.inference_mode():
            weights[int(index)] = float(value) if value not in {None, ""} else before + float(delta)
        return {"before": before, "after": float(weights[int(index)])}


_seen = 0


def _compiled_graphs() -> dict[str, int]:
    """Return how many graphs vLLM compiled, or loaded compiled, since the last call.

    vLLM's counter is the process's; each engine is asked once, right after its start. Where vLLM
    counts otherwise there is no such witness.
    """
    global _seen
    try:
        from vllm.compilation.counter import compilation_counter as counter

        total: int = (
            counter.num_backend_compilations
            + counter.num_aot_compiles
            + counter.num_aot_artifacts_loaded
        )
    except (ImportError, AttributeError):
        return {}
    new, _seen = total - _seen, total
    return {"compiled_graphs": new}
