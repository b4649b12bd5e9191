"""All hosts, engines and servers of a run: each started once, and counted."""

from __future__ import annotations

import itertools
import json
import math
import threading
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from vllm_parity.engine.host import Host
from vllm_parity.engine.offline import OfflineEngine
from vllm_parity.engine.readback import unmet
from vllm_parity.engine.server import Server, free_port
from vllm_parity.errors import ConfigError, EngineError, Failure, StartError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

_GIB = 1 << 30

Settings = dict[str, Any]
Variables = dict[str, str]


def key_of(*parts: Mapping[str, Any] | str) -> str:
    """Return the same text for equal settings, whatever their order."""
    return json.dumps(parts, sort_keys=True)


class Pool:
    """Engines by environment and settings, servers likewise.

    What does not start is a `StartError` the first time: whoever asks again gets a fresh host, or
    a server on another port. The second time is the last: it is an `EngineError`, and so is every
    later wish for the same, at once. A host that dies is an error of the cell that it dies on.
    `started` counts processes and engines; `incidents` says why one was started more than once.
    A host has `warm` engines at most: where another is wanted, those that it has end first.

    Args:
        logs: the folder for the log of each process.
        resolve: turns settings, in which a model is a name, into those for vLLM.
        stage: told in a few words what a caller waits for.
        server_port: the first server's port, the next for the next; 0 for any free ones.
        name: what the names of logs begin with, where several pools share the folder.
        warm: how many engines a host keeps.
        left_bytes: a host of which ended engines left more allocated on the GPU is replaced.

    """

    def __init__(
        self,
        *,
        logs: Path,
        resolve: Callable[[Settings], Settings],
        stage: Callable[[str], None] = lambda _: None,
        server_port: int = 0,
        name: str = "",
        warm: int = 8,
        left_bytes: float = math.inf,
    ) -> None:
        self.started: Counter[str] = Counter()
        self.incidents: list[str] = []
        self.stage = stage
        self._warm = warm
        self._left_bytes = left_bytes
        self._logs = logs
        self._prefix = f"{name}-" if name else ""
        self._resolve = resolve
        self._ports = itertools.count(server_port) if server_port else itertools.repeat(0)
        self._hosts: dict[str, Host] = {}
        self._engines: dict[tuple[Host, str], OfflineEngine] = {}
        self._unstarted: set[str] = set()
        self._failed: dict[str, EngineError] = {}
        self._servers: dict[str, Future[Server]] = {}
        self._booted: list[Server] = []
        self._booting = threading.Lock()
        self._closed = False
        # One thread: servers boot one after another while other cells run.
        self._boots = ThreadPoolExecutor(max_workers=1, thread_name_prefix="boot")

    def engine(self, variables: Variables, settings: Settings, *, deadline: float) -> OfflineEngine:
        """Return the engine with these settings, starting it, and its host, where there is none.

        Raises:
            StartError: where it does not start, for the first time.
            EngineError: where it did not the second time, or runs with another setting.

        """
        key = key_of("engine", variables, settings)
        if key in self._failed:
            raise self._failed[key]
        host = self._host(variables, deadline)
        if (host, key) not in self._engines:
            host = self._with_room(host, variables, deadline)
            try:
                self._engines[host, key] = self._start(host, variables, settings)
            except StartError as error:
                # What a failed start leaves behind in its process nobody knows.
                host.close("an engine did not start in it")
                raise self._not_started(key, "an engine", error) from None
        return self._engines[host, key]

    def boot(self, variables: Variables, settings: Settings) -> None:
        """Start a server in the background, unless there is one with these settings."""
        key = key_of("server", variables, settings)
        known = self._servers.get(key)
        if known is not None and known.done() and known.exception() is None:
            status = known.result().process.exit_status()
            if status is not None:
                self.incidents.append(f"a server {status} and was replaced")
                known = None
        if known is None:
            self._servers[key] = self._boots.submit(self._boot, variables, settings)

    def server(self, variables: Variables, settings: Settings) -> Server:
        """Return the server with these settings, once it answers.

        Raises:
            StartError: where it does not start, for the first time.
            EngineError: where it did not the second time, or runs with another setting.

        """
        key = key_of("server", variables, settings)
        if key in self._failed:
            raise self._failed[key]
        self.boot(variables, settings)
        future = self._servers[key]
        if not future.done():
            self.stage("waiting for the server")
        try:
            return future.result()
        except StartError as error:
            del self._servers[key]
            raise self._not_started(key, "a server", error) from None

    def retire(self, variables: Variables, settings: Settings) -> None:
        """End the server with these settings, if there is one; whoever asks again gets another."""
        future = self._servers.pop(key_of("server", variables, settings), None)
        if future is not None and future.done() and future.exception() is None:
            future.result().close()

    def close(self) -> None:
        """End all processes, those that still boot as well."""
        with self._booting:
            self._closed = True
        self._boots.shutdown(wait=False, cancel_futures=True)
        for host in self._hosts.values():
            host.close()
        for server in self._booted:
            server.close()
        self._boots.shutdown(wait=True)

    def _not_started(self, key: str, what: str, error: StartError) -> EngineError:
        """Record that something did not start; return what to raise for it."""
        self.incidents.append(f"{what} did not start: {error.headline}")
        if key not in self._unstarted:
            self._unstarted.add(key)
            return error
        self._failed[key] = EngineError(str(error), kind=error.kind)
        return self._failed[key]

    def _host(self, variables: Variables, deadline: float) -> Host:
        environment = key_of(variables)
        host = self._hosts.get(environment)
        if host is None or host.failure:
            if host is not None:
                self.incidents.append(f"a host was replaced: {host.failure}")
            self.started["hosts"] += 1
            self.stage("starting a host")
            log = self._logs / f"{self._prefix}host-{self.started['hosts']}.log"
            host = self._hosts[environment] = Host(variables=variables, log=log)
        host.deadline = deadline
        return host

    def _with_room(self, host: Host, variables: Variables, deadline: float) -> Host:
        """Return a host that may start one more engine: this one, or the one that replaces it."""
        mine = [pair for pair in self._engines if pair[0] is host]
        if len(mine) < self._warm:
            return host
        self.stage("ending engines")
        for pair in mine:
            del self._engines[pair]
        try:
            left = host.ask("clear")
        except EngineError:
            host.close("its engines did not end")
        else:
            if left > self._left_bytes:
                host.close(f"engines that ended left {left / _GIB:.1f} GiB of the GPU allocated")
        return self._host(variables, deadline)

    def _start(self, host: Host, variables: Variables, settings: Settings) -> OfflineEngine:
        self.started["engines"] += 1
        self.stage("starting an engine")
        name = key_of(settings)
        resolved = self._resolve(settings)
        try:
            described = host.ask("start", key=name, settings=resolved)
        except EngineError as error:
            raise StartError(str(error), kind=error.kind) from None
        engine = OfflineEngine(host, name, described)
        _check(variables, settings, engine.knobs)
        return engine

    def _boot(self, variables: Variables, settings: Settings) -> Server:
        resolved = self._resolve(settings)
        with self._booting:
            if self._closed:
                msg = "the run is over"
                raise EngineError(msg, kind=Failure.DIED)
            self.started["servers"] += 1
            log = self._logs / f"{self._prefix}server-{self.started['servers']}.log"
            try:
                port = free_port(next(self._ports))
            except ConfigError as error:
                raise StartError(str(error), kind=Failure.REFUSED) from None
            server = Server(resolved, variables=variables, log=log, port=port)
            self._booted.append(server)
        try:
            server.wait_until_ready()
        except EngineError as error:
            server.close()
            raise StartError(str(error), kind=error.kind) from None
        _check(variables, settings, server.knobs)
        return server


def _check(variables: Variables, settings: Settings, knobs: dict[str, Any]) -> None:
    refusals = unmet(settings, knobs)
    refusals += [f"{name} was lost" for name in variables if f"env.{name}" not in knobs]
    if refusals:
        msg = "a setting did not take effect: " + "; ".join(refusals)
        raise EngineError(msg, kind=Failure.SETTING)
