"""A child process that does not outlive whoever started it.

PR_SET_PDEATHSIG would be less, but it covers neither grandchildren nor a server that boots with
signals blocked.
"""

from __future__ import annotations

import os
import signal
import threading
import time

_SECONDS = 0.5


def hold() -> None:
    """Watch the parent from a thread, and kill this whole process group when it is gone."""
    threading.Thread(target=_watch, args=(os.getppid(),), name="leash", daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_SECONDS)
    os.killpg(0, signal.SIGKILL)
