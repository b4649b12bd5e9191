"""A stand-in for vLLM, for tests of everything around it: it answers at once and means nothing.

What it says of itself agrees with what it was asked for. Set `FAKE_VLLM_FAULT` to the path of a
file such as ``generate 3 die`` to have the third such call of a process fail: `die`, `hang` or
`refuse`. The file is removed as the fault happens, so that it happens once, unless it ends with
``always``. With `FAKE_VLLM_NUMB` a nudged weight changes nothing; with `FAKE_VLLM_VARIANT` a
request's numbers depend on its batch.
"""

from __future__ import annotations

import hashlib
import os
import re
import signal
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from vllm_parity.engine.fingerprint import visible_variables

__version__ = "0.0.fake"

_calls: Counter[str] = Counter()


def fault(call: str) -> None:
    """Fail where the fault file says so."""
    _calls[call] += 1
    path = Path(os.environ.get("FAKE_VLLM_FAULT") or "/nonexistent")
    if not path.is_file():
        return
    name, number, what, *rest = path.read_text(encoding="utf-8").split()
    if (name, int(number)) != (call, _calls[call]):
        return
    if not rest:
        path.unlink()
    sys.stdout.write(f"the fault: {what}\n")
    sys.stdout.flush()
    if what == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if what == "hang":
        time.sleep(600)
    msg = f"fake fault in {call}"
    raise ValueError(msg)


def describe(settings: dict[str, Any]) -> dict[str, Any]:
    """Return what `ParityExtension.parity_describe` would, for an engine with these settings."""
    model = {"dtype": "torch." + settings.get("dtype", "float32")}
    model |= {
        key: settings.get(key)
        for key in ("seed", "max_model_len", "max_logprobs", "logprobs_mode", "enforce_eager")
    }
    model["multimodal_config"] = {
        key: settings.get(key) for key in ("mm_processor_cache_gb", "mm_encoder_attn_backend")
    }
    return {
        "config": {
            "model_config": model,
            "cache_config": {
                key: settings.get(key) for key in ("enable_prefix_caching", "kv_cache_memory_bytes")
            },
            "scheduler_config": {
                key: settings.get(key)
                for key in (
                    "async_scheduling",
                    "max_num_seqs",
                    "max_num_batched_tokens",
                    "enable_chunked_prefill",
                )
            },
            "parallel_config": {
                "distributed_executor_backend": settings.get("distributed_executor_backend")
            },
            "compilation_config": {"mode": 0 if settings.get("enforce_eager") else 2},
            "speculative_config": settings.get("speculative_config"),
        },
        "environment": {"vllm": __version__, **_gpu()},
        "variables": visible_variables(),
        "witness": {"compiled_graphs": 0 if settings.get("enforce_eager") else 1},
        "model_runner": "FakeRunner",
        "attention_backend": settings.get("attention_backend", "FAKE_ATTN"),
    }


def step(settings: dict[str, Any], *, requests: int, tokens: int, hits: int = 0) -> dict[str, Any]:
    """Return one of the steps of `ParityExtension.parity_steps`; more tokens than requests prefill.

    FULL graphs decode, where there are graphs.
    """
    prefill = requests if tokens > requests else 0
    mode = (settings.get("compilation_config") or {}).get("cudagraph_mode")
    graphs = not settings.get("enforce_eager") and mode != "NONE" and not prefill
    return {
        "requests": requests,
        "prefill_requests": prefill,
        "tokens": tokens,
        "prefix_cache_hits": hits,
        "replays": {f"FULL:{requests}": 1} if graphs else {},
    }


def _gpu() -> dict[str, str]:
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    return {"gpu": visible} if visible else {}


def tokens_of(prompt: str) -> int:
    """Count the tokens of a prompt: a byte each, and a special token."""
    return len(re.sub(r"<\|\w+\|>", "*", prompt).encode())


