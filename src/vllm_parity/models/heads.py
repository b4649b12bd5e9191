"""Heads that draft for a made model from its own hidden states: EAGLE and EAGLE-3.

A trained head has learnt its target; these are built. A matrix `fc` hands the target's last hidden
state on, and one quiet layer of random weights blurs it. The output head, like the embeddings, is
the target's: so a head mostly says again what was said last, which is right where the target
repeats itself and wrong elsewhere.

Tensors are named as in published heads, which vLLM reads in ``models/llama_eagle.py`` and
``models/llama_eagle3.py`` (https://github.com/SafeAILab/EAGLE).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vllm_parity.models.recipe import Recipe
from vllm_parity.models.tensors import Tensor, linear, norm
from vllm_parity.models.tokenizer import as_json, token_id

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vllm_parity.models.decoder import Decoder

#: How loud all that is random is, beside the hidden state that is handed on.
_BLUR = 0.2


@dataclass(frozen=True, kw_only=True)
class Head:
    """What tells the two kinds of head apart.

    `columns` are those of `fc`, in hidden sizes, of which the last is handed on; `heard` is what
    attention hears in each position, in hidden sizes; `norms` are the layer's.
    """

    layer: str
    columns: int
    heard: int
    norms: tuple[str, ...]
    ends_in_norm: bool = False

    def tensors(self, decoder: Decoder) -> Iterator[Tensor]:
        """Yield the tensors of a head for a target with the sizes of `decoder`."""
        hidden, wide = decoder.hidden, decoder.intermediate
        queries, keys = decoder.heads * decoder.head_dim, decoder.kv_heads * decoder.head_dim
        yield Tensor(
            name="fc.weight",
            shape=(hidden, self.columns * hidden),
            std=_BLUR / (self.columns * hidden) ** 0.5,
            diagonal=(self.columns - 1) * hidden,
        )
        for name in self.norms:
            yield norm(f"{self.layer}.{name}.weight", hidden)
        for name, rows, columns, gain in (
            ("self_attn.q_proj", queries, self.heard * hidden, 1.0),
            ("self_attn.k_proj", keys, self.heard * hidden, 1.0),
            ("self_attn.v_proj", keys, self.heard * hidden, 1.0),
            ("self_attn.o_proj", hidden, queries, _BLUR),
            ("mlp.gate_proj", wide, hidden, 1.0),
            ("mlp.up_proj", wide, hidden, 1.0),
            ("mlp.down_proj", hidden, wide, _BLUR),
        ):
            yield linear(f"{self.layer}.{name}.weight", rows, columns, gain=gain)
        if self.ends_in_norm:
            yield norm("norm.weight", hidden)


EAGLE = Head(layer="layers.0", columns=2, heard=1, norms=("post_attention_layernorm",))
"""`fc` gets a token's embedding, then the target's hidden state that the token came from."""

EAGLE3 = Head(
    layer="midlayer",
    columns=3,
    heard=2,
    norms=("input_layernorm", "hidden_norm", "post_attention_layernorm"),
    ends_in_norm=True,
)
"""`fc` gets the target's hidden states after three of its layers; attention the embedding too."""


def eagle(decoder: Decoder) -> Recipe:
    """Describe an EAGLE head for a target with this decoder."""
    return _recipe(EAGLE, decoder, {})


def eagle3(decoder: Decoder) -> Recipe:
    """Describe an EAGLE-3 head for a target with this decoder."""
    layers = decoder.layers
    # Numbers of layers after which the target's hidden states are taken: all of them, for the last.
    return _recipe(EAGLE3, decoder, {"eagle_aux_hidden_state_layer_ids": [1, layers // 2, layers]})


def _recipe(head: Head, decoder: Decoder, extra: dict[str, object]) -> Recipe:
    config = {
        "architectures": ["LlamaForCausalLM"],  # vLLM puts Eagle or Eagle3 before it
        "model_type": "llama",
        "torch_dtype": "float32",
        "bos_token_id": None,
        "eos_token_id": token_id("<|im_end|>"),
        "pad_token_id": token_id("<|endoftext|>"),
        **decoder.config(),
        "num_hidden_layers": 1,
        **extra,
    }
    return Recipe(tensors=tuple(head.tensors(decoder)), files={"config.json": as_json(config)})
