"""platforms.toml: which vLLM is installed where nothing else is asked for, and where others are."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from vllm_parity.configs import config_path
from vllm_parity.errors import ConfigError
from vllm_parity.matrix import Platform, load_platforms
from vllm_parity.matrix.platforms import Install, Versions

if TYPE_CHECKING:
    from pathlib import Path

PLATFORMS = load_platforms()
ROCM = """
[rocm.install]
default = "installed"
image = "vllm/image:v1"
python = ["3.12"]

[rocm.install.versions]
package = "vllm"
index = "https://index.invalid/{version}/{variant}"
variants = ["rocm2", "rocm1"]
"""


def load(folder: Path, install: str) -> Install:
    """Read the project's own file with another table [rocm.install]."""
    text = config_path("platforms.toml").read_text(encoding="utf-8")
    text = re.sub(r"\[rocm\.install\].*?(?=\n\[rocm\.ci)", "", text, flags=re.DOTALL)
    path = folder / "platforms.toml"
    path.write_text(text + install, encoding="utf-8")
    return load_platforms(path)[Platform.ROCM].install


def test_all_is_read(tmp_path: Path) -> None:
    assert load(tmp_path, ROCM) == Install(
        lock=None,
        python=("3.12",),
        versions=Versions(
            package="vllm",
            index="https://index.invalid/{version}/{variant}",
            variants=("rocm2", "rocm1"),
        ),
        image="vllm/image:v1",
    )


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('"installed"', '"instaled"', "default: unknown value 'instaled'; allowed: lock, install"),
        ('default = "installed"\n', "", "rocm.install: the key 'lock' is missing"),
        ('"installed"', '"lock"', "rocm.install: the key 'lock' is missing"),
        ("image =", 'lock = "a.txt"\nimage =', "rocm.install: unknown key 'lock'"),
        ('"vllm/image:v1"', "1", "rocm.install: image = 1 must be a string"),
        ("package =", "name =", "rocm.install.versions: the key 'package' is missing"),
        ('variants = ["rocm2", "rocm1"]', "", "versions: index and variants belong together"),
        ("index =", "# index =", "versions: index and variants belong together"),
        ('["rocm2", "rocm1"]', "[2]", "versions: variants = [2] must list strings"),
        ("variants =", "variant =", "versions: unknown key 'variant'; allowed: package, index,"),
    ],
)
def test_mistake_is_named(tmp_path: Path, old: str, new: str, words: str) -> None:
    assert old in ROCM
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, ROCM.replace(old, new))
    assert words in str(caught.value)


# The project's own platforms


def test_index_of_versions_has_the_places_that_are_filled_in() -> None:
    for settings in PLATFORMS.values():
        if index := settings.install.versions.index:
            assert index.count("{version}") == index.count("{variant}") == 1


def test_image_has_a_fixed_tag() -> None:
    images = [settings.install.image for settings in PLATFORMS.values() if settings.install.image]
    assert images
    assert all(re.fullmatch(r"[\w/.-]+:v\d+\.\d+\.\d+", image) for image in images)


@pytest.mark.parametrize("platform", [Platform.CPU, Platform.CUDA])
def test_tests_are_locked_with_the_same_pins_everywhere(platform: Platform) -> None:
    def pins(name: str | None) -> dict[str, str]:
        lines = config_path(f"locks/{name}").read_text(encoding="utf-8").splitlines()
        return dict(line.split("==", 1) for line in lines if line.startswith("pytest"))

    assert pins(PLATFORMS[platform].install.lock) == pins("tests.txt")
