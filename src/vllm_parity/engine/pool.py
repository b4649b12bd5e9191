"""All hosts, engines and servers of a run: each started once, and counted."""

from __future__ import annotations

import itertools
import json
import time
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from vllm_parity.engine.host import Host
from vllm_parity.engine.offline import OfflineEngine
from vllm_parity.engine.readback import unmet
from vllm_parity.engine.server import Server, free_port
from vllm_parity.errors import EngineError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

Settings = dict[str, Any]
Variables = dict[str, str]


def key_of(value: Mapping[str, Any]) -> str:
    """Return the same text for equal settings, whatever their order."""
    return json.dumps(value, sort_keys=True)


class Pool:
    """Engines by environment and settings, servers by settings.

    Args:
        logs: the folder for the log of each process.
        resolve: turns settings, in which a model is a name, into those for vLLM.
        stage: told in a few words what a caller waits for.
        server_port: the first server's port, the next for the next; 0 for any free ones.

    """

    def __init__(
        self,
        *,
        logs: Path,
        resolve: Callable[[Settings], Settings],
        stage: Callable[[str], None] = lambda _: None,
        server_port: int = 0,
    ) -> None:
        self.started: Counter[str] = Counter()
        self.incidents: list[str] = []
        self.stage = stage
        self._logs = logs
        self._resolve = resolve
        self._ports = itertools.count(server_port) if server_port else itertools.repeat(0)
        self._hosts: dict[str, Host] = {}
        self._engines: dict[tuple[str, str], OfflineEngine] = {}
        self._servers: dict[str, Future[Server]] = {}
        # One thread: servers boot one after another while other cells run.
        self._boots = ThreadPoolExecutor(max_workers=1, thread_name_prefix="boot")

    def engine(self, variables: Variables, settings: Settings, *, deadline: float) -> OfflineEngine:
        """Return the engine with these settings, starting it, and its host, where there is none.

        An engine that does not start is tried once more in a fresh host; both attempts are kept
        in `incidents`.

        Raises:
            EngineError: where the second attempt fails as well, or time is up.

        """
        environment = key_of(variables)
        host = self._hosts.get(environment)
        if host is None or not host.usable:
            host = self._new_host(variables)
            self._adopt(environment, host)
        host.deadline = deadline
        key = (environment, key_of(settings))
        if key not in self._engines:
            try:
                self._engines[key] = self._start(host, settings)
            except EngineError as error:
                if error.kind not in {"refused", "died"}:
                    raise
                fresh, engine = self._try_again(variables, settings, deadline, error)
                self._adopt(environment, fresh)
                self._engines[key] = engine
        return self._engines[key]

    def boot(self, variables: Variables, settings: Settings) -> None:
        """Start a server in the background, unless there is one with these settings."""
        key = key_of({"variables": variables, "settings": settings})
        known = self._servers.get(key)
        if known is None or (known.done() and not _alive(known)):
            self._servers[key] = self._boots.submit(self._boot, variables, settings)

    def server(self, variables: Variables, settings: Settings) -> Server:
        """Return the server with these settings, once it answers.

        Raises:
            EngineError: where it does not start.

        """
        self.boot(variables, settings)
        future = self._servers[key_of({"variables": variables, "settings": settings})]
        if not future.done():
            self.stage("waiting for the server")
        return future.result()

    def close(self) -> None:
        """End all processes."""
        self._boots.shutdown(wait=True, cancel_futures=True)
        for host in self._hosts.values():
            if host.usable:
                host.close()
        for future in self._servers.values():
            if _alive(future):
                future.result().close()

    def _new_host(self, variables: Variables) -> Host:
        self.started["hosts"] += 1
        self.stage("starting a host")
        return Host(variables=variables, log=self._logs / f"host-{self.started['hosts']}.log")

    def _adopt(self, environment: str, host: Host) -> None:
        previous = self._hosts.get(environment)
        if previous is not None and previous.usable:
            previous.close()
        self._engines = {
            key: engine for key, engine in self._engines.items() if key[0] != environment
        }
        self._hosts[environment] = host

    def _start(self, host: Host, settings: Settings) -> OfflineEngine:
        self.started["engines"] += 1
        self.stage("starting an engine")
        name = key_of(settings)
        resolved = self._resolve(settings)
        engine = OfflineEngine(host, name, host.ask("start", key=name, settings=resolved))
        if refusals := unmet(settings, engine.knobs):
            msg = "the engine did not take a setting: " + "; ".join(refusals)
            raise EngineError(msg, kind="setting")
        return engine

    def _try_again(
        self, variables: Variables, settings: Settings, deadline: float, first: EngineError
    ) -> tuple[Host, OfflineEngine]:
        self.incidents.append(f"an engine did not start, tried again in a fresh host: {first}")
        fresh = self._new_host(variables)
        fresh.deadline = deadline
        try:
            return fresh, self._start(fresh, settings)
        except EngineError as second:
            if fresh.usable:
                fresh.close()
            msg = f"{second}\n(the same in a first attempt: {str(first).splitlines()[0]})"
            raise EngineError(msg, kind=second.kind) from None

    def _boot(self, variables: Variables, settings: Settings) -> Server:
        self.started["servers"] += 1
        number = self.started["servers"]
        port = free_port(next(self._ports))
        log = self._logs / f"server-{number}.log"
        server = Server(self._resolve(settings), variables=variables, log=log, port=port)
        if refusals := unmet(settings, server.knobs):
            server.close()
            msg = "the server did not take a setting: " + "; ".join(refusals)
            raise EngineError(msg, kind="setting")
        return server


def _alive(future: Future[Server]) -> bool:
    if not future.done() or future.cancelled() or future.exception() is not None:
        return False
    return future.result().process.exit_status() is None


def deadline_in(seconds: float) -> float:
    """Return the moment in so many seconds, on :func:`time.monotonic`'s clock."""
    return time.monotonic() + seconds
