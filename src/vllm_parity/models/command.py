"""The command ``vllm-parity models``: list, make and pin the built-in models."""

from __future__ import annotations

import hashlib
import re
import sys
from typing import TYPE_CHECKING

from vllm_parity.configs import config_path
from vllm_parity.errors import ConfigError, ModelError
from vllm_parity.matrix.models import HubModel, find_model, load_models
from vllm_parity.models.blueprint import blueprint
from vllm_parity.models.cache import model_path

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping
    from pathlib import Path

    from vllm_parity.matrix.models import ModelSpec


def add_models_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``vllm-parity models``."""
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="models to make (default: all that are made)"
    )
    action = parser.add_mutually_exclusive_group()
    action.add_argument("--list", action="store_true", help="list the models, make none")
    action.add_argument(
        "--pin",
        action="store_true",
        help="for maintainers: write the SHA-256 of the weights into models.toml",
    )


def run_models(args: argparse.Namespace) -> int:
    """Run ``vllm-parity models``; errors are left to the caller."""
    path = config_path("models.toml")
    models = load_models(path)
    chosen = [find_model(name, models) for name in args.names] or list(models.values())
    if args.pin:
        _pin(path, chosen, models)
        return 0
    for model in chosen:
        if args.list or (isinstance(model, HubModel) and not args.names):
            _say(_summary(model, models))
        else:
            folder = model_path(model.name, notify=_tell, models=models)
            _say(f"{_summary(model, models)}  {folder}")
    return 0


def _summary(model: ModelSpec, models: Mapping[str, ModelSpec]) -> str:
    modalities = ",".join(model.modalities)
    if isinstance(model, HubModel):
        return f"{model.name:<18} {modalities:<16} {model.repo}@{model.revision}"
    parameters = blueprint(model, models).recipe.parameters
    return f"{model.name:<18} {modalities:<16} {parameters:>9,} parameters  {model.sha256}"


def _pin(path: Path, chosen: list[ModelSpec], models: Mapping[str, ModelSpec]) -> None:
    text = path.read_text(encoding="utf-8")
    for model in chosen:
        if isinstance(model, HubModel):
            continue
        found = hashlib.sha256(blueprint(model, models).weights()).hexdigest()
        _say(f"{model.name:<18} {found}{'' if found == model.sha256 else '  (was another)'}")
        text = _with_pin(text, model.name, found)
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        message = f"{path}: cannot be written: {error.strerror or error}"
        raise ModelError(message) from error


def _with_pin(text: str, name: str, sha256: str) -> str:
    """Replace the hash in one model's table; everything else stays, comments included."""
    header = rf'\[models\.(?:{re.escape(name)}|"{re.escape(name)}")\]'
    pattern = rf'(?m)(^{header}\n(?:(?!\[).*\n)*?sha256 = )"[0-9a-f]*"'
    text, count = re.subn(pattern, rf'\g<1>"{sha256}"', text)
    if count != 1:
        message = f"models.toml: no table [models.{name}] with a line sha256 = to pin"
        raise ConfigError(message)
    return text


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")


def _tell(line: str) -> None:
    sys.stderr.write(f"{line}\n")
