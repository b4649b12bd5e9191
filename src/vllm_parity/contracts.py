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
from vllm_parity.matrix.axes import Dtype, Execution, Family, Platform, Switch
from vllm_parity.strict import load_toml

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from vllm_parity.matrix.cells import Cell
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

_PRECISION = {Dtype.FLOAT32: 24, Dtype.BFLOAT16: 8, Dtype.FLOAT16: 11}
"""Bits of the significand, with the one that is not stored (IEEE 754; bfloat16 has 8)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """Where in the matrix a contract is looked for; None is not known, or no such axis."""

    family: str
    platform: str
    dtype: str | None = None
    batch_invariant: str | None = None
    execution: str | None = None


_WEIGHTS = {"execution": 16, "batch_invariant": 8, "platform": 4, "family": 2, "dtype": 1}
"""The axes of a place, and how much an entry that names one fits better: more than all below it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NamedContract:
    """One entry of the file.

    Family, platform, dtype, batch-invariant mode and execution are None where it holds for any.
    `atol` may have been given as a number of `steps`; see :func:`logit_step`.
    """

    name: str
    kind: Kind
    why: str
    family: Family | None = None
    platform: Platform | None = None
    dtype: Dtype | None = None
    batch_invariant: Switch | None = None
    execution: Execution | None = None
    steps: float | None = None
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

    def fit(self, place: Place) -> int | None:
        """Return how well this entry fits, None where it does not."""
        score = 0
        for axis, weight in _WEIGHTS.items():
            mine = getattr(self, axis)
            if mine is not None:
                if mine != getattr(place, axis):
                    return None
                score += weight
        return score


@dataclass(frozen=True, slots=True)
class Contracts:
    """Every contract of a file."""

    path: str
    by_name: Mapping[str, NamedContract]

    def find(self, place: Place) -> NamedContract:
        """Return the entry that fits best; raise ConfigError where none does."""
        fits = {
            contract: fit
            for contract in self.by_name.values()
            if (fit := contract.fit(place)) is not None
        }
        if not fits:
            msg = (
                f"{self.path}: no contract fits family {place.family}, platform {place.platform}"
                f" and dtype {place.dtype}; add one, or one without these keys, which fits"
                " everything"
            )
            raise ConfigError(msg)
        return max(fits, key=fits.__getitem__)

    def of(self, cell: Cell) -> NamedContract:
        """Return the entry that a cell is judged by."""
        return self.find(Place(**{axis: getattr(cell, axis) for axis in _WEIGHTS}))

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
        place = tuple(getattr(contract, axis) for axis in _WEIGHTS)
        if place in places:
            # One of the two would never be used.
            msg = f"[{places[place]}] and [{name}] hold for the same cells"
            raise root.fail(msg)
        places[place] = name
    return Contracts(str(path), by_name)


def logit_step(dtype: Dtype, below: float) -> float:
    """Return how far apart two neighbours of a dtype are, in the binade that ends at `below`.

    A logit is rounded to the model's dtype, so that what differs in its last bit differs by this,
    and so does its logprob. Numbers from 2^(e-1) to 2^e are 2^(e-p) apart, with p bits of
    significand.

    >>> logit_step(Dtype.BFLOAT16, 16.0)
    0.0625
    """
    return below * 2.0 ** -_PRECISION[dtype]


def _steps(table: Table, dtype: Dtype | None) -> tuple[float | None, float | None]:
    """Take `steps` and `logits_below`, where they stand for `atol`; return it, and the steps."""
    if "steps" not in table.data:
        return None, None
    steps, below = _number(table, "steps", needed=True), table.take("logits_below", float)
    if dtype is None or "atol" in table.data or math.frexp(below)[0] != 0.5:
        msg = "steps: needs a dtype, a power of two as logits_below, and no atol beside it"
        raise table.fail(msg)
    return (steps or 0.0) * logit_step(dtype, below), steps


def _contract(name: str, table: Table) -> NamedContract:
    kind = table.enum("kind", Kind)
    dtype = table.enum("dtype", Dtype, None)
    atol, steps = _steps(table, dtype)
    required = () if steps is not None else _REQUIRED.get(kind, ())
    numbers = {key: _number(table, key, needed=key in required) for key in NUMBERS[kind]}
    if steps is not None:
        if kind is not Kind.CLOSE:
            msg = f"steps: {kind} has no atol that they could stand for"
            raise table.fail(msg)
        numbers |= {"atol": atol, "rtol": numbers["rtol"] or 0.0}
    # What is looser than bitwise needs evidence.
    loose = kind is not Kind.BITWISE
    contract = NamedContract(
        name=name,
        kind=kind,
        why=table.take("why", str),
        family=table.enum("family", Family, None),
        platform=table.enum("platform", Platform, None),
        dtype=dtype,
        batch_invariant=table.enum("batch_invariant", Switch, None),
        execution=table.enum("execution", Execution, None),
        steps=steps,
        measured=_text(table, "measured", needed=loose),
        date=_optional(table, "date", datetime.date, needed=loose),
        source=_text(table, "source", needed=loose),
        **numbers,
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
