"""models.toml is loaded strictly: every mistake names the file, the key and what is allowed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from vllm_parity.configs import config_path
from vllm_parity.errors import ConfigError
from vllm_parity.matrix.models import DraftModel, HubModel, SeedModel, find_model, load_models

if TYPE_CHECKING:
    from pathlib import Path

SEED = """
[models.small]
kind = "seed"
recipe = "qwen3"
modalities = ["text"]
seed = 1
sha256 = "{}"
nudge = {{ parameter = "model.norm.weight", index = 3, delta = 0.5 }}
""".format("a" * 64)
DRAFT = """
[models.small-draft]
kind = "draft"
modalities = ["text"]
target = "small"
noise = 0.1
sha256 = "{}"
""".format("b" * 64)
HUB = """
[models."real-2b"]
kind = "hub"
modalities = ["text", "image"]
repo = "someone/real-2b"
revision = "{}"
""".format("c" * 40)


def write(folder: Path, text: str) -> Path:
    path = folder / "models.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_each_kind_is_loaded(tmp_path: Path) -> None:
    models = load_models(write(tmp_path, SEED + DRAFT + HUB))
    small, draft, real = models.values()
    assert isinstance(small, SeedModel)
    assert small.nudge is not None
    assert (small.nudge.parameter, small.nudge.index, small.nudge.delta) == (
        "model.norm.weight",
        3,
        0.5,
    )
    assert isinstance(draft, DraftModel)
    assert (draft.target, draft.noise) == ("small", 0.1)
    assert isinstance(real, HubModel)
    assert (real.name, real.repo, real.modalities) == (
        "real-2b",
        "someone/real-2b",
        ("text", "image"),
    )


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('kind = "seed"', 'kind = "sed"', r"models.small: kind: unknown value 'sed'; allowed: se"),
        ('kind = "seed"', "", r"models.small: the key 'kind' is missing"),
        ("seed = 1", "seed = 1\nsead = 1", r"models.small: unknown key 'sead'; .* mean 'seed'"),
        ("seed = 1", "", r"models.small: the key 'seed' is missing"),
        ("seed = 1", "seed = true", r"models.small: seed = True must be a whole number, not true"),
        ("seed = 1", "seed = -1", r"models.small: seed = -1 is negative"),
        ("seed = 1", "seed = 1.5", r"models.small: seed = 1.5 must be a whole number"),
        ('"qwen3"', '"qwen9"', r"models.small: recipe: unknown value 'qwen9'; allowed: qwen3, "),
        ('["text"]', '["smell"]', r"models.small: modalities: unknown value 'smell'; allowed: t"),
        ('["text"]', "[]", r"models.small: modalities = \[\] must list at least one value"),
        ("a" * 64, "a" * 63, r"models.small: sha256 = .* must be 64 lower-case hexadecimal digits"),
        ("index = 3, ", "", r"models.small.nudge: the key 'index' is missing"),
        ("index = 3", "index = 3, by = 1", r"models.small.nudge: unknown key 'by'; allowed: para"),
        ("models.small]", 'models."Small"]', r"models.Small: a name is made of a-z"),
        ('target = "small"', 'target = "big"', r"models.small-draft: target: 'big' is not a mode"),
        ("c" * 40, "main", r"models.real-2b: revision = 'main' must be 40 lower-case hexadecimal"),
        (
            "[models.small]",
            "format = 2\n[models.small]",
            r"toml: unknown key 'format'; allowed: m",
        ),
        ("seed = 1", "seed = = 1", r"is not TOML: Invalid value"),
    ],
)
def test_mistake_is_named(tmp_path: Path, old: str, new: str, message: str) -> None:
    text = SEED + DRAFT + HUB
    assert old in text
    path = write(tmp_path, text.replace(old, new, 1))
    with pytest.raises(ConfigError, match=message) as caught:
        load_models(path)
    assert str(caught.value).startswith(str(path))


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such configuration file"):
        load_models(tmp_path / "models.toml")


def test_unknown_name_lists_the_known_ones(tmp_path: Path) -> None:
    models = load_models(write(tmp_path, SEED + DRAFT))
    with pytest.raises(ConfigError, match="unknown model 'x'; known models: small, small-draft"):
        find_model("x", models)


def test_configs_are_found() -> None:
    assert config_path("models.toml").is_file()
    with pytest.raises(ConfigError, match=r"no configuration file no\.toml: looked for .*configs"):
        config_path("no.toml")
