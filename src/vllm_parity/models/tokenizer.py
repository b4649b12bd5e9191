"""A byte-level tokenizer: token ids 0 to 255 are bytes, sixteen special tokens follow.

One tokenizer serves all made models, so that a prompt has the same ids in each of them.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

SPECIAL_TOKENS = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|vision_pad|>",
    "<|image_pad|>",
    "<|video_pad|>",
    "<|audio_bos|>",
    "<|AUDIO|>",
    "<|audio_eos|>",
    "<|reserved_0|>",
    "<|reserved_1|>",
    "<|reserved_2|>",
    "<|reserved_3|>",
    "<|reserved_4|>",
)
VOCAB_SIZE = 256 + len(SPECIAL_TOKENS)

#: Bytes that a model may say: printable ASCII and the newline, so that its text can be read.
SPEAKABLE = frozenset({ord("\n"), *range(ord(" "), ord("~") + 1)})


def token_id(special: str) -> int:
    """Return the id of a special token."""
    return 256 + SPECIAL_TOKENS.index(special)


def byte_characters() -> list[str]:
    """Return the character that stands for each byte in a byte-level BPE vocabulary.

    As in GPT-2: printable Latin-1 bytes stand for themselves, the others for U+0100 onwards.
    """
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    characters = []
    moved = 0
    for byte in range(256):
        if byte in printable:
            characters.append(chr(byte))
        else:
            characters.append(chr(0x100 + moved))
            moved += 1
    return characters


def chat_template(placeholders: Mapping[str, str] | None = None) -> str:
    """Write the chat template of a model: ChatML, as all Qwen models have it.

    `placeholders` maps a part of a message (``image``, ``video``, ``audio``) to the tokens that
    stand for it. vLLM hands the parts of a message to a template that loops over them.
    """
    content = "{{ message['content'] }}"
    if placeholders:
        branches = "".join(
            f"{{% elif part['type'] in ('{part}', '{part}_url', 'input_{part}') %}}{tokens}"
            for part, tokens in placeholders.items()
        )
        content = (
            f"{{% if message['content'] is string %}}{content}"
            "{% else %}{% for part in message['content'] %}"
            f"{{% if part['type'] == 'text' %}}{{{{ part['text'] }}}}{branches}{{% endif %}}"
            "{% endfor %}{% endif %}"
        )
    return (
        "{% for message in messages %}"
        f"<|im_start|>{{{{ message['role'] }}}}\n{content}<|im_end|>\n"
        "{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    )


def as_json(value: object) -> bytes:
    """Write JSON as all files of a made model are written."""
    return (json.dumps(value, indent=2, ensure_ascii=True) + "\n").encode()


def tokenizer_files(template: str) -> dict[str, bytes]:
    """Return the tokenizer's files, with the chat template `template`."""
    added = [
        {
            "id": token_id(token),
            "content": token,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": True,
        }
        for token in SPECIAL_TOKENS
    ]
    byte_level = {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": False,
        "use_regex": False,
    }
    tokenizer: dict[str, object] = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": None,
        "pre_tokenizer": byte_level,
        "post_processor": None,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {character: byte for byte, character in enumerate(byte_characters())},
            "merges": [],
        },
    }
    config: dict[str, object] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "clean_up_tokenization_spaces": False,
        "model_max_length": 32768,
        "bos_token": None,
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
        "chat_template": template,
    }
    return {
        "tokenizer.json": as_json(tokenizer),
        "tokenizer_config.json": as_json(config),
        "chat_template.jinja": template.encode(),
        "generation_config.json": as_json(
            {
                "do_sample": False,
                "eos_token_id": token_id("<|im_end|>"),
                "pad_token_id": token_id("<|endoftext|>"),
            }
        ),
    }
