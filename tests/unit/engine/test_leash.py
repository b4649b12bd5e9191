"""Nothing outlives whoever started it, grandchildren included."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

STARTS_A_GRANDCHILD = """
import subprocess, sys, time
from vllm_parity.engine import leash
leash.hold()
grandchild = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
print(grandchild.pid, flush=True)
time.sleep(60)
"""
STARTS_A_CHILD = f"""
import subprocess, sys, time
subprocess.Popen([sys.executable, "-c", {STARTS_A_GRANDCHILD!r}], start_new_session=True)
time.sleep(60)
"""


def test_group_ends_when_its_parent_is_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", STARTS_A_CHILD], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        grandchild = Path(f"/proc/{int(parent.stdout.readline())}")
        assert grandchild.exists()
        parent.kill()
        deadline = time.monotonic() + 10
        while grandchild.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not grandchild.exists()
