"""The command ``vllm-parity models``: list, make and pin the built-in models."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from vllm_parity.configs import config_path
from vllm_parity.matrix.models import HubModel, find_model, load_models
from vllm_parity.models.blueprint import blueprint
from vllm_parity.models.cache import model_path
from vllm_parity.models.pin import pin

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

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
        help="for maintainers: write into models.toml the SHA-256 of made weights, or, where a"
        " model of the hub is named, its newest revision",
    )


def run_models(args: argparse.Namespace) -> int:
    """Run ``vllm-parity models``; errors are left to the caller."""
    path = config_path("models.toml")
    models = load_models(path)
    chosen = [find_model(name, models) for name in args.names]
    if args.pin:
        made = [model for model in models.values() if not isinstance(model, HubModel)]
        for line in pin(path, chosen or [*made], models):
            _say(line)
        return 0
    for model in chosen or list(models.values()):
        if args.list or (isinstance(model, HubModel) and not args.names):
            _say(_summary(model, models))
        else:
            folder = model_path(model.name, notify=_tell, models=models)
            _say(f"{_summary(model, models)}  {folder}")
    return 0


def _summary(model: ModelSpec, models: Mapping[str, ModelSpec]) -> str:
    modalities = ",".join(model.modalities)
    if isinstance(model, HubModel):
        return f"{model.name:<26} {modalities:<16} {model.repo}@{model.revision or 'not pinned'}"
    parameters = blueprint(model, models).recipe.parameters
    return f"{model.name:<26} {modalities:<16} {parameters:>9,} parameters  {model.sha256}"


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")


def _tell(line: str) -> None:
    sys.stderr.write(f"{line}\n")
