"""How fast the judge is, as ratios within one run: ``python benchmarks/judge.py [--megabytes N]``.

Prints one JSON object. Three promises are measured, each in a process of its own:

- judging a large `batch_invariance` file, bytes to verdict, against decoding the same bytes into
  typed structs with the same JSON library: at most 2 times its time;
- its memory, against the size of the file: at most 6 times;
- a thousand small files: at most 2 seconds, command line start included.

The exit code is 1 where one does not hold.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Literal

import msgspec

from vllm_parity.judge import judge
from vllm_parity.observation import decode_observation

PROMISES = {"time_ratio": 2.0, "memory_ratio": 6.0, "small_files_seconds": 2.0}
TOKENS = 256
TOP = 5


class Output(msgspec.Struct):
    """An output, as plainly typed as it can be."""

    index: int
    token_ids: list[int]
    text: str | None
    finish_reason: str | None
    logprobs: list[dict[int, float | Literal["nan", "inf", "-inf"]]]


class Request(msgspec.Struct):
    """A request of the baseline."""

    id: str
    expect_tokens: int | None
    prompt_tokens: int | None
    outputs: list[Output]


class Arm(msgspec.Struct):
    """An arm of the baseline."""

    knobs: dict[str, object]
    witness: dict[str, object]
    requests: list[Request]


class Arms(msgspec.Struct):
    """Both arms of the baseline."""

    reference: Arm
    candidate: Arm
    control: Arm | None


class Observation(msgspec.Struct):
    """What the file is decoded into for comparison."""

    schema: str
    cell: str
    arms: Arms


def request(number: int, tokens: int, dice: random.Random, noise: float) -> str:
    """Return one request as JSON; with noise, some values differ in their last digits."""
    rows, ids = [], []
    for _ in range(tokens):
        keys = dice.sample(range(150_000), TOP)
        values = sorted((-dice.expovariate(0.5) for _ in keys), reverse=True)
        shift = noise if dice.random() < 0.5 else 0.0
        row = ",".join(f'"{k}":{v - shift:.9g}' for k, v in zip(keys, values, strict=True))
        ids.append(keys[0])
        rows.append("{" + row + "}")
    return (
        f'{{"id":"request-{number}","expect_tokens":{tokens},"prompt_tokens":83,"outputs":['
        f'{{"index":0,"token_ids":{ids},"text":"{"some " * tokens}","finish_reason":"length",'
        f'"logprobs":[{",".join(rows)}]}}]}}'
    )


def make(path: Path, megabytes: float, tokens: int = TOKENS) -> None:
    """Write an observation of about so many megabytes, half of whose positions differ a little."""
    size = len(request(0, tokens, random.Random(0), 0.0))
    count = max(1, round(megabytes * 1e6 / size / 2))
    arms = []
    for noise, batch in ((0.0, 1), (3e-6, 4)):
        requests = ",\n".join(request(n, tokens, random.Random(n), noise) for n in range(count))
        arms.append(f'{{"knobs":{{"batch_size":{batch}}},"witness":{{}},"requests":[{requests}]}}')
    path.write_text(
        '{"schema":"vllm-parity.observation/1","cell":"bench","family":"batch_invariance",'
        '"platform":"cpu","contrast":["batch_size"],'
        '"contract":{"kind":"close","atol":1e-05,"rtol":0.0},"environment":{},'
        f'"arms":{{"reference":{arms[0]},"candidate":{arms[1]},"control":null}},'
        '"error":null,"not_run":null}',
        encoding="utf-8",
    )


def timed(path: Path) -> dict[str, float]:
    """Return the best of three times of each, in turns, so that both see the same machine."""
    data = path.read_bytes()
    decoder = msgspec.json.Decoder(Observation)
    best = {"decode": float("inf"), "judge": float("inf")}
    for _ in range(3):
        start = time.perf_counter()
        decoder.decode(data)
        best["decode"] = min(best["decode"], time.perf_counter() - start)
        start = time.perf_counter()
        verdict = judge(decode_observation(data, path.name)).verdict
        best["judge"] = min(best["judge"], time.perf_counter() - start)
        if verdict != "pass":
            msg = f"the benchmark's file should pass and is {verdict}"
            raise SystemExit(msg)
    return best


def peak() -> int:
    """Return the most memory that this process ever had, in bytes."""
    # Not getrusage: a child starts with the peak of the process that forked it.
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


def memory(path: Path) -> int:
    """Return how much memory judging took above what the imports had taken."""
    before = peak()
    judge(decode_observation(path.read_bytes(), path.name))
    return peak() - before


def apart(step: str, path: Path) -> float | dict[str, float]:
    """Run one step in a fresh process: peaks and caches of one are no business of the next."""
    command = [sys.executable, __file__, "--step", step, str(path)]
    result = subprocess.run(command, check=True, capture_output=True, text=True)
    answer: float | dict[str, float] = json.loads(result.stdout)
    return answer


def small_files(folder: Path) -> float:
    """Return the seconds that the command line takes for a thousand small files."""
    make(folder / "0.json", 0.004, tokens=8)
    data = (folder / "0.json").read_bytes()
    for number in range(1, 1000):
        (folder / f"{number}.json").write_bytes(data)
    start = time.perf_counter()
    command = [sys.executable, "-m", "vllm_parity.cli", "judge", "--json", str(folder)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def main() -> int:
    """Measure, print, and say whether the promises hold."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--megabytes", type=float, default=100.0)
    parser.add_argument("--step", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.step:
        step, path = options.step
        print(json.dumps({"time": timed, "memory": memory}[step](Path(path))))
        return 0
    with tempfile.TemporaryDirectory() as name:
        big, small = Path(name, "big.json"), Path(name, "small")
        small.mkdir()
        make(big, options.megabytes)
        size = big.stat().st_size
        times = apart("time", big)
        assert isinstance(times, dict)
        used = apart("memory", big)
        assert isinstance(used, int)
        measured = {
            "megabytes": round(size / 1e6, 1),
            "decode_seconds": round(times["decode"], 3),
            "judge_seconds": round(times["judge"], 3),
            "time_ratio": round(times["judge"] / times["decode"], 2),
            "memory_ratio": round(used / size, 2),
            "small_files_seconds": round(small_files(small), 2),
        }
    held = {name: measured[name] <= limit for name, limit in PROMISES.items()}
    print(json.dumps({**measured, "promised": PROMISES, "held": held}, indent=2))
    return 0 if all(held.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
