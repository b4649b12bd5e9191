"""The whole machine: all platforms are probed, and none stops another."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, NoReturn

from machines import FakeCard, FakeNvml

from vllm_parity.hardware import dump_machine, load_machine, probe_machine
from vllm_parity.matrix.axes import Platform

if TYPE_CHECKING:
    from pathlib import Path


def test_machine_is_probed_and_its_record_is_read(tmp_path: Path) -> None:
    machine = probe_machine(tmp_path, {}, load=lambda: FakeNvml(FakeCard()))
    assert [probe.platform for probe in machine.probes] == list(Platform)
    assert len(machine.devices(Platform.CUDA)) == 1
    assert machine.devices(Platform.ROCM) == ()
    assert machine.host.startswith("Linux ")
    path = tmp_path / "machine.json"
    path.write_text(dump_machine(machine), encoding="utf-8")
    assert load_machine(path) == machine


def test_probe_that_breaks_is_a_problem_of_its_platform_only(tmp_path: Path) -> None:
    def broken() -> NoReturn:
        msg = "surprise"
        raise RuntimeError(msg)

    machine = probe_machine(tmp_path, {}, load=broken)
    problem = machine.probe(Platform.CUDA).problem
    assert problem is not None
    assert problem.startswith("the probe of cuda failed: RuntimeError: surprise; please report")
    assert len(machine.devices(Platform.CPU)) == 1
    assert machine.probe(Platform.ROCM).problem is None


def test_this_machine_is_probed() -> None:
    assert probe_machine().devices(Platform.CPU)[0].cores


def test_only_the_standard_library_is_imported() -> None:
    heavy = "{'numpy', 'torch', 'vllm', 'httpx', 'msgspec', 'pytest', 'rich'}"
    code = f"import sys, vllm_parity.hardware; print({heavy} & set(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "set()"
