"""Every way to change one field of a JSON document."""

from __future__ import annotations

import copy
import struct
from collections.abc import Iterator
from typing import Any

Path = tuple[str | int, ...]


def mutations(document: Any) -> Iterator[tuple[Path, str, Any]]:
    """Return each change of one field: where, what, and the changed document."""
    for path, value in walk(document):
        for name, change in changes(value):
            changed = copy.deepcopy(document)
            parent = at(changed, path[:-1])
            parent[path[-1]] = copy.deepcopy(change)
            yield path, name, changed
        changed = copy.deepcopy(document)
        del at(changed, path[:-1])[path[-1]]
        yield path, "drop", changed


def walk(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Return every field of a document and its value, but for the document itself."""
    if path:
        yield path, value
    if isinstance(value, dict):
        items: Any = value.items()
    else:
        items = enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from walk(item, (*path, key))


def at(document: Any, path: Path) -> Any:
    """Return the value at a path."""
    for key in path:
        document = document[key]
    return document


def changes(value: Any) -> Iterator[tuple[str, Any]]:
    """Return every change of one value, with its name."""
    if value is not None:
        yield "null", None
    for name, other in (("a text", "x"), ("a list", [7]), ("an object", {"x": 7}), ("7", 7)):
        if type(other) is not type(value):
            yield f"type: {name}", other
    if isinstance(value, bool):
        yield "bit", not value
    elif isinstance(value, int):
        yield "bit", value ^ 1
    elif isinstance(value, float):
        (bits,) = struct.unpack("<I", struct.pack("<f", value))
        yield "bit", struct.unpack("<f", struct.pack("<I", bits ^ 1))[0]
    elif isinstance(value, str):
        yield "bit", value[:-1] + chr(ord(value[-1:] or "b") ^ 1)
    elif isinstance(value, list):
        yield from list_changes(value)
    elif isinstance(value, dict):
        yield from dict_changes(value)


def list_changes(value: list[Any]) -> Iterator[tuple[str, Any]]:
    """Return every change of a list as such."""
    if len(value) > 1 and value[0] != value[1]:
        yield "swap", [value[1], value[0], *value[2:]]
    if len(value) > 2 and value != value[::-1]:
        yield "reverse", value[::-1]
    if value:
        yield "truncate", value[:-1]
        yield "duplicate", [*value, value[-1]]


def dict_changes(value: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Return every change of an object as such."""
    keys = list(value)
    if len(keys) > 1:
        yield "reorder", dict(reversed(value.items()))
        if value[keys[0]] != value[keys[-1]]:
            yield "swap", {**value, keys[0]: value[keys[-1]], keys[-1]: value[keys[0]]}
    for key in keys:
        yield f"rename {key}", {(f"{k}0" if k == key else k): v for k, v in value.items()}
