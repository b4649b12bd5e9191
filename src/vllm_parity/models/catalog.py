"""The models of ``models.toml``, loaded strictly."""

from __future__ import annotations

import re
import tomllib
from dataclasses import MISSING, dataclass, fields
from typing import TYPE_CHECKING, Any, NoReturn

from vllm_parity.configs import config_path
from vllm_parity.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

MODALITIES = ("text", "image", "video", "audio")
RECIPES = ("qwen3", "qwen3-vl", "qwen2-audio")


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
    """A model drawn from a seed after a recipe; `sha256` is that of its weights' file."""

    name: str
    modalities: tuple[str, ...]
    recipe: str
    seed: int
    sha256: str
    nudge: Nudge | None = None


@dataclass(frozen=True, kw_only=True)
class DraftModel:
    """A draft for speculative decoding: the weights of the model `target`, with noise.

    `noise` is the spread of the noise, relative to that of the weights.
    """

    name: str
    modalities: tuple[str, ...]
    target: str
    noise: float
    sha256: str
    nudge: Nudge | None = None


@dataclass(frozen=True, kw_only=True)
class HubModel:
    """A real model on the Hugging Face hub, pinned to a commit."""

    name: str
    modalities: tuple[str, ...]
    repo: str
    revision: str
    nudge: Nudge | None = None


ModelSpec = SeedModel | DraftModel | HubModel

_KINDS: dict[str, type[SeedModel | DraftModel | HubModel]] = {
    "seed": SeedModel,
    "draft": DraftModel,
    "hub": HubModel,
}


def load_models(path: Path | None = None) -> dict[str, ModelSpec]:
    """Load ``models.toml`` (the project's own by default); anything unknown is a `ConfigError`."""
    path = path or config_path("models.toml")
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        message = f"{path}: cannot be read: {error}"
        raise ConfigError(message) from error
    _check_keys(document, required={"models"}, allowed={"models"}, where=f"{path}: top level")
    tables = _typed(document["models"], dict, f"{path}: models", "a table")
    models = {
        name: _model(name, _typed(table, dict, f"{path}: models.{name}", "a table"), path)
        for name, table in tables.items()
    }
    for model in models.values():
        if isinstance(model, DraftModel):
            _check_target(model, models, path)
    return models


def find_model(name: str, models: Mapping[str, ModelSpec]) -> ModelSpec:
    """Look a model up by name; an unknown name is a `ConfigError` that lists the known ones."""
    if name not in models:
        message = f"unknown model {name!r}; known models: {', '.join(sorted(models))}"
        raise ConfigError(message)
    return models[name]


def _model(name: str, table: dict[str, Any], path: Path) -> ModelSpec:
    where = f"{path}: models.{name}"
    if not re.fullmatch(r"[a-z0-9][a-z0-9.-]*", name):
        _fail(f"{where}: a name is made of a-z, 0-9, '-' and '.'")
    kind = table.get("kind")
    if not isinstance(kind, str) or kind not in _KINDS:
        _fail(f"{where}.kind: {kind!r} is not one of {', '.join(_KINDS)}")
    cls = _KINDS[kind]
    known = [field for field in fields(cls) if field.name != "name"]
    required = {"kind", *(field.name for field in known if field.default is MISSING)}
    _check_keys(
        table, required=required, allowed={"kind", *(field.name for field in known)}, where=where
    )
    values = {key: _CHECKS[key](value, f"{where}.{key}") for key, value in table.items()}
    del values["kind"]
    return cls(name=name, **values)


def _check_keys(
    table: Mapping[str, object], *, required: set[str], allowed: set[str], where: str
) -> None:
    for key in table:
        if key not in allowed:
            _fail(f"{where}: unknown key {key!r}; allowed: {', '.join(sorted(allowed))}")
    missing = sorted(required - set(table))
    if missing:
        _fail(f"{where}: missing key{'s' * (len(missing) > 1)} {', '.join(missing)}")


def _check_target(draft: DraftModel, models: Mapping[str, ModelSpec], path: Path) -> None:
    if not isinstance(models.get(draft.target), SeedModel):
        seeds = sorted(name for name, model in models.items() if isinstance(model, SeedModel))
        _fail(
            f"{path}: models.{draft.name}.target: {draft.target!r} is not a model of kind "
            f'"seed": {", ".join(seeds)}'
        )


def _typed(value: object, kind: type | tuple[type, ...], where: str, words: str) -> Any:  # noqa: ANN401
    if not isinstance(value, kind) or isinstance(value, bool):
        _fail(f"{where}: {value!r} is not {words}")
    return value


def _text(value: object, where: str) -> str:
    text: str = _typed(value, str, where, "a string")
    return text


def _integer(value: object, where: str) -> int:
    number: int = _typed(value, int, where, "an integer")
    if number < 0:
        _fail(f"{where}: {number} is negative")
    return number


def _number(value: object, where: str) -> float:
    return float(_typed(value, (int, float), where, "a number"))


def _hexadecimal(length: int, what: str) -> Any:  # noqa: ANN401
    def check(value: object, where: str) -> str:
        if not isinstance(value, str) or not re.fullmatch(rf"[0-9a-f]{{{length}}}", value):
            _fail(f"{where}: {value!r} is not {what} ({length} lower-case hexadecimal digits)")
        return str(value)

    return check


def _recipe(value: object, where: str) -> str:
    if value not in RECIPES:
        _fail(f"{where}: {value!r} is not one of {', '.join(RECIPES)}")
    return str(value)


def _modalities(value: object, where: str) -> tuple[str, ...]:
    names: list[object] = _typed(value, list, where, "a list")
    if not names:
        _fail(f"{where}: is empty; allowed: {', '.join(MODALITIES)}")
    for name in names:
        if name not in MODALITIES:
            _fail(f"{where}: {name!r} is not one of {', '.join(MODALITIES)}")
    return tuple(str(name) for name in names)


def _nudge(value: object, where: str) -> Nudge:
    table: dict[str, Any] = _typed(value, dict, where, "a table")
    keys = {field.name for field in fields(Nudge)}
    _check_keys(table, required=keys, allowed=keys, where=where)
    return Nudge(
        parameter=_text(table["parameter"], f"{where}.parameter"),
        index=_integer(table["index"], f"{where}.index"),
        delta=_number(table["delta"], f"{where}.delta"),
    )


_CHECKS: dict[str, Any] = {
    "kind": _text,
    "modalities": _modalities,
    "recipe": _recipe,
    "seed": _integer,
    "sha256": _hexadecimal(64, "a SHA-256"),
    "target": _text,
    "noise": _number,
    "repo": _text,
    "revision": _hexadecimal(40, "a commit"),
    "nudge": _nudge,
}


def _fail(message: str) -> NoReturn:
    raise ConfigError(message)
