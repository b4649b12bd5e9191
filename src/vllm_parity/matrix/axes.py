"""The axes of the matrix. The value of each is the word used in files, ids and options."""

from __future__ import annotations

from enum import StrEnum


class Family(StrEnum):
    """What is compared; see `families/`."""

    BATCH_INVARIANCE = "batch_invariance"
    SPEC_DECODE = "spec_decode"
    STREAMING = "streaming"


class Platform(StrEnum):
    """Where vLLM runs; see platforms.toml."""

    CPU = "cpu"
    CUDA = "cuda"
    ROCM = "rocm"


class Execution(StrEnum):
    """How vLLM runs the model. Compiled means torch.compile without graphs."""

    EAGER = "eager"
    COMPILED = "compiled"
    GRAPH = "graph"


class Switch(StrEnum):
    """A flag that is on or off."""

    OFF = "off"
    ON = "on"


class Dtype(StrEnum):
    """What a model computes in. vLLM's `auto` is none: a contract is chosen by it."""

    FLOAT32 = "float32"
    BFLOAT16 = "bfloat16"
    FLOAT16 = "float16"


class Contrast(StrEnum):
    """The one thing in which a cell's two arms differ."""

    BATCH_SIZE = "batch_size"
    PREFIX_CACHE_STATE = "prefix_cache_state"
    SPECULATIVE_CONFIG = "speculative_config"
    STREAM = "stream"


class Modality(StrEnum):
    """What a request of the family batch_invariance carries."""

    TEXT = "text"
    IMAGE = "image"
    VIDEO = "video"


class Workload(StrEnum):
    """How many prompts the family batch_invariance sends, and how long they are.

    Small: no step computes 256 tokens. Large: the batch's does, and that of no request alone.
    """

    N2_SMALL = "n2_small"
    N2_LARGE = "n2_large"
    N8_SMALL = "n8_small"
    N8_LARGE = "n8_large"
    N32_SMALL = "n32_small"
    N32_LARGE = "n32_large"


class CacheStart(StrEnum):
    """How requests meet a prefix cache that is on: filled by themselves before, or empty."""

    WARM = "warm"
    COLD = "cold"


class EncoderAttention(StrEnum):
    """vLLM's `mm_encoder_attn_backend`: how the encoder of images and videos attends."""

    FLASH_ATTN = "FLASH_ATTN"
    TORCH_SDPA = "TORCH_SDPA"


class Attention(StrEnum):
    """vLLM's `attention_backend`: how the language model attends."""

    FLASH_ATTN = "FLASH_ATTN"
    TRITON_ATTN = "TRITON_ATTN"
    FLEX_ATTENTION = "FLEX_ATTENTION"


class Method(StrEnum):
    """How the family spec_decode drafts tokens."""

    NGRAM = "ngram"
    EAGLE = "eagle"
    EAGLE3 = "eagle3"
    DRAFT_MODEL = "draft_model"


class LogprobsMode(StrEnum):
    """vLLM's `logprobs_mode`."""

    RAW_LOGPROBS = "raw_logprobs"
    PROCESSED_LOGPROBS = "processed_logprobs"
    RAW_LOGITS = "raw_logits"
    PROCESSED_LOGITS = "processed_logits"


class Transport(StrEnum):
    """How the content of a chat request of the family streaming travels."""

    TEXT = "text"
    TOOLS = "tools"
    """Text, answered by a call of a tool."""
    IMAGE_URL = "image_url"
    AUDIO_URL = "audio_url"
    INPUT_AUDIO = "input_audio"


class Tier(StrEnum):
    """A named selection of cells, from small to large: each holds all cells of those before it."""

    SMOKE = "smoke"
    PR = "pr"
    NIGHTLY = "nightly"
    FULL = "full"


class Models(StrEnum):
    """Where the weights come from."""

    HUB = "hub"
    BUILT_IN = "built-in"
