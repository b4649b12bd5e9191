"""Servers boot a little ahead of the cells that need them, and end when none is to come."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from vllm_parity import session
from vllm_parity.engine.pool import key_of
from vllm_parity.families import load_config, make_plan
from vllm_parity.families.distinct import together
from vllm_parity.matrix import Cell, Family, Platform, Selection, select
from vllm_parity.observe import not_run
from vllm_parity.session import Session, Share

CONFIG = load_config()


def in_order(platform: Platform) -> list[Cell]:
    """Return the streaming cells of a platform as a run has them: those of a server in a row."""
    cells = select(CONFIG.matrix, Selection(platform=platform, family=Family.STREAMING))
    return [plan.cell for plan in together(make_plan(cell, CONFIG) for cell in cells)]


CELLS = in_order(Platform.CPU)


class FakePool:
    """A pool that knows which servers are alive."""

    def __init__(self, **given: Any) -> None:
        self.limits = (given["warm"], given["left_bytes"])
        self.started: Counter[str] = Counter()
        self.incidents: list[str] = []
        self.alive: list[str] = []
        self.most = 0

    def boot(self, *server: Any) -> None:
        if key_of(*server) not in self.alive:
            self.alive.append(key_of(*server))
            self.started["servers"] += 1

    def retire(self, *server: Any) -> None:
        self.alive.remove(key_of(*server))

    def close(self) -> None:
        self.alive.clear()


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Session]:
    def observe(plan: Any, pool: Any, *, project: dict[str, str]) -> Any:
        server = (plan.variables, plan.reference.engine)
        pool.boot(*server)
        pool.most = max(pool.most, len(pool.alive))
        return not_run(plan.cell, CONFIG, "a test", project=project)

    monkeypatch.setattr(session, "Pool", FakePool)
    monkeypatch.setattr(session, "observe", observe)
    return partial(Session, CONFIG, results=tmp_path)


@pytest.fixture
def one(make: Callable[..., Session]) -> Session:
    return make(cells=CELLS)


@pytest.mark.parametrize("platform", Platform)
def test_no_more_than_two_servers_are_alive_and_each_is_started_once(
    make: Callable[..., Session], platform: Platform
) -> None:
    cells = in_order(platform)
    run = make(cells=cells)
    for cell in cells:
        run.run(cell)
    assert run.started["servers"] == run.distinct["servers"] > 6
    assert run.pool.most == 2  # type: ignore[attr-defined]
    assert run.pool.alive == []  # type: ignore[attr-defined]


def test_two_boot_before_the_first_cell_runs(one: Session) -> None:
    assert len(one.pool.alive) == 2  # type: ignore[attr-defined]


def test_cell_that_comes_again_has_its_server(one: Session) -> None:
    for cell in (CELLS[0], CELLS[0], CELLS[-2]):
        one.run(cell)
    assert one.started["servers"] <= one.distinct["servers"]


def test_worker_has_one_server_at_a_time(make: Callable[..., Session]) -> None:
    worker = make(cells=CELLS, share=Share(run_id="r", name="gw0", number=0))
    assert worker.pool.alive == []  # type: ignore[attr-defined]
    for cell in CELLS:
        worker.run(cell)
    assert worker.pool.most == 1  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("platforms", "limits"),
    [
        ([Platform.CPU], (16, math.inf)),
        ([Platform.CUDA], (4, 4.0 * (1 << 30))),
        ([Platform.CPU, Platform.CUDA], (4, 4.0 * (1 << 30))),
    ],
)
def test_pool_keeps_what_every_platform_allows(
    make: Callable[..., Session], platforms: list[Platform], limits: tuple[int, float]
) -> None:
    cells = [cell for cell in CONFIG.matrix.cells if cell.platform in platforms]
    assert make(cells=cells).pool.limits == limits  # type: ignore[attr-defined]
