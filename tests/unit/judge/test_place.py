"""An observation's own settings tell which contract a file has for it."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from vllm_parity.contracts import Place
from vllm_parity.judge.place import place_of
from vllm_parity.observation import load_observation

DATA = Path(__file__).parents[2] / "data"
H200 = DATA / "recorded" / "h200-0.26.0"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "cuda-batch_invariance-text-n8_large-eager-apc_off-flash_attn",
            ("batch_invariance", "bfloat16", "off", "eager"),
        ),
        (
            "cuda-batch_invariance-text-n8_large-compiled-apc_off-flash_attn-bi",
            ("batch_invariance", "bfloat16", "on", "compiled"),
        ),
        (
            "cuda-spec_decode-ngram-raw_logprobs-graph-apc_off-bi",
            ("spec_decode", "bfloat16", "on", "graph"),
        ),
        ("cuda-streaming-audio_url-eager-apc_off-float32", ("streaming", "float32", None, "eager")),
    ],
)
def test_recorded_settings_name_the_place(name: str, expected: tuple[str | None, ...]) -> None:
    family, dtype, mode, execution = expected
    assert place_of(load_observation(H200 / f"{name}.json")) == Place(
        family=str(family), platform="cuda", dtype=dtype, batch_invariant=mode, execution=execution
    )


def test_observation_without_arms_has_family_and_platform_alone() -> None:
    observation = load_observation(DATA / "good-streaming.json")
    bare = msgspec.structs.replace(
        observation, arms=msgspec.structs.replace(observation.arms, reference=None)
    )
    assert place_of(bare) == Place(family="streaming", platform="cuda")
