"""Verbal: writes the docs, and crashes once."""

from __future__ import annotations

import sys

from remand.interfaces.demo.agents.session import DemoAgent, deliver


def main() -> None:
    """Crashes once, which is nobody's fault."""
    agent = DemoAgent.from_stdin()
    if agent.title == "Write the FAQ" and agent.attempt == 1:
        sys.exit("OverloadedError: the model's endpoint answers 529")
    deliver(agent)


if __name__ == "__main__":
    main()
