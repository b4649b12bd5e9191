"""The long fuzz: ``python tests/fuzz/fuzz_judge.py [--count N] [--seed S]``.

Malformed observation files, changed as JSON and as bytes, must each give a verdict or a format
error: never a traceback, a hang, or more than four times their size in memory (with a megabyte to
spare, which is the base of any small file). Prints one JSON object; the exit code is 1 where a file
broke a promise, and that file is kept.
"""

from __future__ import annotations

import argparse
import copy
import json
import random
import re
import signal
import sys
import time
import tracemalloc
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

from vllm_parity.errors import FormatError
from vllm_parity.judge import explain, judge
from vllm_parity.observation import decode_observation

DATA = Path(__file__).parents[1] / "data"
SECONDS = 10
TIMES = 4
SPARE = 1 << 20
LARGE = 200_000

STRANGE: list[Any] = [
    None, True, False, 0, 1, -1, 7, 2**31, 2**63, 2**64, 10**30, -(2**63) - 1, 0.5, -0.0, 1e308,
    -1e39, "", "x", "nan", "inf", "-inf", "-9999", "\x00", "\u2028", "\U0001f600", "\ufffd",
    "[DONE]", [], [[]], {}, {"": {}}, [None], "bitwise", "streaming", "close", -9999.0, [0] * 50,
]  # fmt: skip
BYTES = [b"", b"{", b"}", b"[", b"]", b",", b":", b'"', b"\\", b"\xff", b"\x00", b"1e999", b"-"]
BYTES.append(b"\\ud800")


class Hang(Exception):  # noqa: N818
    """A file took too long."""


def places(value: Any) -> list[tuple[Any, Any]]:
    """Return every container and key of a document."""
    found = []
    stack = [value]
    while stack:
        at = stack.pop()
        keys = list(at) if isinstance(at, dict) else range(len(at))
        for key in keys:
            found.append((at, key))
            if isinstance(at[key], dict | list):
                stack.append(at[key])
    return found


def change(document: Any, dice: random.Random) -> None:
    """Change one place of a document as JSON."""
    spots = places(document)
    at, key = dice.choice(spots)
    kind = dice.randrange(9)
    if kind == 0:
        del at[key]
    elif kind == 1:
        other, name = dice.choice(spots)
        at[key] = copy.deepcopy(other[name])
    elif kind == 2 and isinstance(at, list):
        at.extend([copy.deepcopy(at[key])] * dice.randrange(1, 4))
    elif kind == 3 and isinstance(at, list):
        dice.shuffle(at)
    elif kind == 4 and isinstance(at[key], int | float):
        at[key] = at[key] * dice.choice([-1, 0, 2, 1.0000001, 1e30])
    elif kind == 5 and isinstance(at, dict):
        at[dice.choice(["id", "index", "5", "logprobs", "", "kind"])] = at.pop(key)
    elif kind == 6:
        at[key] = f"@deep {dice.choice([1, 10, 200, 400, 600, 900, 1500, 9000])}"
    else:
        at[key] = copy.deepcopy(dice.choice(STRANGE))


def damage(data: bytes, dice: random.Random) -> bytes:
    """Change a file as bytes."""
    for _ in range(dice.randrange(1, 4)):
        at = dice.randrange(len(data) + 1)
        kind = dice.randrange(6)
        if kind == 0:
            data = data[:at]
        elif kind == 1:
            data = data[:at] + dice.choice(BYTES) + data[at:]
        elif kind == 2 and at < len(data):
            data = data[:at] + bytes([data[at] ^ 1 << dice.randrange(8)]) + data[at + 1 :]
        elif kind == 3:
            data = data[:at] + data[at + dice.randrange(40) :]
        elif kind == 4:
            data = data[:at] + data[at : at + dice.randrange(200)] * 2 + data[at:]
        else:
            data = data[:at] + dice.choice(BYTES) * dice.choice([2, 50, 3000]) + data[at:]
    return data


def dump(document: Any) -> bytes:
    """Return a document as bytes, nested as deep as its marks say."""
    return re.sub(rb'"@deep (\d+)"', nested, json.dumps(document).encode())


def nested(match: re.Match[bytes]) -> bytes:
    """Return lists in lists, or objects in objects."""
    depth = int(match[1])
    if depth % 200:
        return b"[" * depth + b"]" * depth
    return b'{"x":' * depth + b"1" + b"}" * depth


def enlarged(document: Any, dice: random.Random) -> Any:
    """Repeat what can be repeated until the file is large: memory shows there alone."""
    for name in ("reference", "candidate", "control"):
        arm = document["arms"].get(name)
        if arm:
            size = max(1, len(dump(arm["requests"])))
            copies = range(LARGE // size + 1)
            arm["requests"] = [
                {**copy.deepcopy(request), "id": f"{request['id']}-{number}"}
                for number in copies
                for request in arm["requests"]
            ]
    for _ in range(dice.randrange(4)):
        change(document, dice)
    return document


def attempt(data: bytes, *, measure: bool) -> str:
    """Judge a file and return what came of it; raise where a promise is broken."""
    if measure:
        tracemalloc.start()
    signal.alarm(SECONDS)
    try:
        observation = decode_observation(data, "fuzz.json")
        judgement = judge(observation)
        result = str(judgement.verdict)
        explain(observation, judgement)
        json.dumps(judgement.as_dict(), allow_nan=False)
    except FormatError as error:
        result = "format error"
        if not str(error).strip():
            msg = "a format error says nothing"
            raise AssertionError(msg) from error
    finally:
        signal.alarm(0)
        peak = tracemalloc.get_traced_memory()[1] if measure else 0
        tracemalloc.stop()
    if peak > TIMES * len(data) + SPARE:
        msg = f"took {peak} bytes for a file of {len(data)}"
        raise MemoryError(msg)
    return result


def ring(_signal: int, _frame: FrameType | None) -> None:
    """End what hangs."""
    raise Hang


def main() -> int:
    """Fuzz, print what came of it, and say whether every promise held."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, default=Path("fuzz-failures"))
    options = parser.parse_args()
    signal.signal(signal.SIGALRM, ring)
    originals = [json.loads(path.read_bytes()) for path in sorted(DATA.glob("good-*.json"))]
    texts = [dump(document) for document in originals]
    found: Counter[str] = Counter()
    failures = 0
    start = time.perf_counter()
    for number in range(options.count):
        dice = random.Random(f"{options.seed}-{number}")
        which = dice.randrange(len(originals))
        large = number % 1000 == 999
        if large:
            data = dump(enlarged(json.loads(texts[which]), dice))
        elif dice.random() < 0.6:
            document = json.loads(texts[which])
            for _ in range(dice.choice([1, 1, 2, 5])):
                change(document, dice)
            data = dump(document)
        else:
            data = damage(texts[which], dice)
        try:
            found[attempt(data, measure=large or number % 100 == 0)] += 1
        except Exception as error:  # noqa: BLE001 - all of them are what this looks for
            failures += 1
            options.keep.mkdir(exist_ok=True)
            path = options.keep / f"{options.seed}-{number}.json"
            path.write_bytes(data)
            print(f"{path}: {type(error).__name__}: {error}", file=sys.stderr)
    seconds = round(time.perf_counter() - start, 1)
    print(json.dumps({"files": options.count, "seconds": seconds, "failures": failures, **found}))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
