"""The environment variables of a cell's processes, each with why it is set."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from vllm_parity.errors import ConfigError
from vllm_parity.matrix.axes import Family
from vllm_parity.matrix.platforms import Variable
from vllm_parity.matrix.rules import rules_for

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vllm_parity.matrix.axes import Platform
    from vllm_parity.matrix.cells import Cell
    from vllm_parity.matrix.load import Matrix
    from vllm_parity.matrix.platforms import PlatformSettings

_OWN = "this cell's own"


def variables_of(
    cell: Cell, matrix: Matrix, platforms: Mapping[Platform, PlatformSettings]
) -> dict[str, Variable]:
    """Return a cell's variables: its platform's, those of a host or server, those of its axes."""
    platform = platforms[cell.platform]
    server = cell.family is Family.STREAMING
    variables = platform.variables | (
        platform.server_variables if server else platform.host_variables
    )
    for settings in rules_for(cell, matrix.settings):
        variables = variables | settings.variables
    own = {name: Variable(value=value, why=_OWN) for name, value in cell.variables.items()}
    return variables | own


def check_variables(variables: Mapping[str, str]) -> None:
    """Refuse a variable that is set here to something else than a cell needs.

    Raises:
        ConfigError: with both values.

    """
    for name, value in variables.items():
        if os.environ.get(name, value) != value:
            msg = (
                f"{name}={os.environ[name]} is set here, but the cells chosen need {name}={value};"
                f" unset it, or change it in configs/ (`vllm-parity plan --explain CELL` says why"
                " it is set)"
            )
            raise ConfigError(msg)
