"""Reading suspects.toml: the knobs that may be to blame, as data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from vllm_parity.configs import config_path
from vllm_parity.matrix.match import AXES, Matcher, matches, read_matcher
from vllm_parity.strict import load_toml, unknown

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from vllm_parity.matrix import Cell
    from vllm_parity.strict import Table


@dataclass(frozen=True, kw_only=True)
class Suspect:
    """One knob, with its other value; see suspects.toml.

    `axes` maps fields of a cell to values; `engine`, `speculative` and `variables` are as vLLM
    takes them. `moves` are the knobs by which a record shows it, the one that names it first.
    """

    name: str
    why: str
    when: Matcher
    moves: tuple[str, ...]
    axes: Mapping[str, Any] = field(default_factory=dict)
    engine: Mapping[str, Any] = field(default_factory=dict)
    speculative: Mapping[str, Any] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)

    @property
    def knob(self) -> str:
        """The effective knob that names it in an answer."""
        return self.moves[0]

    @property
    def other(self) -> str:
        """The other value, in words."""
        values = {**self.axes, **self.engine, **self.speculative, **self.variables}
        return ", ".join(f"{name}={shown_value(value)}" for name, value in values.items())


def load_suspects(path: Path | None = None) -> tuple[Suspect, ...]:
    """Read suspects.toml, by default the project's own.

    Raises:
        ConfigError: with the file, the place and the allowed values where anything is wrong.

    """
    root = load_toml(path or config_path("suspects.toml"))
    found = tuple(_suspect(table) for table in root.tables("suspects"))
    root.finish()
    if not found:
        msg = "suspects: it is empty, so nothing could be to blame"
        raise root.fail(msg)
    return found


def suspects_of(cell: Cell, suspects: tuple[Suspect, ...]) -> list[Suspect]:
    """Return the suspects in a cell, each name once: the first entry that holds."""
    found: dict[str, Suspect] = {}
    for suspect in suspects:
        if matches(cell, suspect.when):
            found.setdefault(suspect.name, suspect)
    return [one for one in found.values() if not _is_other_already(cell, one)]


def _is_other_already(cell: Cell, suspect: Suspect) -> bool:
    """Whether all of it is an axis, and has the other value in the cell."""
    others = (suspect.engine, suspect.speculative, suspect.variables)
    return not any(others) and all(
        getattr(cell, name) == value for name, value in suspect.axes.items()
    )


def _suspect(table: Table) -> Suspect:
    variables = table.table("variables", {})
    suspect = Suspect(
        name=table.take("name", str),
        why=table.take("why", str),
        when=read_matcher(table.table("when"), finish=True),
        moves=table.strings("moves"),
        axes=_axes(table.table("axes", {})),
        engine=table.table("engine", {}).data,
        speculative=table.table("speculative", {}).data,
        variables={name: variables.take(name, str) for name in variables.data},
    )
    table.finish()
    if not (suspect.axes or suspect.engine or suspect.speculative or suspect.variables):
        msg = "has no other value: name axes, engine, speculative or variables"
        raise table.fail(msg)
    if not suspect.moves:
        msg = "moves: it is empty, so no record would show the knob"
        raise table.fail(msg)
    return suspect


def _axes(table: Table) -> dict[str, Any]:
    for name in table.data:
        if name not in AXES:
            raise table.fail(unknown("axis", name, AXES))
    return {name: table.enum(name, AXES[name]) for name in table.data}


def shown_value(value: object) -> str:
    """Return a value as TOML has it, text without quotes."""
    return str(value).lower() if isinstance(value, bool) else str(value)
