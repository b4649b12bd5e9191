"""The tokenizer is byte-level: ids below 256 are bytes."""

from __future__ import annotations

import json

from vllm_parity.models.tokenizer import (
    SPEAKABLE,
    SPECIAL_TOKENS,
    VOCAB_SIZE,
    byte_characters,
    chat_template,
    token_id,
    tokenizer_files,
)


def test_byte_characters_are_those_of_gpt2() -> None:
    characters = byte_characters()
    assert len(set(characters)) == 256
    assert characters[ord("A")] == "A"
    assert characters[ord(" ")] == "\u0120"
    assert characters[ord("\n")] == "\u010a"
    assert characters[0] == "\u0100"
    assert characters[0xAD] == "\u0143"


def test_vocabulary_is_bytes_then_special_tokens() -> None:
    tokenizer = json.loads(tokenizer_files("template")["tokenizer.json"])
    assert tokenizer["model"]["type"] == "BPE"
    assert tokenizer["model"]["merges"] == []
    assert sorted(tokenizer["model"]["vocab"].values()) == list(range(256))
    assert [(token["id"], token["content"]) for token in tokenizer["added_tokens"]] == [
        (256 + place, token) for place, token in enumerate(SPECIAL_TOKENS)
    ]
    assert len(set(SPECIAL_TOKENS)) == 16
    assert VOCAB_SIZE == 272


def test_special_tokens_named_elsewhere_exist() -> None:
    files = tokenizer_files("template")
    config = json.loads(files["tokenizer_config.json"])
    generation = json.loads(files["generation_config.json"])
    assert token_id(config["eos_token"]) == generation["eos_token_id"]
    assert token_id(config["pad_token"]) == generation["pad_token_id"]
    assert config["chat_template"] == files["chat_template.jinja"].decode() == "template"


def test_models_speak_readable_bytes() -> None:
    assert all(chr(byte).isprintable() or byte == ord("\n") for byte in SPEAKABLE)
    assert len(SPEAKABLE) == 96


def test_template_loops_over_parts_only_where_there_are_media() -> None:
    assert "part" not in chat_template()
    assert "<|AUDIO|>" in chat_template({"audio": "<|AUDIO|>"})
