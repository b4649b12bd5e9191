"""Named contracts from ``contracts.toml``: which one holds where, and on what evidence.

The standard library is all this needs, so that a noxfile can read contracts too.
"""

from __future__ import annotations

import datetime
import math
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vllm_parity.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

FAMILIES = ("batch_invariance", "spec_decode", "streaming")
PLATFORMS = ("cpu", "cuda", "rocm", "other")
NUMBERS = {
    "bitwise": (),
    "close": ("atol", "rtol", "tie_gap", "min_compared"),
    "tokens": ("tie_gap", "min_compared"),
    "text": (),
}
"""The kinds, and the numbers that each takes."""

_REQUIRED = {"close": ("atol", "rtol")}
_EVIDENCE = ("measured", "date", "source")


@dataclass(frozen=True, kw_only=True, slots=True)
class NamedContract:
    """One entry of the file. Family, platform and dtype are None where it holds for any."""

    name: str
    kind: str
    why: str
    family: str | None = None
    platform: str | None = None
    dtype: str | None = None
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


def default_path() -> Path:
    """Return the file that comes with the package, or with the checkout it runs from."""
    here = Path(__file__).resolve().parent
    installed = here / "configs" / "contracts.toml"
    return installed if installed.exists() else here.parents[1] / "configs" / "contracts.toml"


def load_contracts(path: Path | None = None) -> Contracts:
    """Read a file of contracts, the tool's own by default; raise ConfigError where it is wrong."""
    path = path or default_path()
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        msg = f"{path}: cannot be read: {error.strerror}"
        raise ConfigError(msg) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        msg = f"{path}: expected TOML: {error}"
        raise ConfigError(msg) from error
    by_name = {name: _contract(name, entry, f"{path}: [{name}]") for name, entry in table.items()}
    _no_rivals(by_name.values(), path)
    return Contracts(str(path), by_name)


def _contract(name: str, entry: object, place: str) -> NamedContract:
    if not isinstance(entry, dict):
        msg = f"{place}: expected a table with kind and why"
        raise ConfigError(msg)
    kind = _one_of(entry, "kind", tuple(NUMBERS), place)
    _check_keys(entry, kind, place)
    for key, choices in (("family", FAMILIES), ("platform", PLATFORMS)):
        if key in entry:
            _one_of(entry, key, choices, place)
    for key in NUMBERS[kind]:
        _check_number(entry, key, place)
    for key in ("why", "dtype", "measured", "source"):
        if key in entry and not (isinstance(entry[key], str) and entry[key].strip()):
            msg = f"{place}: {key} must be a text that says something, and is {entry[key]!r}"
            raise ConfigError(msg)
    # A datetime is a date to isinstance, and not to a reader.
    if "date" in entry and type(entry["date"]) is not datetime.date:
        msg = f"{place}: date must be a day such as 2026-11-30, and is {entry['date']!r}"
        raise ConfigError(msg)
    return NamedContract(name=name, **entry)


def _check_keys(entry: dict[str, Any], kind: str, place: str) -> None:
    """Check that all that is needed is there, and nothing that is not known."""
    allowed = ("kind", "why", "family", "platform", "dtype", *NUMBERS[kind], *_EVIDENCE)
    for key in entry:
        if key not in allowed:
            known = ", ".join(allowed)
            msg = f"{place}: unknown key {key!r} in a {kind} contract; there are {known}"
            raise ConfigError(msg)
    evidence = () if kind == "bitwise" else _EVIDENCE
    for key in ("why", *_REQUIRED.get(kind, ()), *evidence):
        if key not in entry:
            reason = " as evidence for being looser than bitwise" if key in _EVIDENCE else ""
            msg = f"{place}: a {kind} contract needs {key}{reason}"
            raise ConfigError(msg)


def _one_of(entry: dict[str, Any], key: str, choices: tuple[str, ...], place: str) -> str:
    value = entry.get(key)
    if value not in choices:
        msg = f"{place}: {key} must be one of {', '.join(choices)}, and is {value!r}"
        raise ConfigError(msg)
    return str(value)


def _check_number(entry: dict[str, Any], key: str, place: str) -> None:
    if key not in entry:
        return
    value = entry[key]
    top = 1.0 if key == "min_compared" else math.inf
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not (0 <= value <= top and math.isfinite(value)):
        limit = " and at most 1" if key == "min_compared" else ""
        msg = f"{place}: {key} must be a number of at least 0{limit}, and is {value!r}"
        raise ConfigError(msg)


def _no_rivals(contracts: Iterable[NamedContract], path: Path) -> None:
    """Check that no two entries ask for the same place: one of them would never be used."""
    seen: dict[tuple[str | None, ...], str] = {}
    for contract in contracts:
        place = contract.family, contract.platform, contract.dtype
        if place in seen:
            names = f"[{seen[place]}] and [{contract.name}]"
            msg = f"{path}: {names} hold for the same family, platform and dtype"
            raise ConfigError(msg)
        seen[place] = contract.name
