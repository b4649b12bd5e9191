"""The observations below folders, queried in place: which files there are of which cell."""

from __future__ import annotations

import glob
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vllm_parity.errors import ConfigError, ResultsError
from vllm_parity.strict import unknown

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_AT_ONCE = 50
"""So many files are read before any is forgotten: the largest observations have some megabytes."""

_SHOWN = 30

# DuckDB's own reader of JSON gives up at the first file that is none, so the files are read as they
# are, and what is wrong with one stays with it. The writer puts schema and cell first, so that a
# file that was cut off can still be told by its beginning.
_QUERY = r"""
    SELECT
        filename,
        TRY(json_extract_string(
            decode(content), ['$.schema', '$.cell', '$.recorded_at', '$.probe']
        )),
        regexp_extract(
            TRY(decode(content[1:300])),
            '"schema"\s*:\s*"vllm-parity\.observation/[^"]*"\s*,\s*"cell"\s*:\s*"([^"]*)"',
            1
        ),
        md5(content)
    FROM read_blob($files)
    ORDER BY filename
"""
_SCHEMA = "vllm-parity.observation/"


@dataclass(frozen=True, kw_only=True)
class Archive:
    """The observation files below some folders, by cell.

    `probes` and `copies` are how many were left out of each cell: those in which a search for a
    cause had changed settings, and those of which the same is there already. `strangers` are files
    that cannot be read or are no JSON: each may be of the cell whose name it has.
    """

    files: dict[str, list[str]]
    probes: dict[str, int]
    copies: dict[str, int]
    strangers: dict[str, list[str]]

    def of(self, cell: str) -> list[str]:
        """Return the files of a cell, those included that bear its name and cannot be read."""
        return [*self.files.get(cell, ()), *self.strangers.get(cell, ())]


def find_files(names: Sequence[str]) -> list[str]:
    """Return every `*.json` below the folders, each once, in the order of their names.

    Raises:
        ResultsError: where there is no such folder, or a name is nothing that can be written.

    """
    found: dict[Path, str] = {}
    for name in names:
        path = Path(name)
        if not path.exists():
            msg = (
                f"{name}: there is no such folder; name those that hold the records of runs"
                " (results, or where they were fetched to)"
            )
            raise ResultsError(msg)
        for one in sorted(path.rglob("*.json")) if path.is_dir() else [path]:
            if one.is_file():
                found.setdefault(one.resolve(), _utf8(str(one)))
    return list(found.values())


def query(files: Sequence[str]) -> Archive:
    """Return which of the files are observations, and of which cells.

    Raises:
        ResultsError: where the files cannot be queried at all.

    """
    archive = Archive(files={}, probes={}, copies={}, strangers={})
    seen: set[tuple[str, str]] = set()
    # DuckDB shortens a path as it likes, but for one that is as short as can be.
    left = {os.path.realpath(file): file for file in files}
    for path, fields, head, digest in _rows([path for path in left if os.access(path, os.R_OK)]):
        if path not in left or (fields is None and not head):
            continue
        file = left.pop(path)
        schema, cell, recorded_at, probe = fields or (_SCHEMA, head, None, None)
        same = (Path(file).name, digest)
        if cell is None or not (schema or "").startswith(_SCHEMA):
            continue
        if probe is not None:
            archive.probes[cell] = archive.probes.get(cell, 0) + 1
        elif recorded_at is not None and same in seen:
            # Fetched twice, a run is still one run. Without a time two runs may well be equal.
            archive.copies[cell] = archive.copies.get(cell, 0) + 1
        else:
            seen.add(same)
            archive.files.setdefault(cell, []).append(file)
    for file in left.values():
        archive.strangers.setdefault(_named(file), []).append(file)
    return archive


def choose(archive: Archive, word: str, folders: Sequence[str]) -> str:
    """Return the cell with this id, or the only one whose id begins so.

    Raises:
        ConfigError: where there is none, with the nearest, or several, with all of them.

    """
    if archive.of(word) or not word:
        begin = [word] if word else []
    else:
        begin = sorted(cell for cell in archive.files if cell.startswith(word))
    if len(begin) == 1:
        return begin[0]
    if begin:
        more = f" and {len(begin) - _SHOWN} more" if len(begin) > _SHOWN else ""
        listed = f"{', '.join(begin[:_SHOWN])}{more}"
        msg = f"several cells begin with {word!r}: {listed}; give one in full"
        raise ConfigError(msg)
    msg = f"no record in {', '.join(folders)}: {unknown('cell', word, sorted(archive.files))}"
    if archive.probes.get(word):
        msg = (
            f"no record of {word} in {', '.join(folders)} but those of a search for a cause, which"
            " has changed its settings; run the cell itself"
        )
    raise ConfigError(msg)


def _rows(files: Sequence[str]) -> Iterator[tuple[str, list[str | None] | None, str, str]]:
    # It takes a while to import, and no other command needs it.
    import duckdb  # noqa: PLC0415

    # What it needs is built in; it must not look for more on the network.
    config: dict[str, Any] = {
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
    }
    try:
        with duckdb.connect(":memory:", config=config) as connection:
            for start in range(0, len(files), _AT_ONCE):
                names = [_pattern(file) for file in files[start : start + _AT_ONCE]]
                yield from connection.execute(_QUERY, {"files": names}).fetchall()
    except duckdb.Error as error:
        msg = f"the records cannot be searched: {str(error).splitlines()[0]}"
        raise ResultsError(msg) from None


def _pattern(file: str) -> str:
    """Return what stands for this file alone; DuckDB can escape anything but a backslash."""
    return file if "\\" in file else glob.escape(file)


def _utf8(file: str) -> str:
    try:
        file.encode()
    except UnicodeEncodeError:
        msg = f"{file!a}: a name that is not UTF-8; rename it, or name folders without it"
        raise ResultsError(msg) from None
    return file


def _named(file: str) -> str:
    """Return the cell that a file is of by its name; an attempt's has a number behind it."""
    path = Path(file)
    return path.stem.rpartition("-")[0] if path.parent.name == "attempts" else path.stem
