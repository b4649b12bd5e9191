"""A text model of the Qwen3 kind (vLLM: ``Qwen3ForCausalLM``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vllm_parity.models.recipe import Recipe
from vllm_parity.models.tokenizer import as_json, chat_template, token_id, tokenizer_files

if TYPE_CHECKING:
    from vllm_parity.models.decoder import Decoder


def recipe(decoder: Decoder) -> Recipe:
    """Describe the model."""
    config = {
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "torch_dtype": "float32",
        "bos_token_id": None,
        "eos_token_id": token_id("<|im_end|>"),
        "pad_token_id": token_id("<|endoftext|>"),
        **decoder.config(),
    }
    return Recipe(
        tensors=tuple(decoder.tensors()),
        files={"config.json": as_json(config), **tokenizer_files(chat_template())},
    )
