"""The processors: what they are, and how much of them and of the memory may be used."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from machines import GIB, write

from vllm_parity.hardware.cpu import probe_cpu

if TYPE_CHECKING:
    from pathlib import Path

    from vllm_parity.hardware.machine import Device

CPUINFO = """processor\t: 0
model name\t: AMD EPYC 9654 96-Core Processor
power management:
flags\t\t: fpu sse2 {flags}

processor\t: 1
flags\t\t: avx512f"""
MEMINFO = {"/proc/meminfo": f"MemTotal: {64 << 20} kB\nMemAvailable: {60 << 20} kB\nOdd:"}
V2 = "/sys/fs/cgroup"


def device(root: Path, files: dict[str, str]) -> Device:
    (found,) = probe_cpu(write(root, files)).devices
    return found


def memory(root: Path, files: dict[str, str]) -> tuple[int | None, int | None]:
    found = device(root, MEMINFO | files)
    return found.memory_total, found.memory_free


@pytest.fixture(autouse=True)
def sixteen_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: set(range(16)))


@pytest.mark.parametrize(
    ("flags", "architecture"),
    [("avx2 avx512f", "avx512"), ("avx2", "avx2"), ("", os.uname().machine)],
)
def test_architecture(tmp_path: Path, flags: str, architecture: str) -> None:
    found = device(tmp_path, {"/proc/cpuinfo": CPUINFO.format(flags=flags)})
    assert found.name == "AMD EPYC 9654 96-Core Processor"
    assert found.architecture == architecture


def test_nothing_readable_is_unknown(tmp_path: Path) -> None:
    found = device(tmp_path, {})
    assert (found.name, found.architecture) == (None, os.uname().machine)
    assert (found.memory_total, found.memory_free, found.cores) == (None, None, 16)


@pytest.mark.parametrize(
    ("files", "total", "free"),
    [
        ({}, 64, 60),
        ({f"{V2}/memory.max": "max"}, 64, 60),
        ({f"{V2}/memory.max": str(8 * GIB), f"{V2}/memory.current": str(3 * GIB)}, 8, 5),
        ({f"{V2}/memory.max": str(8 * GIB)}, 8, 8),
        ({f"{V2}/memory.max": str(2 * GIB), f"{V2}/memory.current": str(3 * GIB)}, 2, 0),
        (
            {
                f"{V2}/memory.max": str(8 * GIB),
                f"{V2}/memory.current": str(7 * GIB),
                f"{V2}/memory.stat": f"anon {GIB}\ninactive_file {6 * GIB}",
            },
            8,
            7,
        ),
        (
            {
                "/proc/self/cgroup": "0::/a/b",
                f"{V2}/a/memory.max": str(4 * GIB),
                f"{V2}/a/memory.current": str(GIB),
                f"{V2}/a/b/memory.max": "max",
                f"{V2}/memory.max": str(32 * GIB),
            },
            4,
            3,
        ),
        (
            {
                "/proc/self/cgroup": "4:memory:/docker/x\n3:cpu,cpuacct:/docker/x\n0::/",
                f"{V2}/memory/memory.limit_in_bytes": str(16 * GIB),
                f"{V2}/memory/memory.usage_in_bytes": str(6 * GIB),
                f"{V2}/memory/memory.stat": f"total_inactive_file {GIB}",
            },
            16,
            11,
        ),
        ({f"{V2}/memory/memory.limit_in_bytes": "9223372036854771712"}, 64, 60),
        ({f"{V2}/memory.max": "broken"}, 64, 60),
        ({"/proc/self/cgroup": "broken\n0::/../x"}, 64, 60),
    ],
)
def test_memory_within_the_limits(
    tmp_path: Path, files: dict[str, str], total: int, free: int
) -> None:
    assert memory(tmp_path, files) == (total * GIB, free * GIB)


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({}, 16),
        ({f"{V2}/cpu.max": "max 100000"}, 16),
        ({f"{V2}/cpu.max": "450000 100000"}, 4),
        ({f"{V2}/cpu.max": "50000 100000"}, 1),
        ({f"{V2}/cpu.max": "0 0"}, 16),
        ({f"{V2}/cpu/cpu.cfs_quota_us": "-1", f"{V2}/cpu/cpu.cfs_period_us": "100000"}, 16),
        (
            {
                "/proc/self/cgroup": "3:cpu,cpuacct:/x",
                f"{V2}/cpu/x/cpu.cfs_quota_us": "200000",
                f"{V2}/cpu/x/cpu.cfs_period_us": "100000",
            },
            2,
        ),
    ],
)
def test_cores_within_the_limits(tmp_path: Path, files: dict[str, str], cores: int) -> None:
    assert device(tmp_path, files).cores == cores
