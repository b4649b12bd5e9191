"""Records of machines: written and read exactly, and refused where anything is wrong."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from machines import GIB, RECORDS

from vllm_parity.errors import ConfigError
from vllm_parity.hardware.architecture import at_least
from vllm_parity.hardware.machine import dump_machine, load_machine
from vllm_parity.matrix.axes import Platform

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

NAMES = sorted(path.stem for path in RECORDS.glob("*.json"))


@pytest.mark.parametrize("name", NAMES)
def test_record_is_read_and_written_the_same(name: str) -> None:
    path = RECORDS / f"{name}.json"
    assert dump_machine(load_machine(path)) == path.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "platform", "count", "minimum", "gibibytes"),
    [
        ("rtx4090", Platform.CUDA, 1, "sm_89", 23),
        ("rtx5090", Platform.CUDA, 1, "sm_120", 31),
        ("h100", Platform.CUDA, 1, "sm_90", 79),
        ("h100-x2", Platform.CUDA, 2, "sm_90", 79),
        ("mig-18gb", Platform.CUDA, 1, "sm_90", 16),
        ("mi300x", Platform.ROCM, 1, "gfx942", 191),
        ("no-gpu", Platform.CPU, 1, "avx2", 15),
    ],
)
def test_devices_of_the_records(
    name: str, platform: Platform, count: int, minimum: str, gibibytes: int
) -> None:
    devices = load_machine(RECORDS / f"{name}.json").devices(platform)
    assert len(devices) == count
    for device in devices:
        assert at_least(device.architecture, minimum)
        assert device.memory_total is not None
        assert device.memory_free is not None
        assert gibibytes == device.memory_total // GIB
        assert 0.9 * device.memory_total < device.memory_free < device.memory_total


def test_no_gpu_is_certain_and_a_broken_driver_cannot_tell() -> None:
    none = load_machine(RECORDS / "no-gpu.json").probe(Platform.CUDA)
    broken = load_machine(RECORDS / "broken-driver.json").probe(Platform.CUDA)
    assert (none.devices, none.problem) == ((), None)
    assert broken.devices == ()
    assert broken.problem is not None


def edit(change: Callable[[Any], object]) -> str:
    data = json.loads((RECORDS / "h100.json").read_text(encoding="utf-8"))
    change(data)
    return json.dumps(data)


def cuda(data: Any) -> Any:
    return data["probes"][1]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda d: d.pop("host"), "the key 'host' is missing"),
        (lambda d: d.update(cpu=1), "unknown key 'cpu'"),
        (lambda d: d.update(python=3.12), "python = 3.12 must be a string, not a number"),
        (lambda d: d["probes"].pop(), "probes must be of cpu, cuda, rocm, each once"),
        (lambda d: d["probes"].append(cuda(d)), "each once, not cpu, cuda, rocm, cuda"),
        (lambda d: d.update(probes=[]), "not none"),
        (lambda d: d.update(probes=[1]), "probes[0]: must be a table, not 1"),
        (lambda d: cuda(d).update(platform="tpu"), "probes[1]: platform: unknown value 'tpu'"),
        (lambda d: cuda(d).pop("note"), "probes[1]: the key 'note' is missing"),
        (lambda d: cuda(d).update(driver=570), "probes[1]: driver = 570 must be a string"),
        (lambda d: cuda(d).update(count=1), "probes[1]: unknown key 'count'"),
        (
            lambda d: cuda(d)["devices"][0].update(memory_free="80 GB"),
            "probes[1].devices[0]: memory_free = '80 GB' must be a whole number, not a string",
        ),
        (lambda d: cuda(d)["devices"][0].update(memory_total=True), "must be a whole number"),
        (lambda d: cuda(d)["devices"][0].update(memory_total=-1), "must not be negative"),
        (lambda d: cuda(d)["devices"][0].pop("id"), "probes[1].devices[0]: the key 'id' is"),
        (lambda d: cuda(d)["devices"][0].update(mig=1), "probes[1].devices[0]: unknown key 'mig'"),
    ],
)
def test_wrong_record_names_file_and_place(
    tmp_path: Path, change: Callable[[Any], object], words: str
) -> None:
    path = tmp_path / "machine.json"
    path.write_text(edit(change), encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load_machine(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is not JSON"),
        (b"\xff", "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
        (b"1" * 10_000, "is not JSON"),
        (b"[]", "must be an object"),
    ],
)
def test_file_that_is_no_record(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "machine.json"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=words):
        load_machine(path)


def test_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no such record of a machine; vllm-parity doctor"):
        load_machine(tmp_path / "none.json")
    with pytest.raises(ConfigError, match=r"cannot be read: Is a directory"):
        load_machine(tmp_path)
