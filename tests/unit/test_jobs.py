"""Jobs of CI systems: one a session of nox, with cells, limits and places."""

from __future__ import annotations

import json

import pytest

from vllm_parity.errors import ConfigError
from vllm_parity.families import load_config
from vllm_parity.jobs import check_sessions, make_jobs, options_of
from vllm_parity.matrix import Execution, Family, Platform, Selection, Switch, Tier, select
from vllm_parity.report import ci
from vllm_parity.report.plan import run_minutes

CONFIG = load_config()


def listed(wanted: Selection) -> str:
    """Return what nox would list."""
    rows = [
        {
            "session": job.session,
            "tags": [job.cells[0].platform, job.cells[0].family, job.cells[0].execution],
        }
        for job in make_jobs(select(CONFIG.matrix, wanted), CONFIG)
    ]
    return json.dumps(rows)


@pytest.mark.parametrize("tier", Tier)
def test_every_cell_of_a_tier_is_in_one_job(tier: Tier) -> None:
    cells = select(CONFIG.matrix, Selection(tier=tier))
    jobs = make_jobs(cells, CONFIG)
    assert sorted(cell.id for job in jobs for cell in job.cells) == sorted(
        cell.id for cell in cells
    )
    assert len({job.session for job in jobs}) == len({job.name for job in jobs}) == len(jobs)
    for job in jobs:
        (found,) = {(c.platform, c.family, c.execution) for c in job.cells}
        assert job.session == "{}_{}({})".format(*found)


def test_limit_leaves_twice_the_estimate() -> None:
    for job in make_jobs(CONFIG.matrix.cells, CONFIG):
        assert job.timeout >= max(10, 2 * job.minutes)
        assert job.timeout % 5 == 0
        assert job.minutes > job.settings.ci.install_minutes


@pytest.mark.parametrize(
    ("tier", "platform"),
    [(tier, platform) for tier, one in CONFIG.matrix.tiers.items() for platform in one.minutes],
)
def test_tier_is_estimated_to_take_no_more_than_the_matrix_says(
    tier: Tier, platform: Platform
) -> None:
    cells = select(CONFIG.matrix, Selection(tier=tier, platform=platform))
    minutes = run_minutes(make_jobs(cells, CONFIG))
    stated = CONFIG.matrix.tiers[tier].minutes[platform]
    assert stated / 3 <= minutes <= stated


def test_tiers_state_minutes_for_the_platforms_that_they_have() -> None:
    for tier, settings in CONFIG.matrix.tiers.items():
        have = {cell.platform for cell in CONFIG.matrix.cells if cell.is_in(tier)}
        assert have == set(settings.minutes)


def test_sessions_that_nox_lists_are_those_of_the_jobs() -> None:
    wanted = Selection(tier=Tier.PR, platform=Platform.CUDA)
    jobs = make_jobs(select(CONFIG.matrix, wanted), CONFIG)
    check_sessions(jobs, listed(Selection(tier=Tier.PR)), wanted, where="list")
    with pytest.raises(ConfigError, match=r"^list: the plan has and nox does not list: cuda_b"):
        check_sessions(jobs, "[]", wanted, where="list")
    with pytest.raises(ConfigError, match=r"nox lists and the plan lacks: cuda_\S+\(compiled\)"):
        check_sessions(jobs, listed(Selection()), wanted, where="list")


def test_options_choose_the_same_again() -> None:
    wanted = Selection(
        tier=Tier.PR,
        platform=Platform.CPU,
        family=Family.STREAMING,
        execution=Execution.EAGER,
        prefix_cache=Switch.ON,
        cells=("a*", "b"),
    )
    assert " ".join(options_of(wanted)) == (
        "--tier pr --platform cpu --family streaming --execution eager --prefix-cache on"
        " --cell a* --cell b"
    )


def test_buildkite_runs_each_job_and_merges_whatever_became_of_them() -> None:
    jobs = make_jobs(select(CONFIG.matrix, Selection(tier=Tier.PR)), CONFIG)
    steps = json.loads(ci.buildkite(jobs, ["--tier", "pr"], passed=["--vllm", "$X"], queue="cpu"))
    *runs, last = steps["steps"]
    assert [step["key"] for step in runs] == [job.name for job in jobs] == last["depends_on"]
    assert last["allow_dependency_failure"] is True
    for step, job in zip(runs, jobs, strict=True):
        assert step["agents"] == {"queue": job.settings.ci.queue}
        assert step["timeout_in_minutes"] == job.timeout
        assert f"-s '{job.session}' -- --tier pr --vllm '$$X'" in step["command"]
        assert ("plugins" in step) is bool(job.settings.install.image)
        for plugin in step.get("plugins", ()):
            ((_, settings),) = plugin.items()
            # A name alone: the value is the agent's, and stands in no pipeline.
            assert settings["environment"] == ["HF_TOKEN"]
    assert "--vllm" not in last["command"]


def test_json_names_every_cell() -> None:
    jobs = make_jobs(select(CONFIG.matrix, Selection(tier=Tier.SMOKE)), CONFIG)
    rows = json.loads(ci.as_json(jobs, Tier.SMOKE))
    assert sum(len(row["cells"]) for row in rows) == 21
    assert {row["tier"] for row in rows} == {"smoke"}
