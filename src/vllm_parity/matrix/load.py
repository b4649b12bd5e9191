"""Reading matrix.toml: strictly."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from vllm_parity.configs import config_path
from vllm_parity.matrix.axes import Family, Method, Models, Platform, Tier, Workload
from vllm_parity.matrix.expand import Exclusion, expand
from vllm_parity.matrix.match import Matcher, matches, read_matcher
from vllm_parity.matrix.models import HubModel, load_models
from vllm_parity.matrix.rules import (
    Requirement,
    Rule,
    Settings,
    Witnesses,
    read_requirement,
    read_settings,
    read_witnesses,
)
from vllm_parity.strict import load_toml, unknown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from enum import StrEnum
    from pathlib import Path

    from vllm_parity.matrix.cells import Cell
    from vllm_parity.matrix.models import ModelSpec
    from vllm_parity.strict import Table

E = TypeVar("E", bound="StrEnum")


@dataclass(frozen=True, kw_only=True)
class WorkloadSize:
    """How many prompts, and the tokens of the shortest and of the longest."""

    requests: int
    shortest: int
    longest: int


@dataclass(frozen=True, kw_only=True)
class FamilySettings:
    """What holds for all cells of a family, on both arms.

    `brief` is the `summary` in a few words. `engine` are vLLM's engine arguments; `sampling` maps a
    name to vLLM's sampling parameters: every prompt is sent once with each. `methods` are vLLM's
    `speculative_config`s by method. `workloads` are the sizes of batches of text.
    """

    summary: str
    brief: str
    engine: dict[str, Any]
    sampling: dict[str, dict[str, Any]]
    methods: dict[str, dict[str, Any]]
    workloads: dict[str, WorkloadSize]


@dataclass(frozen=True, kw_only=True)
class TierSettings:
    """What a tier is for, and the minutes that it may take on each platform that has it."""

    purpose: str
    minutes: dict[Platform, int]


@dataclass(frozen=True, kw_only=True)
class Matrix:
    """All of matrix.toml, cells in the order of the file."""

    tiers: dict[Tier, TierSettings]
    families: dict[Family, FamilySettings]
    cells: tuple[Cell, ...]
    exclusions: tuple[Exclusion, ...]
    settings: tuple[Settings, ...]
    witnesses: tuple[Witnesses, ...]
    requirements: tuple[Requirement, ...]
    models: Mapping[str, ModelSpec]

    def built_in(self) -> Matrix:
        """Return the matrix with a built-in model in place of each of the hub that has one.

        Cells that are the same then become one, in the smallest of their tiers.
        """
        return replace(self, cells=_built_in(self.cells, self.models))


def load_matrix(path: Path | None = None, models: Mapping[str, ModelSpec] | None = None) -> Matrix:
    """Read matrix.toml (the project's own by default), and models.toml where `models` is None.

    Raises:
        ConfigError: with the file, the place and the allowed values where anything is wrong.

    """
    models = load_models() if models is None else models
    root = load_toml(path or config_path("matrix.toml"))
    tiers = root.table("tiers")
    picks: list[tuple[Tier, Matcher, Table]] = []
    tier_settings = {tier: _tier(tier, table, picks) for tier, table in _named(tiers, Tier)}
    families = {
        family: _family(family, table) for family, table in _named(root.table("families"), Family)
    }
    exclusions: list[Exclusion] = []
    cells: dict[str, Cell] = {}
    for table in root.tables("cells"):
        for cell in expand(table, models, exclusions):
            if cell.id in cells:
                msg = f"the cell {cell.id} is there already"
                raise table.fail(msg)
            if cell.family not in families:
                msg = f"the cell {cell.id} needs a table [families.{cell.family}]"
                raise table.fail(msg)
            if cell.method and cell.method not in families[cell.family].methods:
                needed = f"families.{cell.family}.methods.{cell.method}"
                msg = f"the cell {cell.id} needs a table [{needed}]"
                raise table.fail(msg)
            if cell.workload and cell.workload not in families[cell.family].workloads:
                needed = f"families.{cell.family}.workloads.{cell.workload}"
                msg = f"the cell {cell.id} needs a table [{needed}]"
                raise table.fail(msg)
            cells[cell.id] = cell
    picked = tuple(_picked(list(cells.values()), picks))
    known = (*picked, *_built_in(picked, models))
    matrix = Matrix(
        tiers=tier_settings,
        families=families,
        cells=picked,
        exclusions=tuple(exclusions),
        settings=tuple(_rules(root, "settings", read_settings, known)),
        witnesses=tuple(_rules(root, "witnesses", read_witnesses, known)),
        requirements=tuple(_rules(root, "requirements", read_requirement, known)),
        models=models,
    )
    root.finish()
    return matrix


def _built_in(cells: Iterable[Cell], models: Mapping[str, ModelSpec]) -> tuple[Cell, ...]:
    found: dict[str, Cell] = {}
    for cell in cells:
        model = models[cell.model]
        if isinstance(model, HubModel) and model.built_in:
            new = replace(cell, model=model.built_in, models=Models.BUILT_IN)
        else:
            new = cell
        known = found.get(new.id, new)
        found[new.id] = replace(known, tier=min(known.tier, new.tier, key=list(Tier).index))
    return tuple(found.values())


def _rules(
    root: Table, key: str, read: Callable[[Table], Rule], cells: Sequence[Cell]
) -> Iterator[Rule]:
    """Read the rules of one kind; one that holds for no cell would be forgotten unseen."""
    for table in root.tables(key, []):
        rule = read(table)
        if not any(matches(cell, rule.when) for cell in cells):
            msg = "when: no cell is named by this; correct it, or delete the entry"
            raise table.fail(msg)
        yield rule


def _named(table: Table, kind: type[E]) -> Iterable[tuple[E, Table]]:
    for key, entry in table.items():
        if key not in list(kind):
            raise table.fail(unknown(kind.__name__.lower(), key, list(kind)))
        yield kind(key), entry


def _tier(tier: Tier, table: Table, picks: list[tuple[Tier, Matcher, Table]]) -> TierSettings:
    minutes = table.table("minutes")
    settings = TierSettings(
        purpose=table.take("purpose", str),
        minutes={
            Platform(name): minutes.take(name, int) for name in Platform if name in minutes.data
        },
    )
    minutes.finish(list(Platform))
    entries = table.tables("cells", [])
    picks.extend((tier, read_matcher(entry, finish=True), entry) for entry in entries)
    table.finish()
    return settings


def _picked(cells: list[Cell], picks: list[tuple[Tier, Matcher, Table]]) -> list[Cell]:
    """Put each cell into the smallest tier that names it; `full` names all."""
    for tier, matcher, table in sorted(picks, key=lambda pick: list(Tier).index(pick[0])):
        found = False
        for index, cell in enumerate(cells):
            if matches(cell, matcher):
                found = True
                if not cell.is_in(tier):
                    cells[index] = replace(cell, tier=tier)
        if not found:
            msg = "no cell is named by this"
            raise table.fail(msg)
    return cells


def _family(family: Family, table: Table) -> FamilySettings:
    settings = FamilySettings(
        summary=table.take("summary", str),
        brief=table.take("brief", str),
        engine=table.table("engine").data,
        sampling={
            name: _sampling(family, entry) for name, entry in table.table("sampling").items()
        },
        methods={key: entry.data for key, entry in _named(table.table("methods", {}), Method)},
        workloads={
            key: _workload(entry) for key, entry in _named(table.table("workloads", {}), Workload)
        },
    )
    table.finish()
    return settings


def _workload(table: Table) -> WorkloadSize:
    size = WorkloadSize(
        requests=table.take("requests", int),
        shortest=table.take("shortest", int),
        longest=table.take("longest", int),
    )
    if not (size.requests >= 2 and 1 <= size.shortest <= size.longest):
        msg = "at least 2 requests, of shortest to longest tokens, 1 or more"
        raise table.fail(msg)
    table.finish()
    return size


def _sampling(family: Family, table: Table) -> dict[str, Any]:
    """Return sampling parameters; without a limit nobody could say that an answer is short."""
    table.take("max_completion_tokens" if family is Family.STREAMING else "max_tokens", int)
    return table.data
