"""What holds for some cells, named by their axes: settings they run with, hardware they need."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from vllm_parity.matrix.match import Matcher, matches, read_matcher
from vllm_parity.matrix.platforms import Variable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vllm_parity.matrix.cells import Cell
    from vllm_parity.strict import Table

_REQUIREMENT = r"((reference|candidate|control)\.)?\w+((>=|<=)\d+|==.+)?"
"""A required witness, as :mod:`vllm_parity.judge.witness` reads it."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """vLLM's engine arguments and the variables with which the cells `when` run, and why."""

    when: Matcher
    engine: dict[str, Any]
    variables: dict[str, Variable]
    why: str


@dataclass(frozen=True, kw_only=True)
class Witnesses:
    """What the cells `when` must witness besides what all must, as an observation's `require`."""

    when: Matcher
    require: tuple[str, ...]
    why: str


@dataclass(frozen=True, kw_only=True)
class Requirement:
    """What the cells `when` need of a machine and of vLLM, and why; None needs nothing.

    `architecture` is the least one, such as ``sm_80`` or ``gfx942``; `devices` a number of GPUs;
    `memory_gib` free memory besides what the model is estimated to take; `vllm` the least version;
    `engine_arguments` names that vLLM's `EngineArgs` must have.
    """

    when: Matcher
    why: str
    architecture: str | None = None
    devices: int | None = None
    memory_gib: float | None = None
    vllm: str | None = None
    engine_arguments: tuple[str, ...] = ()


Rule = TypeVar("Rule", Settings, Witnesses, Requirement)


def rules_for(cell: Cell, rules: Iterable[Rule]) -> list[Rule]:
    """Return those of some rules that hold for a cell, in their order."""
    return [rule for rule in rules if matches(cell, rule.when)]


def read_settings(table: Table) -> Settings:
    """Read an entry of ``[[settings]]``."""
    why = table.take("why", str)
    variables = table.table("variables", {})
    settings = Settings(
        when=read_matcher(table.table("when"), finish=True),
        engine=table.table("engine", {}).data,
        variables={
            name: Variable(value=variables.take(name, str), why=why) for name in variables.data
        },
        why=why,
    )
    table.finish()
    return settings


def read_witnesses(table: Table) -> Witnesses:
    """Read an entry of ``[[witnesses]]``."""
    witnesses = Witnesses(
        when=read_matcher(table.table("when"), finish=True),
        require=table.strings("require"),
        why=table.take("why", str),
    )
    if not witnesses.require:
        msg = "require: it is empty, so nothing would be witnessed; name one, or delete the entry"
        raise table.fail(msg)
    for requirement in witnesses.require:
        if not re.fullmatch(_REQUIREMENT, requirement):
            msg = f"require: {requirement!r} is not NAME, NAME>=N, NAME<=N or NAME==VALUE"
            raise table.fail(msg)
    table.finish()
    return witnesses


def read_requirement(table: Table) -> Requirement:
    """Read an entry of ``[[requirements]]``."""
    arguments = table.strings("engine_arguments") if "engine_arguments" in table.data else ()
    requirement = Requirement(
        when=read_matcher(table.table("when"), finish=True),
        why=table.take("why", str),
        architecture=table.take("architecture", str, None),
        devices=table.take("devices", int, None),
        memory_gib=table.take("memory_gib", float, None),
        vllm=table.take("vllm", str, None),
        engine_arguments=arguments,
    )
    table.finish()
    if requirement.vllm and not re.fullmatch(r"\d+(\.\d+)*", requirement.vllm):
        msg = f"vllm = {requirement.vllm!r} must be a version such as '0.26.0'"
        raise table.fail(msg)
    if set(vars(requirement).values()) <= {requirement.when, requirement.why, None, ()}:
        msg = "needs nothing: name an architecture, devices, memory_gib, vllm or engine_arguments"
        raise table.fail(msg)
    return requirement
