"""The options that choose cells: the same words for pytest, the command line and nox."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vllm_parity.errors import ConfigError
from vllm_parity.matrix.axes import Execution, Family, Models, Platform, Switch, Tier
from vllm_parity.matrix.select import Selection
from vllm_parity.strict import unknown

if TYPE_CHECKING:
    from collections.abc import Sequence
    from enum import StrEnum

AXIS_OPTIONS: dict[str, type[StrEnum]] = {
    "--platform": Platform,
    "--tier": Tier,
    "--family": Family,
    "--execution": Execution,
    "--prefix-cache": Switch,
}
"""Options whose values are those of an axis."""


def add_selection_options(add: Any) -> None:  # noqa: ANN401 - argparse's or pytest's
    """Add the options that choose cells; `add` is `add_argument` or `addoption`."""
    for name, kind in AXIS_OPTIONS.items():
        add(name, metavar="NAME", help=f"cells of this {name[2:]}: {', '.join(kind)}")
    add(
        "--cell",
        action="append",
        default=[],
        metavar="PATTERN",
        help="cells with this id or pattern, such as '*-image-*'; may be given several times",
    )
    add_source_options(add)


def add_source_options(add: Any) -> None:  # noqa: ANN401 - as above
    """Add the options that say where cells come from, and for which machine."""
    add("--matrix", type=Path, help="a matrix.toml other than the project's own")
    add(
        "--models",
        metavar="NAME",
        default=Models.HUB.value,
        help="hub: each cell's own model; built-in: tiny ones in place of those of the hub",
    )
    add("--machine", type=Path, help="take this record (of `vllm-parity doctor --json`) for here")


def add_run_options(add: Any) -> None:  # noqa: ANN401 - as above
    """Add the options that say how cells are run, and where their records go."""
    add(
        "--engine",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="force an engine argument of vLLM on both arms; the value is JSON, or a word",
    )
    add(
        "--results", type=Path, default=Path("results"), help="folder of records (default: results)"
    )


def read_selection(options: Any) -> Selection:  # noqa: ANN401 - a namespace of either
    """Return what the options choose.

    Raises:
        ConfigError: with the option and the allowed values where one is unknown.

    """
    return Selection(
        platform=read_axis("--platform", options.platform, Platform),
        tier=read_axis("--tier", options.tier, Tier),
        family=read_axis("--family", options.family, Family),
        execution=read_axis("--execution", options.execution, Execution),
        prefix_cache=read_axis("--prefix-cache", options.prefix_cache, Switch),
        cells=tuple(options.cell),
    )


def read_axis(option: str, value: str | None, kind: Any) -> Any:  # noqa: ANN401 - a StrEnum
    """Return the value of an option as a member of an axis, or None where it was not given."""
    if value is None or value in list(kind):
        return None if value is None else kind(value)
    msg = f"{option}: {unknown('value', value, list(kind))}"
    raise ConfigError(msg)


def split_option(name: str, arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Take an option and its value out of a command line; return these, and the rest.

    >>> split_option("--vllm", ["-x", "--vllm=0.26.0"])
    (['--vllm', '0.26.0'], ['-x'])
    """
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, usage=argparse.SUPPRESS)
    parser.add_argument(name, dest="value")
    known, rest = parser.parse_known_args(arguments)
    return ([name, known.value] if known.value else []), rest
