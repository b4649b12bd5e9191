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


def reference_key(plan: Plan) -> str:
    """Return what plans have in common whose reference runs in the same engine or server."""
    return key_of(plan.variables, plan.reference.engine)


def together(plans: Iterable[Plan]) -> list[Plan]:
    """Return the plans in their order, but for this: those with one reference engine follow it."""
    groups: dict[str, list[Plan]] = {}
    for plan in plans:
        groups.setdefault(reference_key(plan), []).append(plan)
    return [plan for group in groups.values() for plan in group]
