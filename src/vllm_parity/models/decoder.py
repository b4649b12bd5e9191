"""The text decoder that all made models share: the tensors of a small Qwen kind of transformer."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vllm_parity.models.tensors import Tensor, bias, linear, norm
from vllm_parity.models.tokenizer import SPEAKABLE, VOCAB_SIZE

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True, kw_only=True)
class Decoder:
    """Sizes and loudness of a decoder.

    `embedding` is how loud a token is against what the layers add to it, `attention` the gain of
    the attention branch, `sharpness` the spread of attention scores, and `logits` the spread of
    the logits: large enough to keep the two best tokens apart, small enough that no
    log-probability is rounded to 0. `qk_norm` tells Qwen3 (norms of queries and keys, no biases)
    from Qwen2 (biases, no such norms).
    """

    hidden: int = 128
    layers: int = 4
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 32
    intermediate: int = 256
    embedding: float = 2.0
    attention: float = 2.0
    sharpness: float = 2.5
    logits: float = 4.0
    qk_norm: bool = True

    def config(self) -> dict[str, object]:
        """Return the fields of ``config.json`` that follow from the sizes."""
        return {
            "vocab_size": VOCAB_SIZE,
            "hidden_size": self.hidden,
            "intermediate_size": self.intermediate,
            "num_hidden_layers": self.layers,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.kv_heads,
            "head_dim": self.head_dim,
            "hidden_act": "silu",
            "max_position_embeddings": 32768,
            "rms_norm_eps": 1e-06,
            "rope_theta": 10000.0,
            "attention_bias": False,
            "attention_dropout": 0.0,
            "tie_word_embeddings": False,
            "use_cache": True,
            "initializer_range": 0.02,
        }

    def tensors(self, model: str = "model.", head: str = "lm_head.") -> Iterator[Tensor]:
        """Yield the tensors; `model` and `head` are the checkpoint's name prefixes."""
        yield Tensor(
            name=f"{model}embed_tokens.weight",
            shape=(VOCAB_SIZE, self.hidden),
            std=self.embedding,
        )
        for layer in range(self.layers):
            yield from self._layer(f"{model}layers.{layer}.")
        yield norm(f"{model}norm.weight", self.hidden)
        yield self._head(f"{head}weight")

    def _layer(self, prefix: str) -> Iterator[Tensor]:
        attention, mlp = f"{prefix}self_attn.", f"{prefix}mlp."
        queries, keys = self.heads * self.head_dim, self.kv_heads * self.head_dim
        yield norm(f"{prefix}input_layernorm.weight", self.hidden)
        gain = math.sqrt(self.sharpness)
        shared = 1.0 if self.qk_norm else gain  # a norm would undo the gain of the matrix
        for name, rows, each in (("q", queries, shared), ("k", keys, shared), ("v", keys, 1.0)):
            yield linear(f"{attention}{name}_proj.weight", rows, self.hidden, gain=each)
            if not self.qk_norm:
                yield bias(f"{attention}{name}_proj.bias", rows)
        yield linear(f"{attention}o_proj.weight", self.hidden, queries, gain=self.attention)
        if self.qk_norm:
            yield norm(f"{attention}q_norm.weight", self.head_dim, mean=gain)
            yield norm(f"{attention}k_norm.weight", self.head_dim, mean=gain)
        yield norm(f"{prefix}post_attention_layernorm.weight", self.hidden)
        yield linear(f"{mlp}gate_proj.weight", self.intermediate, self.hidden)
        yield linear(f"{mlp}up_proj.weight", self.intermediate, self.hidden)
        yield linear(f"{mlp}down_proj.weight", self.hidden, self.intermediate)

    def _head(self, name: str) -> Tensor:
        """Describe the output head: tokens that should not be said get a quiet row."""
        return Tensor(
            name=name,
            shape=(VOCAB_SIZE, self.hidden),
            std=self.logits / math.sqrt(self.hidden),
            row_scale=tuple(1.0 if token in SPEAKABLE else 0.125 for token in range(VOCAB_SIZE)),
        )
