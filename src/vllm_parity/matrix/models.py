"""The models of ``models.toml``, loaded strictly."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from vllm_parity.configs import config_path
from vllm_parity.errors import ConfigError
from vllm_parity.matrix.axes import Method
from vllm_parity.strict import load_toml

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
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
class _Model:
    """What is known of every model.

    `parameters` is their number, from which memory is estimated. `drafts` names, by method of
    speculative decoding, the model that drafts for this one.
    """

    name: str
    modalities: tuple[Medium, ...]
    parameters: int
    drafts: dict[Method, str]
    nudge: Nudge | None = None


@dataclass(frozen=True, kw_only=True)
class SeedModel(_Model):
    """A model drawn from a seed after a recipe; `sha256` is that of its weights' file.

    `sizes` and `vision` are fields of :class:`vllm_parity.models.decoder.Decoder` and
    :class:`vllm_parity.models.qwen3_vl.Vision` that are not the usual ones.
    """

    recipe: Recipe
    seed: int
    sha256: str
    sizes: dict[str, Any]
    vision: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class DraftModel(_Model):
    """A draft for speculative decoding: the weights of the model `target`, with noise.

    `noise` is the spread of the noise, relative to that of the weights.
    """

    target: str
    noise: float
    sha256: str


@dataclass(frozen=True, kw_only=True)
class HubModel(_Model):
    """A real model on the Hugging Face hub, pinned to a commit.

    `revision` is None until one is pinned: such a model is not run. `needs_token` says that the
    hub gives it, or a part of it, to users with a token alone. `built_in` is the model that stands
    in for it where the hub cannot be reached.
    """

    repo: str
    revision: str | None
    needs_token: bool
    built_in: str | None


ModelSpec = SeedModel | DraftModel | HubModel


def load_models(path: Path | None = None) -> dict[str, ModelSpec]:
    """Load ``models.toml`` (the project's own by default); anything unknown is a `ConfigError`."""
    root = load_toml(path or config_path("models.toml"))
    models = {name: _model(name, table) for name, table in root.table("models").items()}
    root.finish()
    for name, model in models.items():
        for what, other, kind in _mentioned(model):
            if not isinstance(models.get(other), kind):
                msg = f"models.{name}: {what}: {other!r} is not a model of {_KINDS[kind]}"
                raise root.fail(msg)
    return models


def _mentioned(model: ModelSpec) -> Iterator[tuple[str, str, type[_Model]]]:
    """Return what models an entry names: the key, the name, and what it must be."""
    for method, draft in model.drafts.items():
        yield f"drafts.{method}", draft, _Model
    if isinstance(model, DraftModel):
        yield "target", model.target, SeedModel
    if isinstance(model, HubModel) and model.built_in:
        yield "built_in", model.built_in, SeedModel


_DECODER_SIZES = ("hidden", "layers", "heads", "kv_heads", "head_dim", "intermediate")
_VISION_SIZES = ("depth", "hidden", "heads", "intermediate")

_KINDS: dict[type[_Model], str] = {_Model: "this file", SeedModel: "kind 'seed'"}


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
    shared: dict[str, Any] = {
        "name": name,
        "modalities": table.enums("modalities", Medium),
        "parameters": _natural(table, "parameters"),
        "drafts": _drafts(table.table("drafts", {})),
        "nudge": _nudge(table.table("nudge")) if "nudge" in table.data else None,
    }
    model: ModelSpec
    if "vision" in table.data and table.data.get("recipe") != Recipe.QWEN3_VL:
        msg = f"vision: sizes of an encoder that the recipe {Recipe.QWEN3_VL} alone has"
        raise table.fail(msg)
    if kind is Kind.SEED:
        model = SeedModel(
            **shared,
            recipe=table.enum("recipe", Recipe),
            seed=_natural(table, "seed"),
            sha256=_digits(table, "sha256", 64),
            sizes=_sizes(table.table("sizes", {}), _DECODER_SIZES),
            vision=_sizes(table.table("vision", {}), _VISION_SIZES),
        )
    elif kind is Kind.DRAFT:
        model = DraftModel(
            **shared,
            target=table.take("target", str),
            noise=table.take("noise", float),
            sha256=_digits(table, "sha256", 64),
        )
    else:
        model = HubModel(
            **shared,
            repo=table.take("repo", str),
            revision=_digits(table, "revision", 40) if "revision" in table.data else None,
            needs_token=table.take("needs_token", bool, default=False),
            built_in=table.take("built_in", str, None),
        )
    table.finish()
    return model


def _sizes(table: Table, names: tuple[str, ...]) -> dict[str, int]:
    sizes = {name: _natural(table, name) for name in names if name in table.data}
    if 0 in sizes.values():
        msg = "a size is at least 1"
        raise table.fail(msg)
    table.finish(names)
    return sizes


def _drafts(table: Table) -> dict[Method, str]:
    drafts = {method: table.take(method, str) for method in Method if method in table.data}
    table.finish(list(Method))
    return drafts


def _nudge(table: Table) -> Nudge:
    nudge = Nudge(
        parameter=table.take("parameter", str),
        index=_natural(table, "index"),
        delta=table.take("delta", float),
    )
    table.finish()
    return nudge


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
