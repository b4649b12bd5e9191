"""Reading all configuration files at once."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from vllm_parity.contracts import load_contracts
from vllm_parity.errors import ConfigError
from vllm_parity.families.plan import Config
from vllm_parity.matrix import Models, load_matrix, load_platforms
from vllm_parity.waivers import load_waivers

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


def load_config(
    matrix: Path | None = None,
    models: Models = Models.HUB,
    waivers: Path | None = None,
    forced: Mapping[str, Any] | None = None,
) -> Config:
    """Read the matrix (by default the project's own), platforms, models, contracts and waivers.

    Args:
        matrix: another matrix.toml.
        models: whether models of the hub are replaced by the built-in ones that stand in for them.
        waivers: another waivers.toml; with another matrix there are none by default.
        forced: engine arguments that replace those of every cell.

    Raises:
        ConfigError: where one is wrong in itself, or names what another does not have.

    """
    loaded = load_matrix(matrix)
    config = Config(
        matrix=loaded.built_in() if models is Models.BUILT_IN else loaded,
        platforms=load_platforms(),
        contracts=load_contracts(),
        # The project's own waivers are for the project's own matrix, as it is.
        waivers=load_waivers(loaded, waivers) if waivers or not (matrix or forced) else (),
        forced=forced or {},
    )
    for platform in {cell.platform for cell in config.matrix.cells} - config.platforms.keys():
        msg = f"platforms.toml: no table [{platform}], which cells of the matrix need"
        raise ConfigError(msg)
    return config


def read_forced(words: Sequence[str]) -> dict[str, Any]:
    """Read engine arguments that are forced: NAME=VALUE each, the value JSON or a plain word.

    >>> read_forced(["enforce_eager=true", "attention-backend=TRITON_ATTN"])
    {'enforce_eager': True, 'attention_backend': 'TRITON_ATTN'}

    Raises:
        ConfigError: where one is not of that form.

    """
    forced: dict[str, Any] = {}
    for word in words:
        name, sign, text = word.partition("=")
        name = name.replace("-", "_")
        if not (sign and text and name.isidentifier()):
            msg = f"--engine {word}: expected NAME=VALUE, such as max_num_seqs=4"
            raise ConfigError(msg)
        try:
            forced[name] = json.loads(text)
        except ValueError:
            forced[name] = text
    return forced
