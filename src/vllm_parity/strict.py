"""Reading TOML strictly: an unknown key or value names the file, the place and what is allowed.

Only the standard library is used, since the noxfile reads the matrix before anything is installed.
"""

from __future__ import annotations

import datetime
import difflib
import tomllib
from typing import TYPE_CHECKING, Any, TypeVar

from vllm_parity.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from enum import StrEnum
    from pathlib import Path

E = TypeVar("E", bound="StrEnum")
T = TypeVar("T")
D = TypeVar("D")

_MISSING: Any = object()


def load_toml(path: Path) -> Table:
    """Read a TOML file into a :class:`Table`, or say which line is wrong."""
    try:
        with path.open("rb") as stream:
            return Table(tomllib.load(stream), file=str(path))
    except FileNotFoundError:
        msg = f"{path}: no such configuration file"
    except OSError as error:
        msg = f"{path}: cannot be read: {error.strerror}"
    except (ValueError, RecursionError) as error:
        # Besides TOMLDecodeError: bytes that are not UTF-8, numbers of thousands of digits, and
        # thousands of brackets.
        msg = f"{path}: is not TOML: {error}"
    raise ConfigError(msg) from None


class Table:
    """One TOML table, whose keys are taken one by one; :meth:`finish` refuses the rest."""

    def __init__(self, data: dict[str, Any], *, file: str, place: str = "") -> None:
        self.data = data
        self.file = file
        self.place = place
        self._known: list[str] = []

    def fail(self, message: str) -> ConfigError:
        """Return a :class:`ConfigError` that names the file and the place."""
        where = f"{self.file}: {self.place}" if self.place else self.file
        return ConfigError(f"{where}: {message}")

    def take(self, key: str, kind: type[T], default: D = _MISSING) -> T | D:
        """Return the value of `key`, which must be of type `kind`."""
        self._known.append(key)
        if key not in self.data:
            if default is _MISSING:
                msg = f"the key {key!r} is missing"
                raise self.fail(msg)
            return default
        value = self.data[key]
        if kind is float and type(value) is int:
            value = self._as_float(key, value)
        if type(value) is not kind:
            msg = f"{key} = {value!r} must be {_article(kind)}, not {_article(type(value))}"
            raise self.fail(msg)
        return value

    def strings(self, key: str, default: list[Any] = _MISSING) -> tuple[str, ...]:
        """Return a list of strings."""
        values: list[Any] = self.take(key, list, default)
        for value in values:
            if type(value) is not str:
                msg = f"{key} = {values!r} must list strings, not {_article(type(value))}"
                raise self.fail(msg)
        return tuple(values)

    def words(self, key: str) -> tuple[str, ...]:
        """Return one string or a list of strings."""
        return (self.take(key, str),) if type(self.data.get(key)) is str else self.strings(key)

    def enum(self, key: str, kind: type[E], default: D = _MISSING) -> E | D:
        """Return the value of `key` as a member of the axis `kind`."""
        if key not in self.data and default is not _MISSING:
            self._known.append(key)
            return default
        return self._member(key, self.take(key, str), kind)

    def enums(self, key: str, kind: type[E], default: tuple[E, ...] = _MISSING) -> tuple[E, ...]:
        """Return one value or a list of values of the axis `kind`, never an empty list."""
        if key not in self.data and default is not _MISSING:
            self._known.append(key)
            return default
        if isinstance(self.data.get(key), str):
            return (self.enum(key, kind),)
        values = self.take(key, list)
        if not values or len(set(map(str, values))) != len(values):
            msg = f"{key} = {values!r} must list at least one value, each once"
            raise self.fail(msg)
        return tuple(self._member(key, value, kind) for value in values)

    def table(self, key: str, default: dict[str, Any] = _MISSING) -> Table:
        """Return the table under `key`."""
        data: dict[str, Any] = self.take(key, dict, default)
        return Table(data, file=self.file, place=_join(self.place, key))

    def tables(self, key: str, default: list[Any] = _MISSING) -> list[Table]:
        """Return the array of tables under `key`."""
        entries: list[Any] = self.take(key, list, default)
        found = []
        for index, entry in enumerate(entries):
            place = _join(self.place, f"{key}[{index}]")
            if type(entry) is not dict:
                msg = f"must be a table, not {entry!r}"
                raise Table({}, file=self.file, place=place).fail(msg)
            found.append(Table(entry, file=self.file, place=place))
        return found

    def items(self) -> Iterator[tuple[str, Table]]:
        """Return each key with its table, for tables whose keys are names."""
        for key in self.data:
            yield key, self.table(key)

    def finish(self, also: Sequence[str] = ()) -> None:
        """Refuse every key that was not taken; `also` are further ones that would be allowed."""
        for key in self.data:
            if key not in self._known:
                raise self.fail(unknown("key", key, [*self._known, *also]))

    def _as_float(self, key: str, value: int) -> float:
        try:
            return float(value)
        except OverflowError:
            msg = f"{key} must be a number, and is too large for one"
            raise self.fail(msg) from None

    def _member(self, key: str, value: Any, kind: type[E]) -> E:  # noqa: ANN401
        try:
            return kind(value)
        except ValueError:
            msg = f"{key}: {unknown('value', value, list(kind))}"
            raise self.fail(msg) from None


def unknown(what: str, value: object, allowed: Iterable[str], *, shown: int = 30) -> str:
    """Say that `value` is unknown, what is allowed, and what was perhaps meant.

    Where more than `shown` are allowed, their number is said instead.
    """
    names = [str(name) for name in allowed]
    close = difflib.get_close_matches(str(value), names, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    listed = ", ".join(names) if len(names) <= shown else f"{len(names)} of them"
    return f"unknown {what} {value!r}; allowed: {listed or 'none'}{hint}"


def _join(place: str, key: str) -> str:
    return f"{place}.{key}" if place else key


_WORDS: dict[type, str] = {
    str: "a string",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    list: "a list",
    dict: "a table",
    datetime.date: "a date",
}


def _article(kind: type) -> str:
    return _WORDS.get(kind, f"a {kind.__name__}")
