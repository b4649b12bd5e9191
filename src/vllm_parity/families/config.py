"""Reading all configuration files at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vllm_parity.configs import config_path
from vllm_parity.contracts import load_contracts
from vllm_parity.errors import ConfigError
from vllm_parity.families.plan import Config
from vllm_parity.matrix import load_matrix, load_platforms
from vllm_parity.models import find_model, load_models

if TYPE_CHECKING:
    from pathlib import Path


def load_config(matrix: Path | None = None) -> Config:
    """Read the matrix (by default the project's own), platforms and models, and hold them together.

    Raises:
        ConfigError: where one is wrong in itself, or names what another does not have.

    """
    config = Config(
        matrix=load_matrix(matrix),
        platforms=load_platforms(),
        models=load_models(),
        contracts=load_contracts(),
    )
    file = matrix or config_path("matrix.toml")
    for cell in config.matrix.cells:
        try:
            model = find_model(cell.model, config.models)
        except ConfigError as error:
            msg = f"{file}: the cell {cell.id}: {error}"
            raise ConfigError(msg) from None
        if cell.medium not in list(model.modalities):
            takes = ", ".join(model.modalities)
            msg = f"{file}: the cell {cell.id}: {cell.model} takes {takes}, not {cell.medium}"
            raise ConfigError(msg)
        if cell.platform not in config.platforms:
            msg = f"platforms.toml: no table [{cell.platform}], which the cell {cell.id} needs"
            raise ConfigError(msg)
    return config
