"""The processors, and how much of them and of the memory this process may use."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from vllm_parity.hardware.files import as_number, read_number, read_pairs, read_text
from vllm_parity.hardware.machine import Device, Probe
from vllm_parity.matrix.axes import Platform

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def probe_cpu(root: Path) -> Probe:
    """Return the processors of this machine as one device."""
    facts = _cpuinfo(root)
    total, free = _memory(root)
    device = Device(
        name=facts.get("model name"),
        architecture=_architecture(facts.get("flags", "").split()),
        memory_total=total,
        memory_free=free,
        cores=_cores(root),
    )
    return Probe(platform=Platform.CPU, devices=(device,))


def _cpuinfo(root: Path) -> dict[str, str]:
    """Return what /proc/cpuinfo says of its first processor."""
    first = (read_text(root / "proc/cpuinfo") or "").partition("\n\n")[0]
    split = (line.partition(":") for line in first.splitlines())
    return {name.strip(): value.strip() for name, _, value in split if value.strip()}


def _architecture(flags: list[str]) -> str:
    if "avx512f" in flags:
        return "avx512"
    return "avx2" if "avx2" in flags else os.uname().machine


def _memory(root: Path) -> tuple[int | None, int | None]:
    """Return the total and the free memory in bytes, within the limits of every cgroup."""
    facts = read_pairs(root / "proc/meminfo") or {}
    total = _kibibytes(facts.get("MemTotal"))
    free = _kibibytes(facts.get("MemAvailable"))
    for limit, used in _limits(root):
        total = limit if total is None else min(total, limit)
        if used is not None:
            left = max(0, limit - used)
            free = left if free is None else min(free, left)
    return total, free if free is None or total is None else min(free, total)


def _kibibytes(text: str | None) -> int | None:
    number = as_number(text.removesuffix("kB").strip()) if text else None
    return None if number is None else number * 1024


def _limits(root: Path) -> Iterator[tuple[int, int | None]]:
    """Return each cgroup's limit of memory in bytes, and what is used of it.

    What was read from files and not touched since counts as unused: the kernel gives it back
    before it refuses memory.
    """
    kinds = (
        ("", "memory.max", "memory.current", "inactive_file"),
        ("memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    )
    for controller, limit_file, used_file, cache in kinds:
        for group in _groups(root, controller):
            limit = read_number(group / limit_file)  # None where it says "max"
            if limit is None:
                continue
            used = read_number(group / used_file)
            cached = as_number((read_pairs(group / "memory.stat") or {}).get(cache)) or 0
            yield limit, None if used is None else max(0, used - cached)


def _cores(root: Path) -> int:
    """Return how many processors this process may use, one at least."""
    cores = float(len(os.sched_getaffinity(0)))
    for group in _groups(root, ""):
        quota, _, period = (read_text(group / "cpu.max") or "").partition(" ")
        cores = min(cores, _share(as_number(quota), as_number(period)))
    for group in _groups(root, "cpu"):
        quota_v1 = read_number(group / "cpu.cfs_quota_us")  # None where it says -1
        cores = min(cores, _share(quota_v1, read_number(group / "cpu.cfs_period_us")))
    return max(1, int(cores))


def _share(quota: int | None, period: int | None) -> float:
    return quota / period if quota and period else float("inf")


def _groups(root: Path, controller: str) -> Iterator[Path]:
    """Return this process' cgroup and those above it; the controller "" is that of version 2.

    In a container the path may be the host's, which is not there; the limits then are those of
    the top.
    """
    top = root / "sys/fs/cgroup" / controller
    for line in (read_text(root / "proc/self/cgroup") or "").splitlines():
        _, controllers, path = (*line.split(":", 2), "", "")[:3]
        if controller in controllers.split(","):
            group = top / path.strip("/")
            while group != top:
                yield group
                group = group.parent
            break
    yield top