def token_at(prompt: str, position: int) -> int:
    """Return the token of a greedy model that knows one answer to each prompt."""
    return 97 + hashlib.sha256(f"{prompt}{position}".encode()).digest()[0] % 26


@dataclass
class SamplingParams:
    """vLLM's sampling parameters, as far as anybody looks."""

    max_tokens: int = 8
    temperature: float = 0.0
    ignore_eos: bool = True
    seed: int | None = None
    logprobs: int | None = None
    presence_penalty: float = 0.0


@dataclass
class LLM:
    """An offline engine."""

    settings: dict[str, Any]
    seen: set[str] = field(default_factory=set)
    nudge: float = 0.0

    def __init__(self, **settings: Any) -> None:
        fault("start")
        self.settings = settings
        self.seen = set()
        self.nudge = 0.0
        self.steps: list[dict[str, Any]] = []
        self.loggers: list[Any] = []
        self.llm_engine = SimpleNamespace(
            logger_manager=SimpleNamespace(stat_loggers=self.loggers),
            engine_core=SimpleNamespace(shutdown=lambda: fault("shutdown")),
        )

    def collective_rpc(self, method: str, args: tuple[Any, ...] = ()) -> list[Any]:
        """Do what `ParityExtension` does."""
        if method == "parity_describe":
            return [describe(self.settings)]
        if method == "parity_steps":
            steps, self.steps = self.steps, []
            return [steps]
        _, _, value, delta = args
        before = self.nudge
        if "FAKE_VLLM_NUMB" not in os.environ:
            self.nudge = float(value) if value is not None else before + float(delta)
        return [{"before": before, "after": self.nudge}]

    def reset_prefix_cache(self) -> bool:
        """Forget what was seen."""
        self.seen.clear()
        return True

    def generate(self, prompts: Any, sampling: Any, *, use_tqdm: bool) -> list[Any]:
        """Answer one prompt, or all as one batch."""
        assert not use_tqdm
        fault("generate")
        if isinstance(prompts, dict):
            prompts, sampling = [prompts], [sampling]
        asked = [
            prompt.get("prompt") or bytes(prompt["prompt_token_ids"]).decode() for prompt in prompts
        ]
        for position in range(sampling[0].max_tokens):
            self._record(asked, first=position == 0)
        pairs = zip(asked, sampling, strict=True)
        drift = len(prompts) / 1000 if "FAKE_VLLM_VARIANT" in os.environ else 0.0
        return [self._output(prompt, params, drift) for prompt, params in pairs]

    def _record(self, prompts: list[str], *, first: bool) -> None:
        cached = [prompt for prompt in prompts if first and prompt in self.seen]
        self.seen.update(prompts if self.settings.get("enable_prefix_caching") else ())
        drafting = bool(self.settings.get("speculative_config"))
        tokens = sum(map(tokens_of, prompts)) if first else len(prompts)
        hits = sum(map(tokens_of, cached))
        self.steps.append(step(self.settings, requests=len(prompts), tokens=tokens, hits=hits))
        stats = SimpleNamespace(
            spec_decoding_stats=SimpleNamespace(num_draft_tokens=3, num_accepted_tokens=2)
            if drafting
            else None,
        )
        for logger in self.loggers:
            logger.record(stats, None)

    def _output(self, prompt: str, params: SamplingParams, drift: float) -> Any:
        tokens = [token_at(prompt, position) for position in range(params.max_tokens)]
        rows = [
            {
                token: SimpleNamespace(logprob=-0.5 + self.nudge + drift),
                token + 1: SimpleNamespace(logprob=-1.5),
            }
            for token in tokens
        ]
        one = SimpleNamespace(
            index=0,
            token_ids=tokens,
            text="".join(map(chr, tokens)),
            finish_reason="length",
            logprobs=rows,
        )
        return SimpleNamespace(
            prompt_token_ids=list(prompt.encode()), num_cached_tokens=0, outputs=[one]
        )
