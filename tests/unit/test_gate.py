"""What a machine can run: held back is only what is known to be missing."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from vllm_parity.found import Vllm
from vllm_parity.gate import Gate
from vllm_parity.hardware import Device, Machine, Probe, load_machine
from vllm_parity.matrix import (
    Cell,
    Execution,
    Family,
    Method,
    Platform,
    load_matrix,
    load_platforms,
)
from vllm_parity.matrix.rules import Requirement

MACHINES = Path(__file__).parents[1] / "data" / "machines"
MATRIX = load_matrix()
BUILT_IN = MATRIX.built_in()
PLATFORMS = load_platforms()
NONE = Vllm(version="0.32.0", folder=None)
GIB = 1 << 30


@pytest.fixture(autouse=True)
def _token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "x")
    for name in ("HUGGING_FACE_HUB_TOKEN", "HF_TOKEN_PATH", "HF_HUB_CACHE"):
        monkeypatch.delenv(name, raising=False)


def gate(name: str, *, built_in: bool = False, vllm: Vllm | None = NONE) -> Gate:
    return Gate(
        matrix=BUILT_IN if built_in else MATRIX,
        platforms=PLATFORMS,
        machine=load_machine(MACHINES / f"{name}.json"),
        vllm=vllm,
    )


def runnable(one: Gate) -> Counter[Platform]:
    return Counter(cell.platform for cell in one.sort(one.matrix.cells).runnable)


def all_of(one: Gate, platform: Platform) -> int:
    return sum(cell.platform is platform for cell in one.matrix.cells)


def chosen(platform: Platform, model: str, method: Method | None = None) -> Cell:
    return next(
        cell
        for cell in MATRIX.cells
        if (cell.platform, cell.model, cell.method) == (platform, model, method)
    )


@pytest.mark.parametrize(
    ("machine", "platform"),
    [
        ("h100", Platform.CUDA),
        ("h200", Platform.CUDA),
        ("rtx4090", Platform.CUDA),
        ("mig-18gb", Platform.CUDA),
        ("mi300x", Platform.ROCM),
    ],
)
def test_gpu_runs_its_platform_with_built_in_models(machine: str, platform: Platform) -> None:
    one = gate(machine, built_in=True)
    assert runnable(one) == {
        platform: all_of(one, platform),
        Platform.CPU: all_of(one, Platform.CPU),
    }


def test_no_gpu_runs_the_cpu_alone() -> None:
    assert set(runnable(gate("no-gpu"))) == {Platform.CPU}
    reasons = set(gate("no-gpu").sort(MATRIX.cells).missing.values())
    assert reasons == {
        "needs an NVIDIA GPU, and there is none",
        "needs an AMD GPU, and there is none",
    }


def test_model_of_8b_fits_the_cards_of_80_gb_and_not_those_of_24() -> None:
    large = chosen(Platform.CUDA, "llama-3.1-8b-instruct", Method.EAGLE3)
    small = chosen(Platform.CUDA, "llama-3.2-1b-instruct", Method.NGRAM)
    for machine in ("rtx4090", "mig-18gb", "rtx5090"):
        reason = gate(machine).missing(large) or ""
        assert reason.startswith("needs about 37."), machine
        assert " GiB of memory for llama-3.1-8b-instruct, and " in reason
        assert gate(machine).missing(small) is None
    assert gate("h100").missing(large) is None


def test_memory_is_that_of_weights_caches_and_engines() -> None:
    cell = chosen(Platform.CUDA, "llama-3.1-8b-instruct", Method.EAGLE3)
    weights = 2 * (2 * 8_030_261_248 + 424_689_664)
    assert gate("h100").memory(cell) == weights + 2 * GIB + int(2 * 2.5 * GIB)
    text = chosen(Platform.CUDA, "qwen3-1.7b")
    assert gate("h100").memory(text) == 2 * 2_031_739_904 + GIB + int(2.5 * GIB)


def test_broken_driver_gates_nothing() -> None:
    one = gate("broken-driver", built_in=True)
    assert runnable(one)[Platform.CUDA] == all_of(one, Platform.CUDA)
    assert runnable(one)[Platform.ROCM] == 0


def test_what_could_not_be_read_gates_nothing() -> None:
    unknown = Device(name=None, architecture=None, memory_total=None, memory_free=None)
    probes = tuple(Probe(platform=platform, devices=(unknown,)) for platform in Platform)
    machine = Machine(host="Linux", python="3.11", probes=probes)
    one = replace(gate("no-gpu", built_in=True), machine=machine, vllm=None)
    assert not one.sort(one.matrix.cells).missing


def test_old_architecture_is_named() -> None:
    old = Device(name="Tesla T4", architecture="sm_75", memory_total=GIB, memory_free=GIB)
    one = gate("h100")
    probes = tuple(
        replace(probe, devices=(old,)) if probe.platform is Platform.CUDA else probe
        for probe in one.machine.probes
    )
    one = replace(one, machine=replace(one.machine, probes=probes))
    reason = one.missing(chosen(Platform.CUDA, "qwen3-1.7b"))
    assert reason == "needs sm_80 or above, and Tesla T4 is sm_75 (vLLM's least)"


@pytest.mark.parametrize(
    ("requirement", "reason"),
    [
        ({"devices": 2}, "needs 2 GPUs, and there are 1 (a test)"),
        ({"memory_gib": 500.0}, "needs 500.0 GiB, "),
        (
            {"architecture": "sm_100"},
            "needs sm_100 or above, and NVIDIA H100 80GB HBM3 is sm_90 (a",
        ),
        ({"vllm": "0.33"}, "needs vLLM 0.33, and 0.32.0 was found (a test)"),
        ({"vllm": "0.32.1"}, "needs vLLM 0.32.1, and 0.32.0 was found (a test)"),
        ({"vllm": "0.32"}, None),
        ({"architecture": "sm_90"}, None),
        ({"devices": 1}, None),
        ({"engine_arguments": ("anything",)}, None),
    ],
)
def test_requirement(requirement: dict[str, object], reason: str | None) -> None:
    needs = Requirement(when=(("platform", (Platform.CUDA,)),), why="a test", **requirement)  # type: ignore[arg-type]
    one = replace(gate("h100"), matrix=replace(MATRIX, requirements=(needs,)))
    found = one.missing(chosen(Platform.CUDA, "qwen3-1.7b"))
    assert found is None if reason is None else (found or "").startswith(reason)
    assert one.missing(chosen(Platform.CPU, "tiny-qwen3")) is None


def test_requirements_of_rocm_hold_for_the_version_that_was_found() -> None:
    cell = next(
        c for c in MATRIX.cells if c.platform is Platform.ROCM and c.batch_invariant == "on"
    )
    assert gate("mi300x").missing(cell) is None
    assert gate("mi300x", vllm=None).missing(cell) is None
    old = Vllm(version="0.26.0", folder=None)
    assert (gate("mi300x", vllm=old).missing(cell) or "").startswith("needs vLLM 0.32.0, and 0.26")


def test_model_without_a_revision_is_not_run() -> None:
    head = chosen(Platform.CUDA, "llama-3.1-8b-instruct", Method.EAGLE)
    assert gate("h100").missing(head) == (
        "models.toml pins no revision of llama-3.1-8b-eagle; where the hub can be reached,"
        " `vllm-parity models --pin llama-3.1-8b-eagle` writes it"
    )


def test_model_that_needs_a_token_is_run_with_one_or_where_it_is_downloaded(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cell = chosen(Platform.CUDA, "ultravox-v0.5-llama-3.2-1b")
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    monkeypatch.delenv("HF_TOKEN")
    assert "needs a token of the hub" in (gate("h100").missing(cell) or "")
    snapshots = tmp_path / "hub" / "models--fixie-ai--ultravox-v0_5-llama-3_2-1b" / "snapshots"
    (snapshots / "b95bec8ab291eeb04b5cd600dd473377f6b79026").mkdir(parents=True)
    assert gate("h100").missing(cell) is None
    monkeypatch.setenv("HF_HOME", str(tmp_path / "other"))
    assert gate("h100").missing(cell) is not None
    monkeypatch.setenv("HF_TOKEN", "x")
    assert gate("h100").missing(cell) is None


def test_every_execution_of_a_family_runs_on_an_h100() -> None:
    found = gate("h100").sort(MATRIX.cells).runnable
    pairs = {(cell.family, cell.execution) for cell in found if cell.platform is Platform.CUDA}
    assert pairs == {(family, execution) for family in Family for execution in Execution}
