"""Did it happen at all? What a cell claims must have been counted at run time."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from vllm_parity.errors import FormatError
from vllm_parity.judge.findings import Code

if TYPE_CHECKING:
    from vllm_parity.judge.tally import Tally
    from vllm_parity.schema import Arms, Observation

_GRAMMAR = re.compile(
    r"(?:(?P<arm>reference|candidate|control)\.)?(?P<name>[^\s<>=]+)"
    r"(?:\s*(?P<sign>>=|<=|==)\s*(?P<value>.+?))?\s*",
    re.DOTALL,
)
_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?([eE][+-]?\d+)?", re.ASCII)


@dataclass(frozen=True, kw_only=True, slots=True)
class Requirement:
    """One witness that an arm must show.

    >>> parse_requirement("reference.graph_replays>=28")
    Requirement(arm='reference', name='graph_replays', sign='>=', value='28')
    >>> parse_requirement("graph_replays").holds(0)
    False
    """

    arm: str
    name: str
    sign: str | None
    value: str

    def holds(self, witness: object) -> bool:
        """Say whether a witness, None where there is none, is what is required."""
        if self.sign == "==":
            return witness is not None and as_text(witness) == self.value
        if isinstance(witness, bool):
            return witness and self.sign is None
        if not isinstance(witness, int | float):
            return False
        if self.sign == ">=":
            return witness >= float(self.value)
        if self.sign == "<=":
            return witness <= float(self.value)
        return witness > 0


def parse_requirement(text: str) -> Requirement:
    """Read a requirement; raise FormatError with the grammar where it is none."""
    match = _GRAMMAR.fullmatch(text)
    sign = match and match["sign"]
    if match is None or (sign in {">=", "<="} and not _NUMBER.fullmatch(match["value"])):
        msg = (
            f"at $.require: expected NAME, NAME>=NUMBER, NAME<=NUMBER or NAME==VALUE, "
            f"with reference. or control. before it or not, got {text!r}"
        )
        raise FormatError(msg)
    arm, name, value = match["arm"] or "candidate", match["name"], match["value"] or ""
    return Requirement(arm=arm, name=name, sign=sign, value=value)


def check_witnesses(observation: Observation, tally: Tally) -> None:
    """Check every witness that the observation requires."""
    arms: Arms = observation.arms
    for text in observation.require:
        requirement = parse_requirement(text)
        arm = getattr(arms, requirement.arm)
        witness = None if arm is None else arm.witness.get(requirement.name)
        if not requirement.holds(witness):
            shown = "not there" if witness is None else as_text(witness)
            message = f"{text} is required of the {requirement.arm}, and it is {shown}"
            tally.add(Code.WITNESS, message)


def as_text(value: object) -> str:
    """Return a witness as the text that `==` compares: JSON's, a string without its quotes."""
    try:
        return value if isinstance(value, str) else msgspec.json.encode(value).decode()
    except RecursionError:
        return "something nested very deeply"
