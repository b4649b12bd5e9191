"""A host: the parent's end of one worker process, which lives as long as its environment serves."""

from __future__ import annotations

import math
import sys
import time
from multiprocessing import Pipe
from typing import TYPE_CHECKING, Any

from vllm_parity.engine import messages
from vllm_parity.engine.process import Process
from vllm_parity.errors import EngineError, Failure

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


class Host:
    """One worker process, asked one thing at a time."""

    def __init__(self, *, variables: Mapping[str, str], log: Path) -> None:
        ours, theirs = Pipe()
        with theirs:
            self.process = Process(
                [sys.executable, "-m", "vllm_parity.engine.worker", str(theirs.fileno())],
                variables=variables,
                log=log,
                pass_fds=[theirs.fileno()],
            )
        self._connection = ours
        self.failure: str | None = None
        """Why the worker can no longer be asked; None while it can."""
        self.deadline = math.inf
        """By when the cell at hand must be done, on :func:`time.monotonic`'s clock."""

    def ask(self, call: str, **arguments: Any) -> Any:  # noqa: ANN401
        """Have the worker do something, and return its result.

        Args:
            call: the name of a method of :class:`vllm_parity.engine.worker.Worker`.
            arguments: the method's arguments.

        Raises:
            EngineError: where the worker refuses (kind `refused`), dies (`died`) or takes too
                long (`timeout`). After the latter two this host is no longer usable.

        """
        try:
            messages.send(self._connection, {"call": call, **arguments})
            while not self._connection.poll(0.2):
                if time.monotonic() > self.deadline:
                    raise self._give_up(
                        Failure.TIMEOUT, f"{call!r} did not finish in the time limit"
                    )
            answer = messages.receive(self._connection)
        except (EOFError, OSError):
            status = self.process.wait(5.0) or "closed its connection"
            raise self._give_up(Failure.DIED, f"the engine host {status} during {call!r}") from None
        if "error" in answer:
            raise EngineError(self._with_log(str(answer["error"])), kind=Failure.REFUSED)
        return answer["result"]

    def close(self, reason: str = "the run is over") -> None:
        """End the worker; `reason` is why the host is of no more use, unless it failed before."""
        self._connection.close()
        if self.failure is None:
            # A worker that is idle ends by itself once its connection does.
            self.process.wait(2.0)
            self.failure = reason
        self.process.stop()

    def _give_up(self, kind: Failure, message: str) -> EngineError:
        self.failure = message
        error = EngineError(self._with_log(message), kind=kind)
        self.close()
        return error

    def _with_log(self, message: str) -> str:
        return message + self.process.last_words()
