"""Keep observations of a real device as test data: `python tests/data/record.py FOLDER RUN...`.

FOLDER is such as tests/data/recorded/h200-0.26.0, RUN a run's folder under results/, or a record
with a word that tells it from another of the same cell, RECORD=WORD. What judging does not need is
left out. Verdicts are written as they are judged today: read the difference before it is committed.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec

from vllm_parity.judge import judge
from vllm_parity.observation import Arm, Observation, encode_observation, load_observation


def main(arguments: list[str]) -> None:
    """Write the records and their verdicts."""
    folder, *sources = map(Path, arguments)
    folder.mkdir(parents=True, exist_ok=True)
    for source in sources:
        for path, word in records(source):
            observation = trimmed(load_observation(path))
            name = observation.cell + (f".{word}" if word else "")
            (folder / f"{name}.json").write_bytes(compact(encode_observation(observation)))
    told = {path.name: verdict(load_observation(path)) for path in sorted(folder.glob("*.json"))}
    # Beside the folder, so that all in it is what `vllm-parity judge FOLDER` reads.
    folder.with_name(f"{folder.name}.verdicts.json").write_text(
        json.dumps(told, indent=1) + "\n", encoding="utf-8"
    )


def records(source: Path) -> Iterator[tuple[Path, str]]:
    """Yield records, each with the word that tells it apart."""
    if source.is_dir():
        yield from ((path, "") for path in sorted(source.glob("*.json")))
    else:
        path, _, word = str(source).partition("=")
        yield Path(path), word


def trimmed(observation: Observation) -> Observation:
    """Leave out the ends of prompts, which are for people."""
    arms = observation.arms
    kept = {
        name: trimmed_arm(getattr(arms, name)) for name in ("reference", "candidate", "control")
    }
    return msgspec.structs.replace(observation, arms=msgspec.structs.replace(arms, **kept))


def trimmed_arm(arm: Arm | None) -> Arm | None:
    """Leave out the ends of an arm's prompts."""
    if arm is None:
        return None
    requests = [msgspec.structs.replace(one, prompt_tail=None) for one in arm.requests]
    return msgspec.structs.replace(arm, requests=requests)


def compact(data: bytes) -> bytes:
    """Return JSON without spaces."""
    return json.dumps(json.loads(data), separators=(",", ":")).encode() + b"\n"


def verdict(observation: Observation) -> dict[str, object]:
    """Return what an observation is judged to be: verdict, codes, the largest difference."""
    judgement = judge(observation)
    return {
        "verdict": judgement.verdict,
        "codes": sorted({reason.code for reason in judgement.reasons}),
        "worst": judgement.worst and judgement.worst.abs,
        "positions": judgement.compared.positions,
    }


if __name__ == "__main__":
    main(sys.argv[1:])
