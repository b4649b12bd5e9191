"""Which vLLM is meant, told by the form of the words."""

from __future__ import annotations

from pathlib import Path

import pytest

from vllm_parity.errors import InstallError
from vllm_parity.install.sources import Kind, Source, parse_source
from vllm_parity.matrix import Platform, load_platforms

PLATFORMS = load_platforms()
CPU = PLATFORMS[Platform.CPU].install
WHEEL = "vllm-0.31.0-cp38-abi3-manylinux_2_28_x86_64.whl"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a folder with a wheel, a checkout, and things that are neither."""
    monkeypatch.chdir(tmp_path)
    for name in (WHEEL, "a.whl", "file", "vllm/pyproject.toml", "old vllm/setup.py", "empty/x"):
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).touch()
    return tmp_path


@pytest.mark.parametrize(
    ("platform", "kind"),
    [
        (Platform.CPU, Kind.LOCK),
        (Platform.CUDA, Kind.LOCK),
        (Platform.ROCM, Kind.INSTALLED),
    ],
)
def test_default_is_what_platforms_toml_says(platform: Platform, kind: Kind) -> None:
    assert parse_source(None, PLATFORMS[platform].install) == Source(kind)


@pytest.mark.parametrize("text", ["0.31.0", "0.31.0rc1", "0.31.0.post2", "0.31.0+cpu", "1!2.0"])
def test_version(text: str) -> None:
    assert parse_source(text, CPU) == Source(Kind.VERSION, text)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (WHEEL, Kind.WHEEL),
        (f"./{WHEEL}", Kind.WHEEL),
        ("vllm", Kind.CHECKOUT),
        ("vllm/", Kind.CHECKOUT),
        ("empty/../old vllm", Kind.CHECKOUT),
    ],
)
def test_path(here: Path, text: str, kind: Kind) -> None:
    source = parse_source(text, CPU)
    assert source == Source(kind, str((here / text).resolve()))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("v0.31.0", "--vllm 'v0.31.0' is not known; allowed: installed, a version such as"),
        ("v0.31.0", "; did you mean 0.31.0?"),
        (
            "latest",
            "--vllm 'latest' is not known; allowed: installed, a version such as 0.31.0, or",
        ),
        ("", "--vllm '' is not known"),
        ("0.31 ", "--vllm '0.31 ' is not known"),
        (">=0.31", "--vllm '>=0.31' is not known"),
        ("./nowhere", "--vllm ./nowhere: is not there; name a wheel (*.whl) or the folder of a"),
        ("nowhere.whl", "--vllm nowhere.whl: is not there"),
        ("empty", "--vllm empty: has neither pyproject.toml nor setup.py"),
        ("file", "--vllm file: is not a wheel"),
        ("a.whl", "--vllm a.whl: a wheel's name has its parts"),
    ],
)
def test_anything_else_is_refused(text: str, words: str) -> None:
    with pytest.raises(InstallError) as caught:
        parse_source(text, CPU)
    assert words in str(caught.value)


def test_each_vllm_has_an_environment_of_its_own(here: Path) -> None:
    def name(text: str | None) -> str:
        return parse_source(text, CPU).environment(Platform.CPU)

    assert name(None) == "vllm-cpu"
    assert name("installed") == "vllm-cpu-installed"
    assert name("0.31.0") == "vllm-cpu-0.31.0"
    assert name(WHEEL)[:-8] == "vllm-cpu-vllm-0.31.0-"
    assert name("vllm")[:-8] == "vllm-cpu-vllm-"
    assert name("old vllm")[:-8] == "vllm-cpu-old_vllm-"
    assert name("vllm") == name(str(here / "vllm"))
    (here / "empty" / "vllm").mkdir()
    (here / "empty" / "vllm" / "setup.py").touch()
    assert name("vllm") != name("empty/vllm")
