"""The models of ``models.toml``, loaded strictly."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from vllm_parity.configs import config_path
from vllm_parity.errors import ConfigError
from vllm_parity.matrix.axes import Method
from vllm_parity.strict import load_toml, unknown

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from vllm_parity.strict import Table


class Medium(StrEnum):
    """What a model takes."""

    TEXT = "text"
    IMAGE = "image"
    VIDEO = "video"
    AUDIO = "audio"


class Recipe(StrEnum):
    """The kinds of model that can be made."""

    QWEN3 = "qwen3"
    QWEN3_VL = "qwen3-vl"
    QWEN2_AUDIO = "qwen2-audio"
    EAGLE = "eagle"
    EAGLE3 = "eagle3"


class Kind(StrEnum):
    """Where a model comes from."""

    SEED = "seed"
    DRAFT = "draft"
    HUB = "hub"


@dataclass(frozen=True, kw_only=True)
class Nudge:
    """One weight of a loaded engine, and how far to move it for a negative control.

    `parameter` is vLLM's name of a parameter that is neither packed nor fused, so that index
    `index` of it, flattened, means the same weight on every platform.
    """

    parameter: str
    index: int
    delta: float


@dataclass(frozen=True, kw_only=True)
class SeedModel:
    """A model drawn from a seed after a recipe; `sha256` is that of its weights' file.

    `drafts` names the model that drafts for it, by method of speculative decoding.
    """

    name: str
    modalities: tuple[Medium, ...]
    recipe: Recipe
    seed: int
    sha256: str
    nudge: Nudge | None = None
    drafts: Mapping[Method, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, kw_only=True)
class DraftModel:
    """A draft for speculative decoding: the weights of the model `target`, with noise.

    `noise` is the spread of the noise, relative to that of the weights.
    """

    name: str
    modalities: tuple[Medium, ...]
    target: str
    noise: float
    sha256: str
    nudge: Nudge | None = None


@dataclass(frozen=True, kw_only=True)
class HubModel:
    """A real model on the Hugging Face hub, pinned to a commit; `drafts` as in a `SeedModel`."""

    name: str
    modalities: tuple[Medium, ...]
    repo: str
    revision: str
    nudge: Nudge | None = None
    drafts: Mapping[Method, str] = field(default_factory=dict, hash=False)


ModelSpec = SeedModel | DraftModel | HubModel


def load_models(path: Path | None = None) -> dict[str, ModelSpec]:
    """Load ``models.toml`` (the project's own by default); anything unknown is a `ConfigError`."""
    root = load_toml(path or config_path("models.toml"))
    models = {name: _model(name, table) for name, table in root.table("models").items()}
    root.finish()
    for name, model in models.items():
        if isinstance(model, DraftModel) and not isinstance(models.get(model.target), SeedModel):
            msg = f"models.{name}: target: {model.target!r} is not a model of kind 'seed'"
            raise root.fail(msg)
        for method, draft in drafts_of(model).items():
            if draft not in models:
                msg = f"models.{name}.drafts: {method}: {unknown('model', draft, models)}"
                raise root.fail(msg)
    return models


def drafts_of(model: ModelSpec) -> Mapping[Method, str]:
    """Return the names of the models that draft for a model; none drafts for a draft."""
    return {} if isinstance(model, DraftModel) else model.drafts


def find_model(name: str, models: Mapping[str, ModelSpec]) -> ModelSpec:
    """Look a model up by name; an unknown name is a `ConfigError` that lists the known ones."""
    if name not in models:
        msg = f"unknown model {name!r}; known models: {', '.join(sorted(models))}"
        raise ConfigError(msg)
    return models[name]


def _model(name: str, table: Table) -> ModelSpec:
    if not re.fullmatch(r"[a-z0-9][a-z0-9.-]*", name):
        msg = "a name is made of a-z, 0-9, '-' and '.'"
        raise table.fail(msg)
    kind = table.enum("kind", Kind)
    modalities = table.enums("modalities", Medium)
    nudge = _nudge(table.table("nudge")) if "nudge" in table.data else None
    model: ModelSpec
    if kind is Kind.SEED:
        model = SeedModel(
            name=name,
            modalities=modalities,
            nudge=nudge,
            recipe=table.enum("recipe", Recipe),
            seed=_natural(table, "seed"),
            sha256=_digits(table, "sha256", 64),
            drafts=_drafts(table.table("drafts", {})),
        )
    elif kind is Kind.DRAFT:
        model = DraftModel(
            name=name,
            modalities=modalities,
            nudge=nudge,
            target=table.take("target", str),
            noise=table.take("noise", float),
            sha256=_digits(table, "sha256", 64),
        )
    else:
        model = HubModel(
            name=name,
            modalities=modalities,
            nudge=nudge,
            repo=table.take("repo", str),
            revision=_digits(table, "revision", 40),
            drafts=_drafts(table.table("drafts", {})),
        )
    table.finish()
    return model


def _nudge(table: Table) -> Nudge:
    nudge = Nudge(
        parameter=table.take("parameter", str),
        index=_natural(table, "index"),
        delta=table.take("delta", float),
    )
    table.finish()
    return nudge


def _drafts(table: Table) -> dict[Method, str]:
    drafts = {method: table.take(method, str) for method in Method if method in table.data}
    for key in table.data:
        if key not in drafts:
            raise table.fail(unknown("method", key, list(Method)))
    return drafts


def _natural(table: Table, key: str) -> int:
    number = table.take(key, int)
    if number < 0:
        msg = f"{key} = {number} is negative"
        raise table.fail(msg)
    return number


def _digits(table: Table, key: str, length: int) -> str:
    value = table.take(key, str)
    if not re.fullmatch(rf"[0-9a-f]{{{length}}}", value):
        msg = f"{key} = {value!r} must be {length} lower-case hexadecimal digits"
        raise table.fail(msg)
    return value
