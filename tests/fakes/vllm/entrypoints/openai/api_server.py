"""The fake vLLM's OpenAI server: health, RPC, chat completions in one piece and streamed."""

from __future__ import annotations

import json
import os
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from vllm import describe, fault, step, token_at


def settings_of(arguments: list[str]) -> dict[str, Any]:
    """Read ``--name value``, ``--name`` and ``--no-name``."""
    found: dict[str, Any] = {}
    for place, word in enumerate(arguments):
        if not word.startswith("--"):
            continue
        name = word[2:].replace("-", "_")
        following = arguments[place + 1 : place + 2]
        if following and not following[0].startswith("--"):
            try:
                found[name] = json.loads(following[0])
            except json.JSONDecodeError:
                found[name] = following[0]
        elif name.startswith("no_"):
            found[name.removeprefix("no_")] = False
        else:
            found[name] = True
    return found


SETTINGS = settings_of(sys.argv[1:])
SEEN: set[str] = set()
STEPS: list[dict[str, Any]] = []
NUDGE = [0.0]


class Handler(BaseHTTPRequestHandler):
    """One request."""

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        """Answer /health."""
        self._send(b"")

    def do_POST(self) -> None:
        """Answer a call."""
        if self.headers["Authorization"] != f"Bearer {os.environ['VLLM_API_KEY']}":
            self.send_error(401)
            return
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/collective_rpc":
            self._send(json.dumps({"results": [self._rpc(**body)]}).encode())
        elif self.path == "/reset_prefix_cache":
            SEEN.clear()
            self._send(b"")
        elif self.path == "/v1/chat/completions":
            fault("chat")
            self._send(stream(body) if body.get("stream") else json.dumps(plain(body)).encode())
        else:
            self.send_error(404)

    def _rpc(self, method: str, args: list[str]) -> Any:
        if method == "parity_describe":
            return describe(SETTINGS)
        if method == "parity_steps":
            steps, STEPS[:] = [*STEPS], []
            return steps
        before = NUDGE[0]
        NUDGE[0] = float(args[2]) if args[2] else before + float(args[3])
        return {"before": before, "after": NUDGE[0]}

    def _send(self, content: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


def entries(body: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the logprobs of an answer, its tokens among them."""
    prompt = json.dumps(body["messages"])
    found = []
    for position in range(body["max_completion_tokens"]):
        token = chr(token_at(prompt, position))
        own = {"token": token, "logprob": -0.5 + NUDGE[0], "bytes": [ord(token)]}
        other = {"token": "~", "logprob": -1.5, "bytes": [126]}
        found.append(own | {"top_logprobs": [dict(own), other]})
    return found


def called(body: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the call of the first tool, where there are tools."""
    names = [tool["function"]["name"] for tool in body.get("tools", [])][:1]
    return [{"index": 0, "function": {"name": name, "arguments": "{}"}} for name in names]


def usage(body: dict[str, Any]) -> dict[str, Any]:
    """Count tokens, and the steps that they take."""
    prompt = json.dumps(body["messages"])
    cached = len(prompt) if prompt in SEEN and SETTINGS.get("enable_prefix_caching") else 0
    SEEN.add(prompt)
    STEPS.append(step(SETTINGS, requests=1, tokens=len(prompt), hits=cached))
    STEPS.extend([step(SETTINGS, requests=1, tokens=1)] * (body["max_completion_tokens"] - 1))
    return {
        "prompt_tokens": len(prompt),
        "completion_tokens": body["max_completion_tokens"],
        "total_tokens": len(prompt) + body["max_completion_tokens"],
    }


def plain(body: dict[str, Any]) -> dict[str, Any]:
    """Answer in one piece."""
    listed = entries(body)
    text = "".join(one["token"] for one in listed)
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": text, "tool_calls": called(body)},
        "logprobs": {"content": listed},
        "finish_reason": "length",
        "token_ids": [ord(one["token"]) for one in listed],
    }
    return {"object": "chat.completion", "choices": [choice], "usage": usage(body)}


def stream(body: dict[str, Any]) -> bytes:
    """Answer token by token."""
    listed = entries(body)
    chunks: list[dict[str, Any]] = []
    for place, one in enumerate(listed):
        choice = {
            "index": 0,
            "delta": {
                "content": one["token"],
                "tool_calls": called(body) if place == 0 else [],
            },
            "logprobs": {"content": [one]},
            "finish_reason": "length" if place == len(listed) - 1 else None,
            "token_ids": [ord(one["token"])],
        }
        chunks.append({"object": "chat.completion.chunk", "choices": [choice]})
    chunks.append({"object": "chat.completion.chunk", "choices": [], "usage": usage(body)})
    lines = [f"data: {json.dumps(chunk)}\n\n" for chunk in chunks]
    return "".join([*lines, "data: [DONE]\n\n"]).encode()


if __name__ == "__main__":
    fault("boot")
    ThreadingHTTPServer((SETTINGS["host"], SETTINGS["port"]), Handler).serve_forever()
