"""Prompts for the made models. A byte is a token, so lengths in tokens can be read off."""

from __future__ import annotations

#: Four distinct requests of different lengths; together well under 256 tokens, so that one step
#: can hold the prompts of all four.
TEXT_PROMPTS = (
    "Hello",
    "The capital of France is",
    "Count with me: one, two, three, four,",
    "In the beginning there was a small program that did nothing at all, and",
)

#: Prompts after which `tiny-qwen3` says the same for a while, then changes its mind: prompt lookup
#: drafts tokens, of which some are accepted and some rejected.
REPETITIVE_PROMPTS = (
    "one two one two one two one two one two",
    "abcabcabcabcabcabcabc",
    "tick tock tick tock tick tock tick",
    "na na na na na na na na batman na na na na",
)

_PREAMBLE = "A cache is a promise that nothing has changed since. " * 6

#: Prompts of more than 300 tokens that begin with the same 318: more than two of the 128-token
#: blocks that the KV cache has on a CPU, so that a prefix cache has something to share.
LONG_PROMPTS = (
    f"{_PREAMBLE}No.",
    f"{_PREAMBLE}What then?",
    f"{_PREAMBLE}Who says so, and when?",
    f"{_PREAMBLE}Let us look at it again, slowly this time.",
)
