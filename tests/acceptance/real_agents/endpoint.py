"""A model that says what it is told to, on loopback, in the words of the wire formats that agents speak.

Run as a program inside a network namespace of its own, it starts the endpoint, lets an agent talk to it, and
prints what both have said.
"""

from __future__ import annotations

import fcntl
import json
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

HERE = "THE-ENDPOINTS-ADDRESS"
"""Stands for the endpoint's address in a command, an environment or a file that the agent reads."""


class Model(ThreadingHTTPServer):
    """Plays a script: a list of turns, each `{"say": text}`, `{"use": tool, "input": {…}}` or `{"fail": status}`.

    A turn that awaits a tool is put off, with another one meanwhile, until the agent offers that tool.
    """

    def __init__(self, script: list[dict[str, Any]]) -> None:
        super().__init__(("127.0.0.1", 0), Conversation)
        self.script = list(script)
        self.heard: list[dict[str, Any]] = []
        self.lock = threading.Lock()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def turn(self, request: dict[str, Any]) -> dict[str, Any]:
        """The next turn. What is asked without tools is no turn of the agent's (a title, a summary)."""
        with self.lock:
            self.heard.append(request)
            if not request.get("tools"):
                return {"say": "Title"}
            awaited = self.script[0].get("awaits", "") if self.script else ""
            if awaited not in json.dumps(request["tools"]):
                return dict(self.script[0]["meanwhile"])
            return self.script.pop(0) if self.script else {"say": "I have nothing left to do."}


