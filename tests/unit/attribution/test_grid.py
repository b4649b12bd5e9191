"""A grid of outcomes names its cause where it proves one, and says what is missing where not."""

from __future__ import annotations

import itertools

import pytest

from vllm_parity.attribution.answer import Answer, Kind
from vllm_parity.attribution.grid import Point, Sign, name_cause


def points(*words: str) -> list[Point]:
    """Return points from words: the values of knobs a, b, ..., a colon, the outcome, a label.

    `.` is same, D diverged, N noisy, ? void: ``10:D1``.
    """
    signs = {".": Sign.SAME, "D": Sign.DIVERGED, "N": Sign.NOISY, "?": Sign.VOID}
    found = []
    for word in words:
        values, _, outcome = word.partition(":")
        settings = dict(zip("abcdefghij", values, strict=False))
        found.append(Point(settings=settings, sign=signs[outcome[0]], label=outcome[1:]))
    return found


def answer(*words: str) -> tuple[Kind, tuple[tuple[str, ...], ...]]:
    found: Answer = name_cause(points(*words))
    return found.kind, found.culprits


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["0:.", "1:D"], (Kind.SINGLE, (("a",),))),
        (["00:.", "01:.", "10:D", "11:D"], (Kind.SINGLE, (("a",),))),
        (["00:.", "01:.", "10:.", "11:D"], (Kind.INTERACTION, (("a", "b"),))),
        (["00:.", "01:D", "10:D", "11:D"], (Kind.SINGLE, (("a",), ("b",)))),
        (["00:.", "01:D", "10:D", "11:."], (Kind.INTERACTION, (("a", "b"),))),
        (["0:.", "1:."], (Kind.NONE, ())),
        (["0:D", "1:D"], (Kind.UNDETERMINED, ())),
        (["00:.", "11:D"], (Kind.UNDETERMINED, ())),
        # That b is not needed, no run shows.
        (["00:.", "01:.", "11:D"], (Kind.UNDETERMINED, ())),
        # A run that does not count shows nothing.
        (["00:.", "01:.", "11:D", "10:?"], (Kind.UNDETERMINED, ())),
        (["0:?"], (Kind.UNDETERMINED, ())),
        (["0:N"], (Kind.NOISE, ())),
        (["0:.", "1:N"], (Kind.NOISE, (("a",),))),
        (["0:.", "0:D"], (Kind.NONDETERMINISTIC, ())),
        (["0:D1", "0:D2"], (Kind.NONDETERMINISTIC, ())),
        # Three classes in five, and five that agree under another value (vllm#51187).
        (
            ["1:D1", "1:D2", "1:D3", "1:D1", "1:D1", *["0:."] * 5],
            (Kind.NONDETERMINISTIC, (("a",),)),
        ),
        # Two that agree may be luck.
        (["1:D", "1:.", "1:.", "1:.", "0:.", "0:."], (Kind.NONDETERMINISTIC, ())),
    ],
)
def test_each_kind(words: list[str], expected: tuple[Kind, tuple[tuple[str, ...], ...]]) -> None:
    assert answer(*words) == expected


def test_what_is_undetermined_says_what_to_run_next() -> None:
    found = name_cause(points("00:.", "01:.", "11:D"))
    assert found.next == {"a": "1", "b": "0"}
    assert "b=0" in found.evidence


@pytest.mark.parametrize("size", [1, 2, 3])
def test_a_full_grid_names_every_conjunction(size: int) -> None:
    for culprits in itertools.combinations(range(4), size):
        words = [
            f"{''.join(values)}:{'D' if all(values[one] == '1' for one in culprits) else '.'}"
            for values in itertools.product("01", repeat=4)
        ]
        names = tuple("abcd"[one] for one in culprits)
        assert answer(*words)[1] == (names,)
