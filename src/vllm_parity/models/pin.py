"""Pinning models: the hash of made weights, the revision of a model of the hub, in models.toml."""

from __future__ import annotations

import hashlib
import os
import re
from typing import TYPE_CHECKING

from vllm_parity.errors import ConfigError, ModelError
from vllm_parity.matrix.models import HubModel
from vllm_parity.models.blueprint import blueprint

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from vllm_parity.matrix.models import ModelSpec


def pin(path: Path, chosen: Sequence[ModelSpec], models: Mapping[str, ModelSpec]) -> list[str]:
    """Write the pins of models into models.toml; return a line for each.

    Raises:
        ConfigError: where the file has no such table.
        ModelError: where the hub does not answer, or the file cannot be written.

    """
    text, lines = path.read_text(encoding="utf-8"), []
    for model in chosen:
        if isinstance(model, HubModel):
            key, found, was = "revision", _newest_revision(model), model.revision
        else:
            key, was = "sha256", model.sha256
            found = hashlib.sha256(blueprint(model, models).weights()).hexdigest()
        text = _with_value(text, model.name, key, found)
        lines.append(f"{model.name:<26} {found}{'' if found == was else '  (was another)'}")
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        message = f"{path}: cannot be written: {error.strerror or error}"
        raise ModelError(message) from error
    return lines


def _newest_revision(model: HubModel) -> str:
    """Ask the hub for the commit that its main branch is at."""
    # A second's import, for the few who pin.
    import httpx  # noqa: PLC0415

    endpoint = os.environ.get("HF_ENDPOINT", "https://huggingface.co")
    token = os.environ.get("HF_TOKEN")
    try:
        answer = httpx.get(
            f"{endpoint}/api/models/{model.repo}/revision/main",
            headers={"Authorization": f"Bearer {token}"} if token else {},
            timeout=20.0,
        )
        revision = str(answer.raise_for_status().json()["sha"])
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, KeyError, TypeError) as error:
        message = (
            f"{model.name}: the hub does not tell the revision of {model.repo}: {error!r}; "
            "check the connection, and HF_TOKEN where the model needs one"
        )
        raise ModelError(message) from None
    if not re.fullmatch("[0-9a-f]{40}", revision):
        message = f"{model.name}: the hub says {revision!r}, which is no commit"
        raise ModelError(message)
    return revision


def _with_value(text: str, name: str, key: str, value: str) -> str:
    """Set a key in one model's table, or add it at the end; all else stays, comments included."""
    header = rf'\[models\.(?:{re.escape(name)}|"{re.escape(name)}")\]\n'
    table = re.search(rf"(?m)^{header}(?:(?!\[|\s*$|#).*\n?)*", text)
    if table is None:
        message = f"models.toml: no table [models.{name}] to pin"
        raise ConfigError(message)
    line = f'{key} = "{value}"\n'
    body, count = re.subn(rf"(?m)^{key} = .*\n?", line, table[0])
    return text[: table.start()] + (body if count else table[0] + line) + text[table.end() :]
