"""An audio chat model of the Qwen2-Audio kind (vLLM: ``Qwen2AudioForConditionalGeneration``).

A second of sound costs 25 tokens; at most 30 seconds are heard.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from vllm_parity.models.recipe import Recipe
from vllm_parity.models.tensors import Tensor, bias, linear, norm
from vllm_parity.models.tokenizer import as_json, chat_template, token_id, tokenizer_files

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vllm_parity.models.decoder import Decoder

AUDIO = "<|audio_bos|><|AUDIO|><|audio_eos|>"

#: Feature extractor: samples a second, and samples between two frames of the spectrogram.
_SAMPLING_RATE, _HOP, _SECONDS = 16_000, 160, 30


@dataclass(frozen=True, kw_only=True)
class Hearing:
    """Sizes of the audio encoder; `loudness` is that of a sound token beside a text token."""

    mel_bins: int = 32
    hidden: int = 64
    layers: int = 2
    heads: int = 2
    intermediate: int = 128
    loudness: float = 2.0

    @property
    def positions(self) -> int:
        """Frames after the two convolutions, of which the second halves their number."""
        return _SECONDS * _SAMPLING_RATE // _HOP // 2

    def config(self) -> dict[str, object]:
        """Return ``audio_config``."""
        return {
            "model_type": "qwen2_audio_encoder",
            "num_mel_bins": self.mel_bins,
            "encoder_layers": self.layers,
            "encoder_attention_heads": self.heads,
            "encoder_ffn_dim": self.intermediate,
            "d_model": self.hidden,
            "max_source_positions": self.positions,
            "activation_function": "gelu",
            "scale_embedding": False,
            "dropout": 0.0,
            "attention_dropout": 0.0,
            "activation_dropout": 0.0,
            "encoder_layerdrop": 0.0,
            "init_std": 0.02,
        }

    def tensors(self, tower: str, projector: str, out: int) -> Iterator[Tensor]:
        """Yield the tensors of the encoder, and of the projection to hidden size `out`."""
        for name, columns in (("conv1", self.mel_bins), ("conv2", self.hidden)):
            shape = (self.hidden, columns, 3)
            std = 1.5 / (3 * columns) ** 0.5
            yield Tensor(name=f"{tower}{name}.weight", shape=shape, std=std)
            yield bias(f"{tower}{name}.bias", self.hidden)
        yield Tensor(
            name=f"{tower}embed_positions.weight", shape=(self.positions, self.hidden), std=0.1
        )
        for layer in range(self.layers):
            yield from self._layer(f"{tower}layers.{layer}.")
        yield from self._norm(f"{tower}layer_norm.")
        yield linear(f"{projector}weight", out, self.hidden, gain=self.loudness)
        yield bias(f"{projector}bias", out)

    def _layer(self, prefix: str) -> Iterator[Tensor]:
        hidden, wide = self.hidden, self.intermediate
        for name, rows, columns in (
            ("self_attn.q_proj", hidden, hidden),
            ("self_attn.k_proj", hidden, hidden),
            ("self_attn.v_proj", hidden, hidden),
            ("self_attn.out_proj", hidden, hidden),
            ("fc1", wide, hidden),
            ("fc2", hidden, wide),
        ):
            yield linear(f"{prefix}{name}.weight", rows, columns)
            if name != "self_attn.k_proj":  # as in Whisper, keys have no bias
                yield bias(f"{prefix}{name}.bias", rows)
        yield from self._norm(f"{prefix}self_attn_layer_norm.")
        yield from self._norm(f"{prefix}final_layer_norm.")

    def _norm(self, prefix: str) -> Iterator[Tensor]:
        yield norm(f"{prefix}weight", self.hidden)
        yield bias(f"{prefix}bias", self.hidden)


def recipe(decoder: Decoder) -> Recipe:
    """Describe the model."""
    decoder, hearing = replace(decoder, qk_norm=False), Hearing()
    config = {
        "architectures": ["Qwen2AudioForConditionalGeneration"],
        "model_type": "qwen2_audio",
        "torch_dtype": "float32",
        "audio_token_index": token_id("<|AUDIO|>"),
        "bos_token_id": None,
        "eos_token_id": token_id("<|im_end|>"),
        "pad_token_id": token_id("<|endoftext|>"),
        "vocab_size": decoder.config()["vocab_size"],
        "tie_word_embeddings": False,
        "text_config": {
            "model_type": "qwen2",
            "torch_dtype": "float32",
            "use_sliding_window": False,
            **decoder.config(),
        },
        "audio_config": hearing.config(),
    }
    extractor = {
        "feature_extractor_type": "WhisperFeatureExtractor",
        "processor_class": "Qwen2AudioProcessor",
        "feature_size": hearing.mel_bins,
        "sampling_rate": _SAMPLING_RATE,
        "hop_length": _HOP,
        "chunk_length": _SECONDS,
        "n_fft": 400,
        "padding_side": "right",
        "padding_value": 0.0,
        "return_attention_mask": True,
        "dither": 0.0,
    }
    return Recipe(
        tensors=(
            *decoder.tensors(model="language_model.model.", head="language_model.lm_head."),
            *hearing.tensors("audio_tower.", "multi_modal_projector.linear.", decoder.hidden),
        ),
        files={
            "config.json": as_json(config),
            "preprocessor_config.json": as_json(extractor),
            **tokenizer_files(chat_template({"audio": AUDIO})),
        },
    )
