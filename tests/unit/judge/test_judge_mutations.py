"""The mutation proof: no field of a good example changes unnoticed, but for those listed."""

from __future__ import annotations

import functools
import json
import re

import pytest
from making import DATA, FAMILIES, Json, good, verdict
from mutations import mutations

from vllm_parity.errors import FormatError

ANY = ".*"
HARMLESS: list[tuple[str, str, str, str]] = [
    # family, place, change, and the reason why it is harmless
    (ANY, ANY, "reorder", "objects in JSON have no order"),
    (ANY, r"cell", "bit", "another name for the same cell"),
    (ANY, r"contrast|follows", "duplicate", "a knob named twice is the same knob"),
    ("batch_invariance|streaming", r"follows", "drop", "nothing followed"),
    (ANY, r"environment.*", ANY, "text about both arms alike; only `compare` reads it"),
    (ANY, r"error|not_run", "drop", "absent is null"),
    (ANY, r"arms", "rename control", "a cell needs no control"),
    ("spec_decode|streaming", r"arms\.control", "null|drop", "a cell needs no control"),
    ("batch_invariance", r"arms\.control", "drop", "it was null already"),
    ("streaming", r"arms", "swap", "reference and control are the same in this example"),
    # What is required, and what is only recorded
    (ANY, r"require", "swap|reverse|duplicate", "requirements have no order"),
    (ANY, r"require(\.\d)?", "truncate|drop", "what is not required is not asked for"),
    (ANY, r"require\.2", "bit", "a bound that still holds: >=2, <=8"),
    ("batch_invariance", r"arms\.candidate\.witness", "swap", "both bounds still hold"),
    (ANY, r"arms\.\w+\.witness\.\w+", "bit", "a count that still fits its bound, or has none"),
    (
        "batch_invariance",
        r"arms\.reference\.witness(\.max_running_requests)?",
        "null|drop|type.*|rename max_running_requests",
        "nothing asks the reference for this",
    ),
    (
        "spec_decode",
        r"arms\.(reference\.witness(\.runner)?|candidate\.witness(\.spec_draft_tokens)?)",
        "null|drop|type.*|rename (runner|spec_draft_tokens)",
        "nothing asks this arm for it",
    ),
    (
        "streaming",
        r"arms\.reference\.witness(\.graph_replays)?",
        "null|drop|type.*|rename graph_replays",
        "nothing asks the reference for it",
    ),
    # The contrast may have any two values, and what follows it may do as it likes
    (
        "batch_invariance",
        r"arms\.\w+\.knobs\.batch_size",
        "null|drop|type.*|bit",
        "still another value than the other arm's",
    ),
    (
        "spec_decode",
        r"arms\.candidate\.knobs\.(speculative_config.*|async_scheduling)",
        ANY,
        "still another value than the reference's, or one that follows the contrast",
    ),
    (
        "spec_decode",
        r"arms\.(reference|control)\.knobs(\.speculative_config)?",
        "drop|rename speculative_config",
        "absent is null",
    ),
    ("streaming", r"arms\.candidate\.knobs\.stream", "type.*|null|drop", "still not false"),
    # The contract of spec_decode has defaults, and room
    (
        "spec_decode",
        r"contract(\.(tie_gap|min_compared))?",
        "null|drop|rename (tie_gap|min_compared)",
        "the default does for this example as well",
    ),
    ("spec_decode", r"contract\.(atol|rtol|tie_gap)", "type: 7|bit", "a bound that still holds"),
    (
        "spec_decode",
        r"arms\.\w+\.requests\.0\.outputs\.0\.logprobs\.\d\.\d+",
        "bit",
        "one bit is within the tolerance",
    ),
    (
        "spec_decode",
        r"arms\.candidate\.requests\.0\.outputs\.0(\.(text|finish_reason|token_ids))?",
        "null|drop|bit|duplicate|rename (text|finish_reason)",
        "comes after a tie, where nothing is compared",
    ),
    # Plain outputs
    (ANY, r"arms\.\w+\.requests|arms\.\w+\.requests\.\d\.outputs", "swap", "they pair by name"),
    (ANY, r"arms\.\w+\.requests\.\d(\.prompt_tail)?", ".*(prompt_tail|null|bit)", "for people"),
    (ANY, r"arms\.\w+\.requests\.\d\.prompt_tail", "drop", "for people"),
    (
        "batch_invariance|spec_decode",
        r"arms\.\w+\.requests\.\d\.outputs\.\d(\.text)?",
        "null|drop|rename text",
        "a text that was not returned is not compared",
    ),
    (
        "batch_invariance|spec_decode",
        r"arms\.\w+\.requests\.\d\.outputs\.\d\.logprobs\.\d",
        "rename (20\\d|26)",
        "the last member of the list may be any token with that very value",
    ),
    # A control with missing data counts as none, and none is needed
    (
        "spec_decode|streaming",
        r"arms\.control\.requests(\.0(\.id|\.outputs.*|\.response.*)?)?",
        (
            "null|drop|truncate|bit|swap|reverse|duplicate"
            "|rename (token_ids|logprobs|logprob|content|choices|id|21|22|23|24)"
        ),
        "a control with missing data counts as none",
    ),
    (
        "spec_decode|streaming",
        r"arms\.control\.requests\.0(\.(expect|prompt)_tokens)?",
        "null|drop|bit|rename (expect|prompt)_tokens",
        "the two arms of the pair are reference and candidate",
    ),
    # What comes over the wire besides
    (
        "streaming",
        r".*\.(response|events\.\d)(\.model)?",
        "null|type.*|bit|drop|rename model",
        "not compared: names of the server",
    ),
    (
        "streaming",
        r".*\.tool_calls\.0(\.(id|type))?",
        "null|type.*|bit|drop|rename (id|type)",
        "a random id, and a type that there is one of",
    ),
    ("streaming", r".*\.tool_calls\.0(\.index)?", "null|drop|rename index", "it is in its place"),
    ("streaming", r".*\.choices", "swap", "choices pair by index"),
    (
        "streaming",
        r".*\.(message|delta)(\.role)?",
        "null|drop|rename role",
        "a role need not be sent",
    ),
    (
        "streaming",
        r".*\.(response|events\.\d)(\.usage(\.\w+_tokens)?)?",
        "null|drop|rename (usage|\\w+_tokens)",
        "usage is compared where both give it",
    ),
    (
        "streaming",
        r".*\.(message|delta)\.(content|tool_calls\.0\.function\.arguments)",
        "null|drop",
        "empty, null and absent are the same",
    ),
    (
        "streaming",
        r".*\.(message|delta|function)",
        "rename (content|arguments)",
        "an empty text by another name",
    ),
    (
        "streaming",
        r".*\.events\.\d\.choices\.0(\.finish_reason)?",
        "drop|rename finish_reason",
        "absent is null",
    ),
    (
        "streaming",
        r".*\.events(\.\d(\.choices(\.0(\.(index|delta))?)?)?)?",
        "null|drop|bit|truncate|duplicate|swap|rename (choices|delta)",
        "an event that brings nothing: a role, or the last usage",
    ),
    (
        "streaming",
        r".*\.logprobs\.content\.\d(\.(token|bytes(\.\d)?))?",
        "null|type.*|bit|drop|truncate|duplicate|swap|reverse|rename (token|bytes)",
        "the generated token is known by its id",
    ),
    (
        "streaming",
        (
            r".*\.(0\.response\.choices\.0\.logprobs\.content\.2|events\.8\..*\.content\.0)"
            r"(\.top_logprobs(\.0(\.logprob)?)?)?"
        ),
        "null|drop|truncate|rename (top_logprobs|logprob)",
        "this list has the generated token alone, once more",
    ),
    ("streaming", r".*\.top_logprobs", "swap|duplicate", "lists have no order; a twin of the last"),
    (
        "streaming",
        r".*\.top_logprobs\.\d(\.token)?",
        "null|type.*|bit|drop|rename token",
        "an alternative is known by its bytes",
    ),
    (
        "streaming",
        r".*\.top_logprobs\.\d(\.bytes(\.\d)?)?",
        "null|bit|drop|truncate|duplicate|swap|rename bytes",
        "the last member of the list may be any token with that very value",
    ),
]


