"""A child process with its own environment, process group and log file."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from typing import TYPE_CHECKING

from vllm_parity.engine.fingerprint import recorded
from vllm_parity.errors import ResultsError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_STOP_SECONDS = 5.0
_LAST_LINES = 12


class Process:
    """A running child.

    Its variables are set before it starts: vLLM reads many of them at import, and native code
    caches some at first use. Standard output and error go to `log`.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        *,
        variables: Mapping[str, str],
        log: Path,
        pass_fds: Sequence[int] = (),
    ) -> None:
        self.log = log
        try:
            sink = log.open("ab")
        except OSError as error:
            msg = f"{log}: cannot be written: {error.strerror}; name another folder with --results"
            raise ResultsError(msg) from None
        with sink:
            self._popen = subprocess.Popen(
                arguments,
                env=recorded({**os.environ, **variables}),
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                pass_fds=pass_fds,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """The process id, which is also the id of its process group."""
        return self._popen.pid

    def exit_status(self) -> str | None:
        """Return how the process ended, in words, or None while it runs."""
        code = self._popen.poll()
        if code is None:
            return None
        if code < 0:
            return f"was killed by {signal.Signals(-code).name}"
        return f"exited with {code}"

    def wait(self, seconds: float) -> str | None:
        """Wait for the end, at most so long, and return :meth:`exit_status`."""
        deadline = time.monotonic() + seconds
        while (status := self.exit_status()) is None and time.monotonic() < deadline:
            time.sleep(0.02)
        return status

    def stop(self) -> None:
        """End the process and its children: politely, then by force."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            if not self._signal_group(number):
                break
            self.wait(_STOP_SECONDS)
        self._popen.wait()

    def last_words(self) -> str:
        """Return the last lines of the log, without colours, ready to follow a message."""
        with self.log.open("rb") as source:
            source.seek(max(0, self.log.stat().st_size - 20_000))
            text = source.read().decode("utf-8", errors="replace")
        kept = [line for line in _ANSI.sub("", text).splitlines() if line.strip()][-_LAST_LINES:]
        return "\n".join(["", f"last lines of {self.log}:", *kept] if kept else [""]).rstrip()

    def _signal_group(self, number: signal.Signals) -> bool:
        try:
            os.killpg(self.pid, number)
        except ProcessLookupError:
            return False
        return True
