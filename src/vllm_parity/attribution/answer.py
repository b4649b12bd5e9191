"""What an attribution comes to; see OBSERVATION.md, "Naming a cause"."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Kind(StrEnum):
    """What sort of cause was found."""

    SINGLE = "single"
    """One knob's value decides."""
    INTERACTION = "interaction"
    """Only several knobs together."""
    NONDETERMINISTIC = "nondeterministic"
    """Equal settings disagree."""
    NOISE = "noise"
    """The reference does not repeat itself."""
    NONE = "none"
    """Nothing diverged."""
    UNDETERMINED = "undetermined"
    """What was measured cannot tell."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The cause.

    `culprits` are sets of knobs. Each set brings the divergence by itself; a knob of it alone does
    not. Of a cause that is nondeterministic or noise, it is what makes it stop. `next` is what to
    run where this is undetermined: knobs with their values.
    """

    kind: Kind
    evidence: str
    culprits: tuple[tuple[str, ...], ...] = ()
    next: dict[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return the answer as JSON has it."""
        answer: dict[str, Any] = {
            "kind": self.kind,
            "culprits": [list(knobs) for knobs in self.culprits],
            "evidence": self.evidence,
        }
        return answer | ({"next": self.next} if self.next else {})


def kind_of(culprits: tuple[tuple[str, ...], ...]) -> Kind:
    """Return the kind of a divergence that comes each time, by the sets that bring it."""
    return Kind.INTERACTION if any(len(knobs) > 1 for knobs in culprits) else Kind.SINGLE
