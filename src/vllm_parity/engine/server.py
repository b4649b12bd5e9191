"""vLLM's OpenAI server as a child process on this machine's loopback address."""

from __future__ import annotations

import json
import math
import secrets
import socket
import sys
import time
from typing import TYPE_CHECKING, Any

import httpx

from vllm_parity.engine.process import Process
from vllm_parity.engine.readback import effective_knobs
from vllm_parity.errors import ConfigError, EngineError, Failure, FormatError
from vllm_parity.judge.transcript import parse_events

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from vllm_parity.engine.trace import TracedStep

ADDRESS = "127.0.0.1"
MODEL_NAME = "model"
_BOOT_SECONDS = 300.0


class Server:
    """A running server, shared by all cells with the same settings."""

    def __init__(
        self, settings: Mapping[str, Any], *, variables: Mapping[str, str], log: Path, port: int
    ) -> None:
        """Start the process; :meth:`wait_until_ready` waits for it."""
        self.deadline = math.inf
        """By when the cell at hand must be done, on :func:`time.monotonic`'s clock."""
        key = secrets.token_urlsafe(24)
        self.process = Process(
            [sys.executable, "-m", "vllm_parity.engine.serve", *_arguments(settings, port)],
            # By environment, since a command line can be read by every user of the machine.
            variables={**variables, "VLLM_API_KEY": key},
            log=log,
        )
        self._client = httpx.Client(
            base_url=f"http://{ADDRESS}:{port}",
            headers={"Authorization": f"Bearer {key}"},
            timeout=_BOOT_SECONDS,
            trust_env=False,
        )
        self.environment: dict[str, str] = {}
        self.knobs: dict[str, Any] = {}
        self.witness: dict[str, int] = {}

    def wait_until_ready(self) -> None:
        """Wait until the server answers, then have it describe itself.

        Raises:
            EngineError: where the server ends (kind `died`) or does not answer in time
                (`timeout`).

        """
        self._wait_for_health()
        described = self.rpc("parity_describe")
        self.environment = described["environment"]
        self.knobs = effective_knobs(described)
        self.witness = described["witness"]

    def rpc(self, method: str, *arguments: object) -> Any:  # noqa: ANN401
        """Call a method of `ParityExtension` in the worker, and return its result."""
        body = {"method": method, "args": [str(argument) for argument in arguments]}
        return self._post("/collective_rpc", body).json()["results"][0]

    def chat(self, body: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to a chat completion request, in one piece."""
        answer: dict[str, Any] = self._post("/v1/chat/completions", body).json()
        return answer

    def chat_stream(self, body: dict[str, Any]) -> tuple[list[Any], bool, int]:
        """Return the answer to the same request streamed, as :func:`parse_events` reads it.

        What is no stream of JSON comes back as one event, which a judge calls what it is.
        """
        content = self._post("/v1/chat/completions", {**body, "stream": True}).content
        try:
            return parse_events(content, "stream")
        except FormatError as error:
            return [str(error)], False, 0

    def set_weight(
        self, name: str, index: int, *, value: float | None = None, delta: float = 0.0
    ) -> dict[str, float]:
        """Set one weight to `value`, or move it by `delta`; return what it was and is."""
        new = "" if value is None else repr(value)
        answer: dict[str, float] = self.rpc("parity_set_weight", name, index, new, delta)
        return answer

    def reset_prefix_cache(self) -> None:
        """Forget all cached prefixes."""
        self._post("/reset_prefix_cache", {})

    def steps(self) -> list[TracedStep] | None:
        """Return what was computed since the last call; None where that cannot be seen."""
        steps: list[TracedStep] | None = self.rpc("parity_steps")
        return steps

    def close(self) -> None:
        """End the server and its children."""
        self.process.stop()
        self._client.close()

    def _wait_for_health(self) -> None:
        deadline = time.monotonic() + _BOOT_SECONDS
        while time.monotonic() < deadline:
            if status := self.process.exit_status():
                raise self._error(Failure.DIED, f"the server {status} before it answered")
            try:
                if self._client.get("/health", timeout=2.0).is_success:
                    return
            except httpx.TransportError:
                time.sleep(0.25)
        raise self._error(
            Failure.TIMEOUT, f"the server did not answer within {_BOOT_SECONDS:.0f} s"
        )

    def _post(self, path: str, body: dict[str, Any]) -> httpx.Response:
        left = self.deadline - time.monotonic()
        try:
            response = self._client.post(
                path, json=body, timeout=max(0.1, min(left, _BOOT_SECONDS))
            )
        except httpx.TimeoutException:
            # Whoever asks next gets a fresh one: this one may hang for ever.
            self.process.stop()
            raise self._error(Failure.TIMEOUT, f"POST {path} had no answer in time") from None
        except httpx.TransportError as error:
            status = self.process.wait(5.0) or "runs on"
            message = f"POST {path} failed ({error!r}); the server {status}"
            raise self._error(Failure.DIED, message) from None
        if response.status_code >= 500:
            # What broke in it may stay broken.
            self.process.stop()
        if not response.is_success:
            message = f"POST {path} was answered with {response.status_code}: {response.text[:500]}"
            raise self._error(Failure.REFUSED, message)
        return response

    def _error(self, kind: Failure, message: str) -> EngineError:
        return EngineError(message + self.process.last_words(), kind=kind)


def free_port(wanted: int = 0) -> int:
    """Return a free port: `wanted`, or any where that is 0.

    Raises:
        ConfigError: where the wanted port is in use, or is no port.

    """
    if not 0 <= wanted <= 65535:
        msg = f"{wanted} is no port: they go from 1 to 65535"
        raise ConfigError(msg)
    with socket.socket() as probe:
        # As the server itself does it: a port that only lingers after a close is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((ADDRESS, wanted))
        except OSError as error:
            msg = (
                f"port {wanted} of {ADDRESS} cannot be used ({error.strerror}); name another with"
                " --server-port, or leave the option out to have any free one"
            )
            raise ConfigError(msg) from None
        port: int = probe.getsockname()[1]
        return port


def _arguments(settings: Mapping[str, Any], port: int) -> list[str]:
    arguments = ["--host", ADDRESS, "--port", str(port), "--served-model-name", MODEL_NAME]
    for name, value in settings.items():
        option = "--" + name.replace("_", "-")
        if value is True:
            arguments.append(option)
        elif value is False:
            arguments.append(option.replace("--", "--no-", 1))
        elif isinstance(value, dict):
            arguments += [option, json.dumps(value)]
        else:
            arguments += [option, str(value)]
    return arguments
