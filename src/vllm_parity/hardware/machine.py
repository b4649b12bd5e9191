"""What a machine has, as data: the record that is written, read and decided by."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, TypeVar

from vllm_parity.errors import ConfigError
from vllm_parity.matrix.axes import Platform
from vllm_parity.strict import Table

if TYPE_CHECKING:
    from pathlib import Path

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Device:
    """A GPU, a slice of one, or the processors. None is what could not be read.

    `architecture` is a word such as ``sm_90``, ``gfx942`` or ``avx512``, see
    :mod:`vllm_parity.hardware.architecture`. Memory is in bytes. `id` is what the platform's
    visible-devices variable takes: a UUID, or else an index. `cores` is how many processors this
    process may use; None for a GPU.
    """

    name: str | None
    architecture: str | None
    memory_total: int | None
    memory_free: int | None
    id: str | None = None
    cores: int | None = None


@dataclass(frozen=True, kw_only=True)
class Probe:
    """What one platform finds on a machine.

    Devices were found. No device and no `problem`: there is certainly none. No device and a
    `problem`: it cannot be told whether there is one; the problem names the cause and what to
    try. A problem beside devices is about others that could not be opened. `note` says what else
    to know, such as a variable that hides a device.
    """

    platform: Platform
    devices: tuple[Device, ...] = ()
    driver: str | None = None
    problem: str | None = None
    note: str | None = None


@dataclass(frozen=True, kw_only=True)
class Machine:
    """A machine: its system, the Python that looked, and each platform's probe, each once."""

    host: str
    python: str
    probes: tuple[Probe, ...]

    def probe(self, platform: Platform) -> Probe:
        """Return what `platform` finds."""
        return next(probe for probe in self.probes if probe.platform is platform)

    def devices(self, platform: Platform) -> tuple[Device, ...]:
        """Return the devices of `platform`."""
        return self.probe(platform).devices


def dump_machine(machine: Machine) -> str:
    """Return the machine's record, which is JSON."""
    return json.dumps(asdict(machine), indent=2, ensure_ascii=False) + "\n"


def load_machine(path: Path) -> Machine:
    """Read a record that :func:`dump_machine` wrote.

    Raises:
        ConfigError: with the file and the place where anything is missing, unknown or wrong.

    """
    root = Table(_load_object(path), file=str(path))
    machine = Machine(
        host=root.take("host", str),
        python=root.take("python", str),
        probes=tuple(map(_probe, root.tables("probes"))),
    )
    root.finish()
    found = [probe.platform for probe in machine.probes]
    if sorted(found) != sorted(Platform):
        msg = (
            f"probes must be of {', '.join(Platform)}, each once, not {', '.join(found) or 'none'}"
        )
        raise root.fail(msg)
    return machine


def _load_object(path: Path) -> dict[str, object]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        msg = f"{path}: no such record of a machine; vllm-parity doctor --json prints one"
    except OSError as error:
        msg = f"{path}: cannot be read: {error.strerror}"
    except (ValueError, RecursionError) as error:
        # Besides JSONDecodeError: bytes that are not UTF-8, numbers of thousands of digits, and
        # thousands of brackets.
        msg = f"{path}: is not JSON: {error}"
    else:
        if isinstance(data, dict):
            return data
        msg = f"{path}: must be an object, as vllm-parity doctor --json prints it"
    raise ConfigError(msg) from None


def _probe(table: Table) -> Probe:
    probe = Probe(
        platform=table.enum("platform", Platform),
        devices=tuple(map(_device, table.tables("devices"))),
        driver=_optional(table, "driver", str),
        problem=_optional(table, "problem", str),
        note=_optional(table, "note", str),
    )
    table.finish()
    return probe


def _device(table: Table) -> Device:
    device = Device(
        name=_optional(table, "name", str),
        architecture=_optional(table, "architecture", str),
        memory_total=_amount(table, "memory_total"),
        memory_free=_amount(table, "memory_free"),
        id=_optional(table, "id", str),
        cores=_amount(table, "cores"),
    )
    table.finish()
    return device


def _optional(table: Table, key: str, kind: type[T]) -> T | None:
    """Return a value that may be null, but must be there."""
    if table.data.get(key, ...) is None:
        return table.take(key, type(None))
    return table.take(key, kind)


def _amount(table: Table, key: str) -> int | None:
    value = _optional(table, key, int)
    if value is not None and value < 0:
        msg = f"{key} = {value} must not be negative"
        raise table.fail(msg)
    return value