def outcome(document: Json) -> str:
    try:
        return verdict(document)[0]
    except FormatError:
        return "format error"


@pytest.mark.parametrize("family", FAMILIES)
def test_a_good_example_passes(family: str) -> None:
    assert verdict(good(family)) == ("pass", set())


VERDICTS = json.loads((DATA / "verdicts.json").read_bytes())


@pytest.mark.parametrize("name", VERDICTS)
def test_mutated_examples(name: str) -> None:
    document = json.loads((DATA / f"mutated-{name}.json").read_bytes())
    expected, codes = VERDICTS[name]
    assert verdict(document) == (expected, set(codes))


@functools.cache
def survivors(family: str) -> tuple[int, list[tuple[str, str]]]:
    """Return how many mutations there are, and which of them still pass."""
    count, passed = 0, []
    for path, change, document in mutations(good(family)):
        count += 1
        if outcome(document) == "pass":
            passed.append((".".join(map(str, path)), change))
    return count, passed


def rules_for(family: str, place: str, change: str) -> list[tuple[str, str, str, str]]:
    asked = (family, place, change)
    return [
        rule
        for rule in HARMLESS
        if all(re.fullmatch(pattern, text) for pattern, text in zip(rule[:3], asked, strict=True))
    ]


@pytest.mark.parametrize("family", FAMILIES)
def test_no_mutation_goes_unnoticed(family: str) -> None:
    count, passed = survivors(family)
    assert count > 1000
    assert [mutation for mutation in passed if not rules_for(family, *mutation)] == []


def test_no_rule_is_idle() -> None:
    # A rule that no mutation needs any more would hide the next one.
    used = {
        rule
        for family in FAMILIES
        for mutation in survivors(family)[1]
        for rule in rules_for(family, *mutation)
    }
    assert [rule for rule in HARMLESS if rule not in used] == []
