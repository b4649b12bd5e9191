"""Named contracts from ``contracts.toml``: which one holds where, and on what evidence.

The standard library is all this needs, so that a noxfile can read contracts too.
"""

from __future__ import annotations

import datetime
import math
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeVar

from vllm_parity.configs import config_path
from vllm_parity.errors import ConfigError
from vllm_parity.matrix.axes import Dtype, Family, Platform
from vllm_parity.strict import load_toml

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from vllm_parity.strict import Table


T = TypeVar("T")


class Kind(StrEnum):
    """How strictly a contract compares, from strict to loose."""

    BITWISE = "bitwise"
    CLOSE = "close"
    TOKENS = "tokens"
    TEXT = "text"


NUMBERS: dict[Kind, tuple[str, ...]] = {
    Kind.BITWISE: (),
    Kind.CLOSE: ("atol", "rtol", "tie_gap", "min_compared"),
    Kind.TOKENS: ("tie_gap", "min_compared"),
    Kind.TEXT: (),
}
"""The numbers that each kind takes."""

_REQUIRED = {Kind.CLOSE: ("atol", "rtol")}


@dataclass(frozen=True, kw_only=True, slots=True)
class NamedContract:
    """One entry of the file. Family, platform and dtype are None where it holds for any."""

    name: str
    kind: Kind
    why: str
    family: Family | None = None
    platform: Platform | None = None
    dtype: Dtype | None = None
    atol: float | None = None
    rtol: float | None = None
    tie_gap: float | None = None
    min_compared: float | None = None
    measured: str | None = None
    date: datetime.date | None = None
    source: str | None = None

    def as_fields(self) -> dict[str, Any]:
        """Return the `contract` field of an observation: the kind, its numbers, and the name."""
        numbers = {name: getattr(self, name) for name in NUMBERS[self.kind]}
        given = {name: value for name, value in numbers.items() if value is not None}
        return {"kind": self.kind, **given, "name": self.name}

    def fit(self, family: str, platform: str, dtype: str | None) -> int | None:
        """Return how well this entry fits, None where it does not."""
        score = 0
        for mine, asked, weight in (
            (self.platform, platform, 4),
            (self.family, family, 2),
            (self.dtype, dtype, 1),
        ):
            if mine is not None:
                if mine != asked:
                    return None
                score += weight
        return score


@dataclass(frozen=True, slots=True)
class Contracts:
    """Every contract of a file."""

    path: str
    by_name: Mapping[str, NamedContract]

    def find(self, family: str, platform: str, dtype: str | None = None) -> NamedContract:
        """Return the entry that fits best; raise ConfigError where none does."""
        if dtype is not None:
            dtype = dtype.removeprefix("torch.")
        fits = {
            contract: fit
            for contract in self.by_name.values()
            if (fit := contract.fit(family, platform, dtype)) is not None
        }
        if not fits:
            msg = (
                f"{self.path}: no contract fits family {family}, platform {platform} and "
                f"dtype {dtype}; add one, or one without these keys, which fits everything"
            )
            raise ConfigError(msg)
        return max(fits, key=fits.__getitem__)

    def named(self, name: str) -> NamedContract:
        """Return the entry of a name; raise ConfigError, with all names, where there is none."""
        if name not in self.by_name:
            msg = f"{self.path}: no contract {name!r}; there are {', '.join(self.by_name)}"
            raise ConfigError(msg)
        return self.by_name[name]


def load_contracts(path: Path | None = None) -> Contracts:
    """Read a file of contracts, the tool's own by default; raise ConfigError where it is wrong."""
    path = path or config_path("contracts.toml")
    root = load_toml(path)
    by_name: dict[str, NamedContract] = {}
    places: dict[tuple[str | None, ...], str] = {}
    for name, table in root.items():
        contract = by_name[name] = _contract(name, table)
        place = contract.family, contract.platform, contract.dtype
        if place in places:
            # One of the two would never be used.
            msg = f"[{places[place]}] and [{name}] hold for the same family, platform and dtype"
            raise root.fail(msg)
        places[place] = name
    return Contracts(str(path), by_name)


def _contract(name: str, table: Table) -> NamedContract:
    kind = table.enum("kind", Kind)

    required = _REQUIRED.get(kind, ())
    # What is looser than bitwise needs evidence.
    loose = kind is not Kind.BITWISE
    contract = NamedContract(
        name=name,
        kind=kind,
        why=table.take("why", str),
        family=table.enum("family", Family, None),
        platform=table.enum("platform", Platform, None),
        dtype=table.enum("dtype", Dtype, None),
        measured=_text(table, "measured", needed=loose),
        date=_optional(table, "date", datetime.date, needed=loose),
        source=_text(table, "source", needed=loose),
        **{key: _number(table, key, needed=key in required) for key in NUMBERS[kind]},
    )
    table.finish()
    return contract


def _optional(table: Table, key: str, kind: type[T], *, needed: bool) -> T | None:
    return table.take(key, kind) if needed else table.take(key, kind, None)


def _text(table: Table, key: str, *, needed: bool) -> str | None:
    text = _optional(table, key, str, needed=needed)
    if text is not None and not text.strip():
        msg = f"{key} must say something"
        raise table.fail(msg)
    return text


def _number(table: Table, key: str, *, needed: bool) -> float | None:
    value = _optional(table, key, float, needed=needed)
    top = 1.0 if key == "min_compared" else math.inf
    if value is not None and not (math.isfinite(value) and 0 <= value <= top):
        limit = " and at most 1" if top == 1 else ""
        msg = f"{key} = {value!r} must be at least 0{limit}"
        raise table.fail(msg)
    return value
