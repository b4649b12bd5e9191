"""The child process that holds offline engines: it imports vLLM once and obeys one host.

Started as ``python -m vllm_parity.engine.worker FD``, where FD is an inherited socket. It answers
each message in turn. Engines stay alive beside each other, so that cells with the same settings
share one.
"""

from __future__ import annotations

import gc
import os
import sys
import traceback
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

from vllm_parity.engine import leash, messages
from vllm_parity.engine.stats import CountRecorder
from vllm_parity.engine.workarounds import apply_workarounds, let_engine_have_its_layers
from vllm_parity.models.prompts import video_metadata

if TYPE_CHECKING:
    from collections.abc import Callable

    from vllm import LLM, RequestOutput


class Worker:
    """The engines of this process, and what a host may ask of them."""

    def __init__(self) -> None:
        self._engines: dict[str, tuple[LLM, CountRecorder]] = {}

    def start(self, key: str, settings: dict[str, Any]) -> dict[str, Any]:
        """Make an engine, and return what `ParityExtension.parity_describe` says of it."""
        from vllm import LLM

        let_engine_have_its_layers()
        llm = LLM(**settings)
        recorder = CountRecorder()
        llm.llm_engine.logger_manager.stat_loggers.append(recorder)
        self._engines[key] = (llm, recorder)
        (described,) = llm.collective_rpc("parity_describe")
        return dict(described)

    def generate(self, key: str, requests: list[dict[str, Any]], *, together: bool) -> Any:  # noqa: ANN401
        """Run requests, in one call or one each; return outputs, counts and steps."""
        from vllm import SamplingParams

        llm, recorder = self._engines[key]
        prompts = [_prompt(request) for request in requests]
        sampling = [SamplingParams(**request["sampling"]) for request in requests]
        recorder.drain()
        llm.collective_rpc("parity_steps")
        if together:
            outputs = llm.generate(prompts, sampling, use_tqdm=False)
        else:
            pairs = zip(prompts, sampling, strict=True)
            outputs = [llm.generate(p, s, use_tqdm=False)[0] for p, s in pairs]
        (traced,) = llm.collective_rpc("parity_steps")
        return {
            "outputs": [_plain(output) for output in outputs],
            "counts": recorder.drain(),
            "steps": traced,
        }

    def clear(self) -> int:
        """End all engines; return the bytes that torch still has allocated on the GPU.

        All of them, since the end of one (vLLM's `EngineCore.shutdown`) takes the process's
        distributed state away from the others.
        """
        for llm, _ in self._engines.values():
            llm.llm_engine.engine_core.shutdown()
        self._engines.clear()
        gc.collect()
        torch = sys.modules.get("torch")
        if torch is None or not torch.cuda.is_available():
            return 0
        torch.cuda.empty_cache()
        return int(torch.cuda.memory_allocated())

    def reset_prefix_cache(self, key: str) -> bool:
        """Forget all cached prefixes; return whether vLLM says that it did."""
        return bool(self._engines[key][0].reset_prefix_cache())

    def set_weight(self, key: str, name: str, index: int, value: float | None, delta: float) -> Any:  # noqa: ANN401
        """Set one weight to `value`, or move it by `delta`; return what it was."""
        arguments = (name, index, value, delta)
        (before,) = self._engines[key][0].collective_rpc("parity_set_weight", args=arguments)
        return before


def _prompt(request: dict[str, Any]) -> dict[str, Any]:
    media: dict[str, list[Any]] = {}
    for kind, array in request["media"]:
        # vLLM wants to know how a video was sampled, or its processor samples it again.
        piece = (array, video_metadata(len(array))) if kind == "video" else array
        media.setdefault(kind, []).append(piece)
    asked = request["prompt"]
    prompt: dict[str, Any] = {"prompt" if isinstance(asked, str) else "prompt_token_ids": asked}
    if media:
        prompt["multi_modal_data"] = media
    return prompt


def _plain(output: RequestOutput) -> dict[str, Any]:
    return {
        "prompt_tokens": len(output.prompt_token_ids),
        "cached_tokens": output.num_cached_tokens,
        "outputs": [
            {
                "index": one.index,
                "token_ids": list(one.token_ids),
                "text": one.text,
                "finish_reason": one.finish_reason,
                "logprobs": one.logprobs
                and [{str(i): float(p.logprob) for i, p in at.items()} for at in one.logprobs],
            }
            for one in output.outputs
        ],
    }


def serve(connection: Connection[bytes, bytes]) -> None:
    """Answer messages until the host closes the connection."""
    worker = Worker()
    calls: dict[str, Callable[..., Any]] = {
        name: getattr(worker, name)
        for name in ("start", "clear", "generate", "reset_prefix_cache", "set_weight")
    }
    while True:
        try:
            message = messages.receive(connection)
        except EOFError:
            return
        call = message.pop("call")
        try:
            answer = {"result": calls[call](**message)}
        except Exception as error:  # noqa: BLE001 - whatever vLLM raises is the host's to report
            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {error}"}
        messages.send(connection, answer)


def main() -> None:
    """Take the socket named on the command line, and serve it."""
    leash.hold()
    apply_workarounds()
    serve(Connection(int(sys.argv[1])))
    sys.stdout.flush()
    # vLLM's threads and atexit hooks may linger; nothing of theirs is needed any more.
    os._exit(0)


if __name__ == "__main__":
    main()
