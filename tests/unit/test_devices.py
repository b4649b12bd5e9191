"""Each worker's GPU, and each reason for which there cannot be so many workers."""

from __future__ import annotations

from pathlib import Path

import pytest

from vllm_parity.devices import devices_for, memory_of, most_workers
from vllm_parity.errors import ConfigError, HardwareError
from vllm_parity.families import load_config, make_plan
from vllm_parity.families.distinct import distinct
from vllm_parity.gate import Gate
from vllm_parity.hardware import load_machine
from vllm_parity.matrix import Cell, Models, Platform, Selection, Tier, load_matrix, select

MACHINES = Path(__file__).parents[1] / "data" / "machines"


def cells(*platforms: Platform) -> list[Cell]:
    every = load_matrix(None).cells
    return [next(cell for cell in every if cell.platform is one) for one in platforms]


def test_each_worker_sees_one_gpu() -> None:
    machine = load_machine(MACHINES / "h100-x2.json")
    names = [device.id for device in machine.devices(Platform.CUDA)]
    given = devices_for(cells(Platform.CUDA), machine, 2)
    assert given == [{"CUDA_VISIBLE_DEVICES": name} for name in names]


GIB = 1 << 30


def test_workers_have_the_gpus_in_turn_where_memory_allows() -> None:
    machine = load_machine(MACHINES / "h100-x2.json")
    names = [device.id for device in machine.devices(Platform.CUDA)]
    given = devices_for(cells(Platform.CUDA), machine, 3, need=lambda n: n * 20 * GIB)
    assert [one["CUDA_VISIBLE_DEVICES"] for one in given] == [names[0], names[1], names[0]]


def test_gpu_that_is_too_small_for_its_workers_is_refused() -> None:
    machine = load_machine(MACHINES / "h100-x2.json")
    words = r"-n 3: 2 workers would share NVIDIA H100.*GiB are free.*may take 100\.0 GiB"
    with pytest.raises(HardwareError, match=words):
        devices_for(cells(Platform.CUDA), machine, 3, need=lambda n: n * 50 * GIB)
    assert len(devices_for(cells(Platform.CUDA), machine, 2, need=lambda n: n * 50 * GIB)) == 2


@pytest.mark.parametrize(
    ("workers", "engines", "servers", "expected"),
    [
        (1, 40, 0, 8),  # four warm engines of each of two environments
        (1, 40, 9, 9),  # and a server
        (3, 10, 9, 13),  # no engine is on two workers
        (3, 10, 2, 12),
    ],
)
def test_workers_together_have_each_engine_once_and_a_server_each(
    workers: int, engines: int, servers: int, expected: int
) -> None:
    counts = {"hosts": 2, "engines": engines, "servers": servers}
    assert memory_of(workers, counts=counts, warm=4, largest=GIB) == expected * GIB


def test_six_workers_share_an_h200_for_what_is_to_pass_before_a_merge() -> None:
    config = load_config(None, Models.BUILT_IN)
    cells = select(config.matrix, Selection(tier=Tier.PR, platform=Platform.CUDA))
    machine = load_machine(MACHINES / "h200.json")
    gate = Gate(matrix=config.matrix, platforms=config.platforms, machine=machine)
    counts = distinct(make_plan(cell, config) for cell in cells)
    need = memory_of(6, counts=counts, warm=4, largest=gate.largest_engine(cells))
    (device,) = machine.devices(Platform.CUDA)
    assert device.memory_free is not None
    assert device.memory_free / 2 < need < device.memory_free


def test_one_worker_has_whatever_there_is() -> None:
    machine = load_machine(MACHINES / "no-gpu.json")
    assert devices_for(cells(*Platform), machine, 1) == [{}]


@pytest.mark.parametrize(
    ("machine", "platforms", "error", "message"),
    [
        ("no-gpu", [Platform.CUDA], HardwareError, "needs a GPU of cuda: there is none; take"),
        ("mi300x", [Platform.CUDA], HardwareError, "needs a GPU of cuda: there is none"),
        ("broken-driver", [Platform.CUDA], HardwareError, r"there is none \(.+\); take fewer"),
        ("h100-x2", [Platform.CPU], HardwareError, "the chosen cells run on the processors"),
        ("h100-x2", [Platform.CPU, Platform.CUDA], ConfigError, r"several platforms \(cpu, cuda"),
    ],
)
def test_workers_without_a_gpu_are_refused_with_the_reason(
    machine: str, platforms: list[Platform], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        devices_for(cells(*platforms), load_machine(MACHINES / f"{machine}.json"), 2)


@pytest.mark.parametrize(
    ("machine", "platforms", "most"),
    [
        ("h100-x2", [Platform.CUDA], 2),
        ("h100-x2", [Platform.ROCM], 1),
        ("h100-x2", [Platform.CPU], 1),
        ("h100-x2", [Platform.CPU, Platform.CUDA], 1),
        ("no-gpu", [Platform.CUDA], 1),
    ],
)
def test_most_workers(machine: str, platforms: list[Platform], most: int) -> None:
    assert most_workers(cells(*platforms), load_machine(MACHINES / f"{machine}.json")) == most
