"""Where the configuration files are: in a source checkout, or inside the installed package."""

from __future__ import annotations

from pathlib import Path

from vllm_parity.errors import ConfigError

_PACKAGE = Path(__file__).resolve().parent


def config_path(name: str) -> Path:
    """Return the path of a file of ``configs/``, such as ``models.toml``.

    A source checkout's ``configs/`` (known by the ``pyproject.toml`` beside it) comes before the
    copy that a wheel carries.
    """
    root = _PACKAGE.parent.parent
    candidates = [_PACKAGE / "configs" / name]
    if (root / "pyproject.toml").is_file():
        candidates.insert(0, root / "configs" / name)
    for path in candidates:
        if path.is_file():
            return path
    looked = " or ".join(str(path) for path in candidates)
    message = f"no configuration file {name}: looked for {looked}"
    raise ConfigError(message)
