"""Strict TOML: every mistake is a ConfigError that names file, place and what is allowed."""

from __future__ import annotations

import datetime
import tomllib
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from vllm_parity.errors import ConfigError
from vllm_parity.strict import Table, load_toml, unknown

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class Color(StrEnum):
    RED = "red"
    GREEN = "green"


def table(text: str) -> Table:
    return Table(tomllib.loads(text), file="x.toml", place="here")


# Taking values


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("a = 'b'", str, "b"),
        ("a = 1", int, 1),
        ("a = true", bool, True),
        ("a = 0.5", float, 0.5),
        ("a = 2", float, 2.0),
        ("a = [1, 2]", list, [1, 2]),
        ("a.b = 1", dict, {"b": 1}),
    ],
)
def test_value_of_the_right_kind_is_taken(text: str, kind: type[Any], value: Any) -> None:
    taken = table(text).take("a", kind)
    assert (taken, type(taken)) == (value, kind)


@pytest.mark.parametrize(
    ("text", "kind", "words"),
    [
        ("a = true", int, "a = True must be a whole number, not true or false"),
        ("a = 1.0", int, "a = 1.0 must be a whole number, not a number"),
        ("a = true", float, "a = True must be a number, not true or false"),
        ("a = 1", bool, "a = 1 must be true or false, not a whole number"),
        ("a = 1", str, "a = 1 must be a string, not a whole number"),
        ("a = 'b'", list, "a = 'b' must be a list, not a string"),
        ("a = []", dict, "a = [] must be a table, not a list"),
        ("a = 2026-11-30", str, "must be a string, not a date"),
        (f"a = 1{'0' * 400}", float, "a must be a number, and is too large for one"),
        ("b = 1", int, "the key 'a' is missing"),
    ],
)
def test_value_of_another_kind_is_refused(text: str, kind: type[Any], words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        table(text).take("a", kind)
    assert str(caught.value).startswith("x.toml: here: ")
    assert str(caught.value).endswith(words)


def test_default_serves_only_where_the_key_is_missing() -> None:
    assert table("").take("a", int, 7) == 7
    assert table("a = 1").take("a", int, 7) == 1


def test_strings_are_all_strings() -> None:
    assert table("a = ['3.11', '3.12']").strings("a") == ("3.11", "3.12")
    with pytest.raises(ConfigError, match=r"must list strings, not a number"):
        table("a = ['3.11', 3.12]").strings("a")


def test_enum_members() -> None:
    assert table("a = 'red'").enum("a", Color) is Color.RED
    assert table("").enum("a", Color, Color.GREEN) is Color.GREEN
    assert table("a = 'red'").enums("a", Color) == (Color.RED,)
    assert table("a = ['green', 'red']").enums("a", Color) == (Color.GREEN, Color.RED)
    assert table("").enums("a", Color, (Color.RED,)) == (Color.RED,)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a = 'gren'", "unknown value 'gren'; allowed: red, green; did you mean 'green'?"),
        ("a = ['red', 'blau']", "unknown value 'blau'; allowed: red, green"),
        ("a = [1]", "unknown value 1; allowed: red, green"),
        ("a = [['red']]", "unknown value ['red']; allowed: red, green; did you mean 'red'?"),
        ("a = []", "a = [] must list at least one value, each once"),
        ("a = ['red', 'red']", "must list at least one value, each once"),
        ("a = 1", "a = 1 must be a list, not a whole number"),
        ("", "the key 'a' is missing"),
    ],
)
def test_no_enum_member(text: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        table(text).enums("a", Color)
    assert words in str(caught.value)


def test_places_nest() -> None:
    inner = table("[[a]]\n[[a]]\nb.c = 1").tables("a")[1].table("b")
    with pytest.raises(ConfigError, match=r"^x\.toml: here\.a\[1\]\.b: the key 'd' is missing$"):
        inner.take("d", int)


def test_array_of_tables_holds_tables() -> None:
    with pytest.raises(ConfigError, match=r"^x\.toml: here\.a\[0\]: must be a table, not 1$"):
        table("a = [1]").tables("a")


def test_items_are_tables_by_name() -> None:
    assert {key: entry.data for key, entry in table("a.x = 1\nb.y = 2").items()} == {
        "a": {"x": 1},
        "b": {"y": 2},
    }
    with pytest.raises(ConfigError, match="a = 1 must be a table"):
        list(table("a = 1").items())


def test_finish_refuses_what_was_not_taken() -> None:
    entry = table("seed = 1\nsead = 2")
    entry.take("seed", int)
    entry.enum("color", Color, Color.RED)
    entry.enums("colors", Color, (Color.RED,))
    with pytest.raises(ConfigError) as caught:
        entry.finish()
    assert str(caught.value) == (
        "x.toml: here: unknown key 'sead'; allowed: seed, color, colors; did you mean 'seed'?"
    )


def test_finish_is_content_where_all_was_taken() -> None:
    entry = table("seed = 1")
    entry.take("seed", int)
    entry.finish()


def test_default_of_an_enum_does_not_excuse_a_wrong_value() -> None:
    with pytest.raises(ConfigError, match="unknown value 'blau'"):
        table("a = 'blau'").enum("a", Color, Color.RED)
    with pytest.raises(ConfigError, match="unknown value 'blau'"):
        table("a = ['blau']").enums("a", Color, (Color.RED,))


def test_unknown_with_nothing_allowed() -> None:
    assert unknown("tier", "x", []) == "unknown tier 'x'; allowed: none"


_SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from(["", "red", "rad", 10**400, datetime.date(2026, 11, 30), datetime.time(1)])
)
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner),
    max_leaves=8,
)
_READERS: dict[str, Callable[[Table], object]] = {
    "str": lambda entry: entry.take("a", str),
    "int": lambda entry: entry.take("a", int),
    "float": lambda entry: entry.take("a", float),
    "enum": lambda entry: entry.enum("a", Color),
    "enums": lambda entry: entry.enums("a", Color),
    "strings": lambda entry: entry.strings("a"),
    "table": lambda entry: entry.table("a").table("b"),
    "tables": lambda entry: entry.tables("a"),
    "items": lambda entry: list(entry.items()),
    "finish": lambda entry: entry.finish(),
}


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(
    reader=st.sampled_from(list(_READERS)), data=st.dictionaries(st.sampled_from("abc"), _VALUES)
)
def test_whatever_is_in_it_only_config_errors_come_out(reader: str, data: dict[str, Any]) -> None:
    try:
        _READERS[reader](Table(data, file="x.toml"))
    except ConfigError as error:
        assert str(error).startswith("x.toml: ")  # noqa: PT017 - most draws raise nothing


# Reading files


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"a = = 1", "is not TOML: Invalid value (at line 1, column 5)"),
        (b"a = '\xff'", "is not TOML: 'utf-8' codec can't decode byte 0xff"),
        (b"a = " + b"1" * 5000, "is not TOML: Exceeds the limit"),
        (b"a = " + b"[" * 5000, "is not TOML: "),
    ],
    ids=["syntax", "bytes", "digits", "brackets"],
)
def test_file_that_is_not_toml(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "x.toml"
    path.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        load_toml(path)
    assert str(caught.value).startswith(f"{path}: {words}")


def test_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"x\.toml: no such configuration file$"):
        load_toml(tmp_path / "x.toml")


def test_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r": cannot be read: Is a directory$"):
        load_toml(tmp_path)


def test_file_that_is_fine(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_text("a = 1\n", encoding="utf-8")
    assert load_toml(path).take("a", int) == 1
