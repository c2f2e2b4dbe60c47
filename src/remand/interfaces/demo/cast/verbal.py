"""Verbal: writes well, when its model answers."""

from __future__ import annotations

import sys

from remand.interfaces.demo.cast.acting import Agent
from remand.interfaces.demo.cast.work import deliver


def main() -> None:
    """Crashes once, which is nobody's fault."""
    agent = Agent.awake()
    if agent.title == "Write the FAQ" and agent.attempt == 1:
        sys.exit("OverloadedError: the model's endpoint answers 529")
    deliver(agent)


if __name__ == "__main__":
    main()
