"""Made models on disk: written whole or not at all, and checked before every use."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import logging
import os
import secrets
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from vllm_parity.errors import ModelError
from vllm_parity.matrix.models import find_model, load_models
from vllm_parity.models.blueprint import Blueprint, blueprint
from vllm_parity.models.recipe import WEIGHTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from vllm_parity.matrix.models import ModelSpec

#: The variable that moves the cache.
CACHE_VARIABLE = "VLLM_PARITY_CACHE"

_log = logging.getLogger(__name__)


def cache_root() -> Path:
    """Return the folder that holds the made models: ``models`` in the user's cache directory."""
    if override := os.environ.get(CACHE_VARIABLE):
        return Path(override).expanduser().absolute() / "models"
    # Imported here: an environment of vLLM's own, which may import this package, need not have it.
    import platformdirs  # noqa: PLC0415

    return platformdirs.user_cache_path("vllm-parity") / "models"


def model_path(
    name: str,
    *,
    notify: Callable[[str], object] = _log.warning,
    models: Mapping[str, ModelSpec] | None = None,
) -> Path:
    """Return the folder of a made model, checked against its hashes, making it if need be.

    Safe with several makers at once. `notify` receives one line when a model is made, and one
    when a damaged copy is replaced. Raises `ModelError` where the folder cannot be written or the
    weights are not those that ``models.toml`` pins, `ConfigError` for an unknown name.
    """
    models = load_models() if models is None else models
    plan = blueprint(find_model(name, models), models)
    folder = cache_root() / f"{name}-{plan.digest[:12]}"
    try:
        if damage(folder, plan) is not None:
            with _lock(folder):
                _make(folder, plan, notify)
    except OSError as error:
        message = (
            f"{name}: the cached copy {folder} cannot be made or read: "
            f"{error.strerror or error}; set {CACHE_VARIABLE} to a folder with some MB free"
        )
        raise ModelError(message) from error
    return folder


def damage(folder: Path, plan: Blueprint) -> str | None:
    """Say what is wrong with a model's folder, or return None where every byte is as planned."""
    try:
        present = {entry.name for entry in folder.iterdir()}
    except FileNotFoundError:
        return "it is missing"
    expected = {WEIGHTS, *plan.recipe.files}
    if present != expected:
        missing, extra = sorted(expected - present), sorted(present - expected)
        return f"missing: {', '.join(missing)}" if missing else f"unexpected: {', '.join(extra)}"
    for name, content in plan.recipe.files.items():
        if (folder / name).read_bytes() != content:
            return f"{name} is not what was written"
    if hashlib.sha256((folder / WEIGHTS).read_bytes()).hexdigest() != plan.sha256:
        return f"{WEIGHTS} does not have the pinned SHA-256"
    return None


def _make(folder: Path, plan: Blueprint, notify: Callable[[str], object]) -> None:
    """Make a model under the lock, unless another maker has just done so."""
    problem = damage(folder, plan)
    if problem is None:
        return
    for left_over in folder.parent.glob(f".{folder.name}.*.tmp"):
        shutil.rmtree(left_over)
    if folder.exists():
        notify(f"{plan.name}: the cached copy is damaged ({problem}): making it anew")
    else:
        notify(f"{plan.name}: making {plan.recipe.parameters:,} parameters in {folder}")
    weights = plan.weights()
    found = hashlib.sha256(weights).hexdigest()
    if found != plan.sha256:
        message = (
            f"{plan.name}: the weights drawn here have SHA-256 {found}, "
            f"but models.toml pins {plan.sha256}"
        )
        raise ModelError(message)
    with _aside(folder) as fresh:
        fresh.mkdir()
        for name, content in {**plan.recipe.files, WEIGHTS: weights}.items():
            _write(fresh / name, content)
        with _aside(folder) as old:
            if folder.exists():
                folder.rename(old)
            fresh.rename(folder)


def _write(path: Path, content: bytes) -> None:
    with path.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


@contextlib.contextmanager
def _aside(folder: Path) -> Iterator[Path]:
    """Give a free name beside a folder, and remove what is left there in the end."""
    path = folder.parent / f".{folder.name}.{secrets.token_hex(8)}.tmp"
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


@contextlib.contextmanager
def _lock(folder: Path) -> Iterator[None]:
    """Keep other makers of the same model out; the system frees the lock of a killed one."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / f".{folder.name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
