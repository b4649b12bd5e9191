"""Reading platforms.toml: how vLLM is installed on a platform, its variables and settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vllm_parity.configs import config_path
from vllm_parity.matrix.axes import Platform
from vllm_parity.strict import load_toml, unknown

if TYPE_CHECKING:
    from pathlib import Path

    from vllm_parity.strict import Table


@dataclass(frozen=True, kw_only=True)
class Variable:
    """An environment variable and why it is set."""

    value: str
    why: str


@dataclass(frozen=True, kw_only=True)
class TorchSource:
    """One place to have PyTorch from; `index` None is the default index.

    `lock` names a further lock file, of what these packages need besides.
    """

    packages: tuple[str, ...]
    why: str
    index: str | None = None
    lock: str | None = None


@dataclass(frozen=True, kw_only=True)
class Versions:
    """Where a version of vLLM that is asked for comes from: a package, by default of PyPI.

    `index` has the places {version} and {variant}; the first of `variants` that is there serves.
    """

    package: str
    index: str | None = None
    variants: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Install:
    """How vLLM is installed: exact versions in `lock`, PyTorch from the first source reached.

    Without a `lock`, the vLLM that is there already is taken, as in `image`, a container's. Where
    `torch` is empty, PyTorch is a package like any other.
    """

    lock: str | None
    python: tuple[str, ...]
    versions: Versions
    torch: tuple[TorchSource, ...] = ()
    image: str | None = None


@dataclass(frozen=True, kw_only=True)
class Ci:
    """What CI systems need to know: where jobs of a platform run, and how long things take there.

    `runner` are GitHub's labels, `queue` is Buildkite's, `devices` what a container must be given.
    The seconds are those of one start of an
    engine or server, and of one cell besides; together with the minutes of an installation they
    make the estimates and time limits of jobs.
    """

    runner: tuple[str, ...]
    queue: str
    devices: tuple[str, ...]
    install_minutes: int
    engine_seconds: int
    server_seconds: int
    cell_seconds: int


@dataclass(frozen=True, kw_only=True)
class PlatformSettings:
    """What a platform needs.

    `architecture` is the least that vLLM runs on. `engine_gib` is what an engine takes of the
    memory besides weights and KV cache. A host keeps `engines` warm at most, and is replaced where
    those that ended left more than `left_gib` allocated on the GPU. `variables` are set for every
    process of vLLM, `host_variables` for those with offline engines besides, `server_variables`
    for servers.
    """

    summary: str
    architecture: str
    engine_gib: float
    engines: int
    left_gib: float | None
    install: Install
    ci: Ci
    variables: dict[str, Variable]
    host_variables: dict[str, Variable]
    server_variables: dict[str, Variable]
    engine: dict[str, Any]


_FEWEST = 2


def load_platforms(path: Path | None = None) -> dict[Platform, PlatformSettings]:
    """Read platforms.toml.

    Raises:
        ConfigError: with the file, the place and the allowed values where anything is wrong.

    """
    root = load_toml(path or config_path("platforms.toml"))
    platforms = {}
    for name, table in root.items():
        if name not in list(Platform):
            raise root.fail(unknown("platform", name, list(Platform)))
        platforms[Platform(name)] = _platform(table)
    return platforms


def _platform(table: Table) -> PlatformSettings:
    engines = table.take("engines", int)
    if engines < _FEWEST:
        msg = f"engines = {engines} must be at least {_FEWEST}: a cell with drafts has two"
        raise table.fail(msg)
    settings = PlatformSettings(
        summary=table.take("summary", str),
        architecture=table.take("architecture", str),
        engine_gib=table.take("engine_gib", float),
        engines=engines,
        left_gib=table.take("left_gib", float, None),
        ci=_ci(table.table("ci")),
        install=_install(table.table("install")),
        variables=_variables(table.table("variables")),
        host_variables=_variables(table.table("host_variables")),
        server_variables=_variables(table.table("server_variables")),
        engine=table.table("engine").data,
    )
    table.finish()
    return settings


def _ci(table: Table) -> Ci:
    ci = Ci(
        runner=table.strings("runner"),
        queue=table.take("queue", str),
        devices=table.strings("devices", []),
        install_minutes=table.take("install_minutes", int),
        engine_seconds=table.take("engine_seconds", int),
        server_seconds=table.take("server_seconds", int),
        cell_seconds=table.take("cell_seconds", int),
    )
    table.finish()
    return ci


def _variables(table: Table) -> dict[str, Variable]:
    variables = {}
    for name, entry in table.items():
        variables[name] = Variable(value=entry.take("value", str), why=entry.take("why", str))
        entry.finish()
    return variables


def _install(table: Table) -> Install:
    default = table.take("default", str, "lock")
    if default not in ("lock", "installed"):
        msg = f"default: {unknown('value', default, ['lock', 'installed'])}"
        raise table.fail(msg)
    install = Install(
        lock=table.take("lock", str) if default == "lock" else None,
        python=table.strings("python"),
        versions=_versions(table.table("versions")),
        torch=tuple(_torch_source(entry) for entry in table.tables("torch", [])),
        image=table.take("image", str, "") or None,
    )
    table.finish()
    return install


def _versions(table: Table) -> Versions:
    versions = Versions(
        package=table.take("package", str),
        index=table.take("index", str, "") or None,
        variants=table.strings("variants", []),
    )
    table.finish()
    if bool(versions.index) != bool(versions.variants):
        msg = "index and variants belong together, and one of them is missing"
        raise table.fail(msg)
    return versions


def _torch_source(table: Table) -> TorchSource:
    source = TorchSource(
        packages=table.strings("packages"),
        why=table.take("why", str),
        index=table.take("index", str, "") or None,
        lock=table.take("lock", str, "") or None,
    )
    table.finish()
    return source