class Conversation(BaseHTTPRequestHandler):
    """Answers one request."""

    protocol_version = "HTTP/1.1"
    server: Model

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        path = self.path.partition("?")[0]
        speak = next((speak for ending, speak in WIRES.items() if path.endswith(ending)), None)
        if speak:
            self._answer(speak, json.loads(body))
        elif path.endswith(("/count_tokens", ":countTokens")):
            self._send("application/json", b'{"input_tokens": 10, "totalTokens": 10}')
        else:
            self._send("application/json", b"{}", 404)

    def do_GET(self) -> None:
        self._send("application/json", b'{"object": "list", "data": [], "models": []}')

    def do_HEAD(self) -> None:
        self._send("application/json", b"")

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - its name in the base class
        """Says nothing."""

    def _answer(self, speak: Any, request: dict[str, Any]) -> None:
        turn = self.server.turn(request)
        if "fail" in turn:
            problem = {"type": "error", "error": {"type": "scripted", "message": turn["message"]}}
            self._send("application/json", json.dumps(problem).encode(), turn["fail"])
            return
        if speak is completions and not request.get("stream"):
            self._send("application/json", json.dumps(completion(turn, len(self.server.heard))).encode())
            return
        events = "".join(map(framed, speak(turn, len(self.server.heard))))
        self._send("text/event-stream", events.encode())

    def _send(self, kind: str, body: bytes, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def framed(event: dict[str, Any]) -> str:
    """An event as it is sent; those of some formats have no name."""
    name = f"event: {event['type']}\n" if "type" in event else ""
    return f"{name}data: {json.dumps(event)}\n\n"


def messages(turn: dict[str, Any], number: int) -> Iterator[dict[str, Any]]:
    """A turn as the events of Anthropic's Messages."""
    usage = {"input_tokens": 1, "output_tokens": 1}
    start = {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": "scripted",
        "content": [],
    }
    yield {"type": "message_start", "message": {**start, "stop_reason": None, "usage": usage}}
    if "use" in turn:
        block = {"type": "tool_use", "id": f"toolu_{number:024}", "name": turn["use"], "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(turn["input"])}
        reason = "tool_use"
    else:
        block, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": turn["say"]}
        reason = "end_turn"
    yield {"type": "content_block_start", "index": 0, "content_block": block}
    yield {"type": "content_block_delta", "index": 0, "delta": delta}
    yield {"type": "content_block_stop", "index": 0}
    yield {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None}, "usage": usage}
    yield {"type": "message_stop"}


def responses(turn: dict[str, Any], number: int) -> Iterator[dict[str, Any]]:
    """A turn as the events of OpenAI's Responses."""
    if "use" in turn:
        item = {
            "type": "function_call",
            "id": f"fc_{number}",
            "call_id": f"call_{number}",
            "name": turn["use"],
            "arguments": json.dumps(turn["input"]),
            **({"namespace": turn["of"]} if "of" in turn else {}),
        }
    else:
        content = [{"type": "output_text", "text": turn["say"], "annotations": []}]
        item = {"type": "message", "id": f"msg_{number}", "role": "assistant", "content": content}
    usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    yield {"type": "response.created", "response": {"id": f"resp_{number}"}}
    yield {"type": "response.output_item.added", "output_index": 0, "item": item}
    yield {"type": "response.output_item.done", "output_index": 0, "item": item}
    done = {"id": f"resp_{number}", "status": "completed", "output": [item], "usage": usage}
    yield {"type": "response.completed", "response": done}


def completions(turn: dict[str, Any], number: int) -> Iterator[dict[str, Any]]:
    """A turn as the chunks of OpenAI's older Chat Completions."""
    if "use" in turn:
        function = {"name": turn["use"], "arguments": json.dumps(turn["input"])}
        call = {"index": 0, "id": f"call_{number}", "type": "function", "function": function}
        delta, reason = {"role": "assistant", "content": None, "tool_calls": [call]}, "tool_calls"
    else:
        delta, reason = {"role": "assistant", "content": turn["say"]}, "stop"
    start = {"id": f"chat_{number}", "object": "chat.completion.chunk", "created": 1, "model": "scripted"}
    yield {**start, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    yield {**start, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    yield {**start, "choices": [], "usage": usage}


def completion(turn: dict[str, Any], number: int) -> dict[str, Any]:
    """The same in one piece, for those who do not ask for a stream."""
    said, ended, counted = completions(turn, number)
    message = said["choices"][0]["delta"]
    choice = {"index": 0, "message": message, "finish_reason": ended["choices"][0]["finish_reason"]}
    return {**said, "object": "chat.completion", "choices": [choice], "usage": counted["usage"]}


def contents(turn: dict[str, Any], number: int) -> Iterator[dict[str, Any]]:
    """A turn as the one chunk of Google's generated contents."""
    call = {"functionCall": {"name": turn.get("use"), "args": turn.get("input")}}
    part = call if "use" in turn else {"text": turn["say"]}
    usage = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
    said = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
    yield {
        "candidates": [said],
        "usageMetadata": usage,
        "modelVersion": "scripted",
        "responseId": str(number),
    }


WIRES: dict[str, Callable[[dict[str, Any], int], Iterator[dict[str, Any]]]] = {
    "/messages": messages,
    "/responses": responses,
    "/chat/completions": completions,
    ":streamGenerateContent": contents,
}


def raise_loopback() -> None:
    """Switches on the loopback device, which a new network namespace has switched off."""
    get_flags, set_flags, is_up, form = 0x8913, 0x8914, 1, "16sH14s"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as device:
        asked = struct.pack(form, b"lo", 0, b"")
        flags = struct.unpack(form, fcntl.ioctl(device, get_flags, asked))[1]
        fcntl.ioctl(device, set_flags, struct.pack(form, b"lo", flags | is_up, b""))


def refuse_the_world() -> None:
    """Ends the program where anything but this machine could be reached."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return
    sys.exit("There is a way out of this network namespace; no agent is started here.")


def run_agent(plan: dict[str, Any]) -> dict[str, Any]:
    """What an agent said until it ended."""
    try:
        done = subprocess.run(
            plan["command"],
            cwd=plan["folder"],
            env=plan["environment"],
            input=plan.get("stdin", "").encode(),
            capture_output=True,
            timeout=plan["seconds"],
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        return {"code": None, "out": (late.stdout or b"").decode(), "err": (late.stderr or b"").decode()}
    return {"code": done.returncode, "out": done.stdout.decode(), "err": done.stderr.decode()}


def main() -> None:
    """Runs the agent that the plan on standard input tells of."""
    raise_loopback()
    refuse_the_world()
    plan = json.load(sys.stdin)
    model = Model(plan["script"])
    threading.Thread(target=model.serve_forever, daemon=True).start()
    plan = json.loads(json.dumps(plan).replace(HERE, model.address))
    for path, text in plan["files"].items():
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    ended = run_agent(plan)
    json.dump({**ended, "heard": model.heard, "left": model.script}, sys.stdout)


if __name__ == "__main__":
    main()
