"""Every way in which this tool gives up, each with its own cause and exit code.

::

    ParityError
    ├── ConfigError          2   a configuration file or option is wrong
    ├── FormatError          2   an observation cannot be read
    ├── ResultsError         2   results cannot be written
    ├── ModelError           2   a built-in model cannot be made
    ├── InstallError         2   vLLM cannot be installed
    ├── HardwareError        4   what was asked for by name needs what this machine lacks
    └── EngineError          7   an engine or server failed to start, crashed or hung
        └── StartError       7   it did not start, which is tried once more

Exit codes of verdicts are in :mod:`vllm_parity.verdict`. A message says what happened, where,
and what to do about it; nobody should ever need the traceback of one of these.
"""

from __future__ import annotations

from enum import StrEnum


class ParityError(Exception):
    """The base of all errors that a user may see."""

    exit_code = 2


class ConfigError(ParityError):
    """A configuration file, environment variable or option is wrong."""


class FormatError(ParityError):
    """An observation file is not what `OBSERVATION.md` describes."""


class ResultsError(ParityError):
    """Results cannot be written."""


class ModelError(ParityError):
    """A built-in model cannot be made, or is not what `models.toml` pins."""


class InstallError(ParityError):
    """vLLM cannot be installed."""


class HardwareError(ParityError):
    """What was asked for by name needs what this machine lacks."""

    exit_code = 4


class Failure(StrEnum):
    """In what way an engine or server failed."""

    DIED = "died"
    TIMEOUT = "timeout"
    REFUSED = "refused"
    """It answered with an error of its own."""
    SETTING = "setting"
    """It started, but with another setting than it was asked for."""


class EngineError(ParityError):
    """An engine or server did not start, crashed, or ran out of time.

    `kind` goes into an observation's ``error``.
    """

    exit_code = 7

    def __init__(self, message: str, *, kind: Failure) -> None:
        super().__init__(message)
        self.kind = kind

    @property
    def headline(self) -> str:
        """The first line, without the log that may follow it."""
        return str(self).splitlines()[0]

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild_engine_error, (type(self), str(self), self.kind))


class StartError(EngineError):
    """An engine or server did not start, or its port was taken: worth one more try.

    The second time it is a plain `EngineError`.
    """


def _rebuild_engine_error(cause: type[EngineError], message: str, kind: Failure) -> EngineError:
    return cause(message, kind=kind)
