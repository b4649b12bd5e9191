"""Jobs in the words of CI systems: GitHub's matrix, a Buildkite pipeline, and plain JSON."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, Any

from vllm_parity.matrix import Tier

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vllm_parity.jobs import Job

_DOCKER = "docker#v5.13.0"
"""Buildkite's plugin that runs a step in a container."""


def github(jobs: Sequence[Job], tier: Tier | None) -> str:
    """Return one line for `matrix: ${{ fromJSON(...) }}`.

    A row's `container` is for a job's key of this name: an empty text is none.
    """
    rows = [
        {
            "name": job.name,
            "session": job.session,
            "tier": _tier(tier),
            "platform": job.platform,
            "runner": job.settings.ci.runner,
            "image": job.settings.install.image or "",
            "container": _container(job),
            "timeout": job.timeout,
            "cells": len(job.cells),
        }
        for job in jobs
    ]
    return json.dumps({"include": rows})


def _container(job: Job) -> dict[str, str] | str:
    if not job.settings.install.image:
        return ""
    options = " ".join(f"--device={device}" for device in job.settings.ci.devices)
    return {"image": job.settings.install.image, "options": options}


def as_json(jobs: Sequence[Job], tier: Tier | None) -> str:
    """Return all that is known of the jobs."""
    rows = [
        {
            "session": job.session,
            "name": job.name,
            "tier": _tier(tier),
            "platform": job.platform,
            "family": job.cells[0].family,
            "execution": job.cells[0].execution,
            "runner": job.settings.ci.runner,
            "queue": job.settings.ci.queue,
            "image": job.settings.install.image,
            "devices": job.settings.ci.devices,
            "timeout_minutes": job.timeout,
            "estimated_minutes": job.minutes,
            "install_minutes": job.settings.ci.install_minutes,
            "starts": job.starts,
            "cells": [cell.id for cell in job.cells],
        }
        for job in jobs
    ]
    return json.dumps(rows, indent=2)


def _tier(tier: Tier | None) -> Tier:
    # Without a tier everything was meant, which is what the largest one holds.
    return tier or Tier.FULL


def buildkite(
    jobs: Sequence[Job], options: Sequence[str], *, passed: Sequence[str] = (), queue: str
) -> str:
    """Return a pipeline for `buildkite-agent pipeline upload`, which takes JSON as well as YAML.

    Args:
        jobs: a step each.
        options: what chose their cells.
        passed: further options, for the runs alone.
        queue: where the last step runs, which merges what all jobs recorded.

    """
    steps = [_step(job, [*options, *passed]) for job in jobs]
    merge: dict[str, Any] = {
        "label": ":scales: verdict",
        "key": "verdict",
        "command": _command("bash", ".buildkite/merge", *options),
        "depends_on": [job.name for job in jobs],
        "allow_dependency_failure": True,
        "agents": {"queue": queue},
        "timeout_in_minutes": 15,
        "artifact_paths": ["summary.md"],
    }
    return json.dumps({"steps": [*steps, merge]}, indent=2)


def _step(job: Job, options: Sequence[str]) -> dict[str, Any]:
    step: dict[str, Any] = {
        "label": f"{job.session}: {len(job.cells)} cells",
        "key": job.name,
        "command": "bash .ci/setup && "
        + _command(".nox/ci/bin/nox", "-s", job.session, "--", *options),
        "agents": {"queue": job.settings.ci.queue},
        "timeout_in_minutes": job.timeout,
        "artifact_paths": ["results/**/*"],
    }
    if image := job.settings.install.image:
        plugin: dict[str, Any] = {
            "image": image,
            # An image of vLLM starts its server by itself.
            "entrypoint": "",
            "shell": ["/bin/bash", "-e", "-c"],
            "propagate-environment": True,
            # That is the variables of the pipeline; a secret of the agent's hooks is none of them.
            "environment": ["HF_TOKEN"],
        }
        if job.settings.ci.devices:
            plugin["devices"] = job.settings.ci.devices
        step["plugins"] = [{_DOCKER: plugin}]
    return step


def _command(*words: str) -> str:
    """Return a command line in which Buildkite, too, leaves a dollar sign alone."""
    return shlex.join(words).replace("$", "$$")
