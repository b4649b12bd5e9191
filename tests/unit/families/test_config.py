"""The configuration files fit together, or it is said which does not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from vllm_parity.configs import config_path
from vllm_parity.errors import ConfigError
from vllm_parity.families import config, load_config
from vllm_parity.families.config import read_forced
from vllm_parity.matrix import Models, Platform

if TYPE_CHECKING:
    from pathlib import Path


def changed(folder: Path, old: str, new: str) -> Path:
    """Write the project's matrix with a change at the first place of `old`."""
    text = config_path("matrix.toml").read_text(encoding="utf-8")
    assert old in text
    path = folder / "matrix.toml"
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    return path


SIZES = "requests = 2\nshortest = 12\nlongest = 30"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (SIZES, SIZES.replace("12", "31"), "workloads.n2_small: at least 2 requests, of shortest"),
        (SIZES, SIZES.replace("= 2", "= 1"), "workloads.n2_small: at least 2 requests"),
        (SIZES, SIZES.replace("longest", "long"), "workloads.n2_small: the key 'longest' is mis"),
        ("workloads.n2_small]", "workloads.n3_small]", "unknown workload 'n3_small'; allowed: n2_"),
        (
            f"[families.batch_invariance.workloads.n2_small]\n{SIZES}",
            "",
            "needs a table [families.batch_invariance.workloads.n2_small]",
        ),
    ],
)
def test_workload_that_is_wrong_is_named(tmp_path: Path, old: str, new: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(changed(tmp_path, old, new))
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("words", "forced"),
    [
        ([], {}),
        (["enforce_eager=true", "max-num-seqs=4"], {"enforce_eager": True, "max_num_seqs": 4}),
        (["dtype=half"], {"dtype": "half"}),
        (['compilation_config={"mode": 0}'], {"compilation_config": {"mode": 0}}),
    ],
)
def test_forced_arguments_are_json_or_words(words: list[str], forced: dict[str, Any]) -> None:
    assert read_forced(words) == forced


@pytest.mark.parametrize("word", ["enforce_eager", "=true", "seed=", "a b=1", ""])
def test_forced_argument_without_name_or_value_is_refused(word: str) -> None:
    with pytest.raises(ConfigError, match=r"--engine .*: expected NAME=VALUE, such as max_num"):
        read_forced([word])


def test_waivers_are_for_what_was_not_forced(tmp_path: Path) -> None:
    assert load_config().waivers
    assert load_config(forced={"seed": 1}).waivers == ()
    own = tmp_path / "waivers.toml"
    own.write_text("", encoding="utf-8")
    assert load_config(waivers=own, forced={"seed": 1}).waivers == ()


def test_project_files_fit() -> None:
    loaded = load_config()
    assert {cell.model for cell in loaded.matrix.cells} <= set(loaded.matrix.models)
    assert {cell.platform for cell in loaded.matrix.cells} <= set(loaded.platforms)


AUDIO = 'model = "tiny-qwen2-audio"\nengine'


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("tiny-qwen3", "tiny-qwen4", "/matrix.toml: cells[0]: model: unknown model 'tiny-qwen4'"),
        ("tiny-qwen3-vl", "tiny-qwen3", "apc_off: tiny-qwen3 takes text, not image"),
        (
            AUDIO,
            'model = "tiny-qwen3-vl"\nengine',
            "tiny-qwen3-vl takes text, image, video, not audio",
        ),
    ],
)
def test_what_does_not_fit_is_named(tmp_path: Path, old: str, new: str, words: str) -> None:
    path = changed(tmp_path, old, new)
    with pytest.raises(ConfigError) as caught:
        load_config(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_platform_of_a_cell_must_be_there(monkeypatch: pytest.MonkeyPatch) -> None:
    platforms = {Platform.CPU: load_config().platforms[Platform.CPU]}
    monkeypatch.setattr(config, "load_platforms", lambda: platforms)
    with pytest.raises(
        ConfigError, match=r"^platforms\.toml: no table \[(cuda|rocm)\], which cells"
    ):
        load_config()


def test_built_in_models_take_the_place_of_those_of_the_hub() -> None:
    matrix = load_config(models=Models.BUILT_IN).matrix
    assert {cell.models for cell in matrix.cells} == {Models.BUILT_IN}
    assert len({cell.id for cell in matrix.cells}) == len(matrix.cells)
    assert {cell.id for cell in matrix.cells} >= {
        "cuda-batch_invariance-image-graph-apc_off-flash_attn-enc_flash_attn-bi",
        "rocm-spec_decode-eagle-raw_logprobs-eager-apc_off",
    }


def test_another_matrix_is_read(tmp_path: Path) -> None:
    path = changed(tmp_path, "seed = 1234", "seed = 4321")
    families = load_config(path).matrix.families
    assert families != load_config().matrix.families
