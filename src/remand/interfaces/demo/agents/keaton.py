"""Keaton: says no when it has to, and shows why."""

from __future__ import annotations

import glob
import re
import socket

from remand.interfaces.demo.agents.session import DemoAgent, blocker_rejection, deliver, scope_creep_rejection

_PORT = re.compile(r"\d{2,5}(?=\))")


def main() -> None:
    """Counts, tries, and puts on record what it found."""
    agent = DemoAgent.from_stdin()
    if agent.title.startswith("Add an OAuth button"):
        texts = [_text(name) for name in glob.glob("auth/*.py")]
        agent.reject(scope_creep_rejection(len(texts), sum(text.count("check_password(") for text in texts)))
        agent.end("This is nine times what was planned.")
    elif agent.title == "Run the checkout tests" and agent.attempt == 1:
        port = int(_PORT.findall(_text("checkout.py"))[0])
        agent.reject(blocker_rejection(refused_connection(port), port))
        agent.end("Somebody has to start the sandbox first.")
    else:
        deliver(agent)


def refused_connection(port: int) -> str:
    """The error of connecting to a port where nobody listens."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
    except OSError as error:
        return f"{type(error).__name__}: {error}"
    return "ConnectionResetError: it answered, and then closed the connection"


def _text(name: str) -> str:
    with open(name, encoding="utf-8") as file:
        return file.read()


if __name__ == "__main__":
    main()
