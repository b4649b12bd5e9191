"""A vision-language model of the Qwen3-VL kind (vLLM: ``Qwen3VLForConditionalGeneration``).

An image costs one token for each 32 x 32 pixels, a video the same for each pair of frames. Images
whose sides are multiples of 32 are never resized, so that no interpolation stands between the
pixels and the model.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vllm_parity.models.recipe import Recipe
from vllm_parity.models.tensors import Tensor, bias, linear, norm
from vllm_parity.models.tokenizer import as_json, chat_template, token_id, tokenizer_files

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vllm_parity.models.decoder import Decoder

IMAGE = "<|vision_start|><|image_pad|><|vision_end|>"
VIDEO = "<|vision_start|><|video_pad|><|vision_end|>"


@dataclass(frozen=True, kw_only=True)
class Vision:
    """Sizes of the vision encoder; `loudness` is that of an image token beside a text token.

    Features of the blocks listed in `deepstack` are added to the decoder's first layers.
    """

    depth: int = 2
    hidden: int = 64
    heads: int = 2
    intermediate: int = 128
    patch: int = 16
    merge: int = 2
    frames: int = 2
    positions: int = 64
    deepstack: tuple[int, ...] = (0,)
    loudness: float = 4.0

    def config(self, out: int) -> dict[str, object]:
        """Return ``vision_config`` for a decoder of hidden size `out`."""
        return {
            "model_type": "qwen3_vl",
            "depth": self.depth,
            "hidden_size": self.hidden,
            "hidden_act": "gelu_pytorch_tanh",
            "intermediate_size": self.intermediate,
            "num_heads": self.heads,
            "in_channels": 3,
            "patch_size": self.patch,
            "spatial_merge_size": self.merge,
            "temporal_patch_size": self.frames,
            "out_hidden_size": out,
            "num_position_embeddings": self.positions,
            "deepstack_visual_indexes": list(self.deepstack),
            "initializer_range": 0.02,
        }

    def tensors(self, prefix: str, out: int) -> Iterator[Tensor]:
        """Yield the tensors for a decoder of hidden size `out`."""
        patch = (3, self.frames, self.patch, self.patch)
        fan_in = 3 * self.frames * self.patch**2
        yield Tensor(
            name=f"{prefix}patch_embed.proj.weight",
            shape=(self.hidden, *patch),
            std=2.0 / fan_in**0.5,
        )
        yield bias(f"{prefix}patch_embed.proj.bias", self.hidden)
        yield Tensor(name=f"{prefix}pos_embed.weight", shape=(self.positions, self.hidden), std=0.5)
        for block in range(self.depth):
            yield from self._block(f"{prefix}blocks.{block}.")
        yield from self._merger(f"{prefix}merger.", self.hidden, out)
        for index in range(len(self.deepstack)):
            merged = self.hidden * self.merge**2
            yield from self._merger(f"{prefix}deepstack_merger_list.{index}.", merged, out)

    def _block(self, prefix: str) -> Iterator[Tensor]:
        hidden, wide = self.hidden, self.intermediate
        for name in ("norm1", "norm2"):
            yield norm(f"{prefix}{name}.weight", hidden)
            yield bias(f"{prefix}{name}.bias", hidden)
        for name, rows, columns in (
            ("attn.qkv", 3 * hidden, hidden),
            ("attn.proj", hidden, hidden),
            ("mlp.linear_fc1", wide, hidden),
            ("mlp.linear_fc2", hidden, wide),
        ):
            yield linear(f"{prefix}{name}.weight", rows, columns, gain=1.5)
            yield bias(f"{prefix}{name}.bias", rows)

    def _merger(self, prefix: str, normed: int, out: int) -> Iterator[Tensor]:
        merged = self.hidden * self.merge**2
        yield norm(f"{prefix}norm.weight", normed)
        yield bias(f"{prefix}norm.bias", normed)
        yield linear(f"{prefix}linear_fc1.weight", merged, merged, gain=1.5)
        yield bias(f"{prefix}linear_fc1.bias", merged)
        yield linear(f"{prefix}linear_fc2.weight", out, merged, gain=self.loudness)
        yield bias(f"{prefix}linear_fc2.bias", out)


def recipe(decoder: Decoder, vision: Vision) -> Recipe:
    """Describe the model."""
    third = decoder.head_dim // 6
    text_config = {
        "model_type": "qwen3_vl_text",
        "torch_dtype": "float32",
        "bos_token_id": None,
        "eos_token_id": token_id("<|im_end|>"),
        "pad_token_id": token_id("<|endoftext|>"),
        "rope_scaling": {
            "rope_type": "default",
            "mrope_interleaved": True,
            "mrope_section": [decoder.head_dim // 2 - 2 * third, third, third],
        },
        **decoder.config(),
    }
    config = {
        "architectures": ["Qwen3VLForConditionalGeneration"],
        "model_type": "qwen3_vl",
        "torch_dtype": "float32",
        "image_token_id": token_id("<|image_pad|>"),
        "video_token_id": token_id("<|video_pad|>"),
        "vision_start_token_id": token_id("<|vision_start|>"),
        "vision_end_token_id": token_id("<|vision_end|>"),
        "tie_word_embeddings": False,
        "text_config": text_config,
        "vision_config": vision.config(decoder.hidden),
    }
    return Recipe(
        tensors=(
            *decoder.tensors(model="model.language_model."),
            *vision.tensors("model.visual.", decoder.hidden),
        ),
        files={
            "config.json": as_json(config),
            **_processor_files(vision),
            **tokenizer_files(chat_template({"image": IMAGE, "video": VIDEO})),
        },
    )


def _processor_files(vision: Vision) -> dict[str, bytes]:
    """Return the processors' files; sizes are in pixels (images) and pixels x frames (videos)."""
    token = (vision.patch * vision.merge) ** 2
    shared: dict[str, object] = {
        "processor_class": "Qwen3VLProcessor",
        "patch_size": vision.patch,
        "temporal_patch_size": vision.frames,
        "merge_size": vision.merge,
        "image_mean": [0.5, 0.5, 0.5],
        "image_std": [0.5, 0.5, 0.5],
    }
    image = {
        "image_processor_type": "Qwen2VLImageProcessorFast",
        "size": {"shortest_edge": token, "longest_edge": 64 * token},
    }
    video = {
        "video_processor_type": "Qwen3VLVideoProcessor",
        "size": {"shortest_edge": token * vision.frames, "longest_edge": 256 * token},
        "fps": 2,
        "min_frames": 2,
        "max_frames": 16,
        "do_sample_frames": False,
        "cap_pixels_per_frame": False,
    }
    return {
        "preprocessor_config.json": as_json({**image, **shared}),
        "video_preprocessor_config.json": as_json({**video, **shared}),
    }
