"""Naming a cause from a grid: runs of one cell under different settings, each with its outcome.

The rule is a proof, not a score. The values that a knob has in the runs that went wrong are its
box. A knob whose box holds all of its values is free: it went wrong under each. The others are the
culprits if no good run lies in all their boxes, and if for each of them there is a good run that
lies in the boxes of the rest: that one shows that without it the fault goes. Wherever a run is
missing for this, the answer is undetermined and says which.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from vllm_parity.attribution.answer import Answer, Kind, kind_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Settings = Mapping[str, str]

_LUCK = 0.2
"""A setting counts as stable where that could be luck with this probability at most."""

_MOST_TOGETHER = 3


class Sign(StrEnum):
    """What one run showed."""

    SAME = "same"
    DIVERGED = "diverged"
    NOISY = "noisy"
    """The control differed from the reference as well."""
    VOID = "void"
    """Nothing: an engine failed, or something was not witnessed."""


@dataclass(frozen=True, kw_only=True)
class Point:
    """A run: the value of each knob as text, what it showed, and what came out.

    Two runs with equal settings and equal `label`s gave the same outputs.
    """

    settings: Settings
    sign: Sign
    label: str = ""
    name: str = ""


@dataclass(frozen=True, kw_only=True)
class Group:
    """All runs with the same settings."""

    settings: Settings
    points: tuple[Point, ...]

    @property
    def outcomes(self) -> dict[tuple[Sign, str], int]:
        """How many runs had which outcome."""
        found: dict[tuple[Sign, str], int] = {}
        for point in self.points:
            outcome = (point.sign, point.label)
            found[outcome] = found.get(outcome, 0) + 1
        return found

    @property
    def agrees(self) -> bool:
        """Whether all runs came out the same."""
        return len(self.outcomes) == 1

    def has(self, sign: Sign) -> bool:
        """Whether any run showed this."""
        return any(point.sign is sign for point in self.points)


@dataclass(frozen=True, kw_only=True)
class Box:
    """What went wrong has these knobs in common; see the module.

    `holds` says that no good run has; `unproven` are the knobs that no good run shows to be
    needed.
    """

    knobs: tuple[str, ...]
    values: Mapping[str, frozenset[str]]
    holds: bool
    unproven: tuple[str, ...]


def name_cause(points: Sequence[Point]) -> Answer:
    """Return what decides, as far as the points can tell."""
    groups = grouped(points)
    good = [one for one in groups if one.agrees and one.has(Sign.SAME)]
    noisy = [one for one in groups if one.has(Sign.NOISY)]
    bad = [one for one in groups if one.has(Sign.DIVERGED) and one not in noisy]
    # What differs at equal settings is noise where the reference differs with itself there.
    restless = [one for one in groups if not one.agrees and one not in noisy]
    if restless:
        return _nondeterministic(restless, groups)
    if noisy and not bad:
        return _noise(noisy, good)
    if not bad:
        if good:
            count = sum(len(one.points) for one in good)
            return Answer(kind=Kind.NONE, evidence=f"nothing diverged in {_runs(count)}")
        evidence = "no run counts: each has an error, or lacks something that must be witnessed"
        return Answer(kind=Kind.UNDETERMINED, evidence=evidence)
    return _divergence(bad, good)


def grouped(points: Sequence[Point]) -> list[Group]:
    """Return the runs that count by their settings, in order."""
    found: dict[tuple[tuple[str, str], ...], list[Point]] = {}
    for point in points:
        if point.sign is not Sign.VOID:
            found.setdefault(tuple(sorted(point.settings.items())), []).append(point)
    return [Group(settings=dict(key), points=tuple(value)) for key, value in found.items()]


def common_box(bad: Sequence[Settings], good: Sequence[Settings]) -> Box:
    """Return what all bad settings have in common that not all settings have."""
    seen = _values_of([*bad, *good])
    values = {name: frozenset(one.get(name, "null") for one in bad) for name in seen}
    knobs = tuple(name for name in seen if values[name] != seen[name])

    def inside(one: Settings, names: Sequence[str]) -> bool:
        return all(one.get(name, "null") in values[name] for name in names)

    return Box(
        knobs=knobs,
        values=values,
        holds=not any(inside(one, knobs) for one in good),
        unproven=tuple(
            knob
            for knob in knobs
            if not any(inside(one, [name for name in knobs if name != knob]) for one in good)
        ),
    )


def _divergence(bad: Sequence[Group], good: Sequence[Group]) -> Answer:
    wrong, right = [one.settings for one in bad], [one.settings for one in good]
    if not right:
        evidence = (
            f"it diverges under all {len(wrong)} settings that were run, so nothing shows what it"
            " takes: run the cell with one knob changed"
        )
        return Answer(kind=Kind.UNDETERMINED, evidence=evidence)
    box = common_box(wrong, right)
    if box.holds and not box.unproven:
        words = " and ".join(_value(box, knob) for knob in box.knobs)
        evidence = (
            f"it diverges with {words} under all {len(wrong)} settings that have this, and under"
            f" none of the {len(right)} that do not"
        )
        return Answer(kind=kind_of((box.knobs,)), culprits=(box.knobs,), evidence=evidence)
    if box.holds:
        return _undetermined(box, wrong, right)
    return _either(wrong, right) or _jointly(wrong, right) or _undetermined(box, wrong, right)


def _either(wrong: Sequence[Settings], right: Sequence[Settings]) -> Answer | None:
    """Return single knobs of which each brings the divergence, whatever the others are."""
    enough = {
        (knob, value): [one for one in wrong if one.get(knob) == value]
        for one in wrong
        for knob, value in one.items()
        if all(other.get(knob) != value for other in right)
    }
    if not enough or any(not any(one.get(k) == v for k, v in enough) for one in wrong):
        return None
    # Each must be shown by a run in which it is the only one.
    for (knob, value), having in enough.items():
        others = [pair for pair in enough if pair != (knob, value)]
        if not any(all(one.get(k) != v for k, v in others) for one in having):
            return None
    knobs = sorted({knob for knob, _ in enough})
    if len(knobs) != len(enough):
        return None
    words = ", and with ".join(f"{knob}={value}" for knob, value in sorted(enough))
    return Answer(
        kind=Kind.SINGLE,
        culprits=tuple((knob,) for knob in knobs),
        evidence=f"it diverges with {words}, each by itself",
    )


def _jointly(wrong: Sequence[Settings], right: Sequence[Settings]) -> Answer | None:
    """Return the fewest knobs whose values together decide, where all combinations were run."""
    seen = _values_of([*wrong, *right])
    moving = [name for name in seen if len(seen[name]) > 1]
    for size in range(2, _MOST_TOGETHER + 1):
        for knobs in itertools.combinations(moving, size):
            sides = [
                {tuple(one.get(k, "null") for k in knobs) for one in s} for s in (wrong, right)
            ]
            combinations = math.prod(len(seen[knob]) for knob in knobs)
            if not sides[0] & sides[1] and len(sides[0] | sides[1]) == combinations:
                which = "; ".join(
                    ", ".join(f"{k}={v}" for k, v in zip(knobs, values, strict=True))
                    for values in sorted(sides[0])
                )
                evidence = f"no one of them decides; it diverges with {which}, and not otherwise"
                return Answer(kind=Kind.INTERACTION, culprits=(knobs,), evidence=evidence)
    return None


def _undetermined(box: Box, wrong: Sequence[Settings], right: Sequence[Settings]) -> Answer:
    """Say which run is missing: a bad one with one of its suspects as in a good run."""
    if not box.holds:
        evidence = "no few knobs explain which settings diverge: run those that are missing"
        return Answer(kind=Kind.UNDETERMINED, evidence=evidence)
    knob = box.unproven[0]
    value = next(
        one.get(knob, "null") for one in right if one.get(knob, "null") not in box.values[knob]
    )
    suspects = ", ".join(box.knobs)
    evidence = (
        f"{suspects} could be it, and {knob} was never changed by itself: run the cell with"
        f" {knob}={value} and the rest as in a run that diverges"
    )
    return Answer(kind=Kind.UNDETERMINED, evidence=evidence, next={**wrong[0], knob: value})


def _nondeterministic(restless: Sequence[Group], groups: Sequence[Group]) -> Answer:
    first = restless[0]
    counts = sorted(first.outcomes.values(), reverse=True)
    evidence = (
        f"{len(first.points)} runs with equal settings came out in {len(counts)} ways"
        f" ({', '.join(map(str, counts))})"
    )
    if len(restless) > 1:
        evidence += f", and so {len(restless) - 1} other settings"
    usual = min(max(one.outcomes.values()) / len(one.points) for one in restless)
    steady = [one for one in groups if one.agrees and _is_no_luck(one, usual, first)]
    culprits, more = _stops([one.settings for one in restless], [one.settings for one in steady])
    return Answer(kind=Kind.NONDETERMINISTIC, culprits=culprits, evidence=evidence + more)


def _is_no_luck(group: Group, usual: float, restless: Group) -> bool:
    """Whether runs that all agree show that a setting is stable.

    `usual` is the share of the most frequent outcome where it is not: so often do two agree. A
    setting that was run as often as the one that was seen to be unstable counts as well.
    """
    runs = len(group.points)
    return runs > 1 and (usual ** (runs - 1) <= _LUCK or runs >= len(restless.points))


def _noise(noisy: Sequence[Group], good: Sequence[Group]) -> Answer:
    runs = sum(len(one.points) for one in noisy)
    count = sum(point.sign is Sign.NOISY for one in noisy for point in one.points)
    evidence = f"the reference did not repeat itself in {count} of {_runs(runs)}"
    culprits, more = _stops([one.settings for one in noisy], [one.settings for one in good])
    return Answer(kind=Kind.NOISE, culprits=culprits, evidence=evidence + more)


def _stops(
    wrong: Sequence[Settings], right: Sequence[Settings]
) -> tuple[tuple[tuple[str, ...], ...], str]:
    """Return the knobs whose values make something stop, and the words for it."""
    if not right:
        return (), ""
    box = common_box(wrong, right)
    if not (box.holds and box.knobs) or box.unproven:
        return (), "; it is steady under other settings, but no run shows which knob does it"
    words = " and ".join(_value(box, knob) for knob in box.knobs)
    return (box.knobs,), f"; it takes {words}, and is steady otherwise"


def _values_of(settings: Sequence[Settings]) -> dict[str, set[str]]:
    """Return all values of each knob, by its name, in order."""
    names = sorted({name for one in settings for name in one})
    return {name: {one.get(name, "null") for one in settings} for name in names}


def _value(box: Box, knob: str) -> str:
    return f"{knob}={' or '.join(sorted(box.values[knob]))}"


def _runs(count: int) -> str:
    return "one run" if count == 1 else f"{count} runs"
