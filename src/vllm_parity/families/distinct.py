"""What plans share: how many environments, engines and servers all of them need."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vllm_parity.engine.pool import key_of
from vllm_parity.matrix import Family

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vllm_parity.families.plan import Plan


def distinct(plans: Iterable[Plan]) -> dict[str, int]:
    """Count the environments, settings and server settings of some plans."""
    hosts, engines, servers = set(), set(), set()
    for plan in plans:
        environment = key_of(plan.variables)
        for arm in (plan.reference, plan.candidate):
            settings = key_of(plan.variables, arm.engine)
            if plan.cell.family is Family.STREAMING:
                servers.add(settings)
            else:
                hosts.add(environment)
                engines.add(settings)
    return {"hosts": len(hosts), "engines": len(engines), "servers": len(servers)}
