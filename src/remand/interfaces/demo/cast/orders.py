"""The order API, which nobody gets right before the user says what an order is."""

from __future__ import annotations

from remand.interfaces.demo.cast.acting import Agent

FILE = "api/order.py"
FIRST = "def order(items):\n    return sum(items)\n"
SECOND = "def order(items):\n    return sum(items) if items else None\n"
RIGHT = "def order(items):\n    return sum(item.price * item.count for item in items)\n"
GUIDANCE = "An order's total is price times count, summed up."
FEEDBACK = "## Review Feedback"


def work(agent: Agent) -> None:
    """Guesses, guesses again, and does as it is told once it is."""
    guess = SECOND if agent.was_told(FEEDBACK) else FIRST
    agent.write({FILE: RIGHT if agent.was_told(GUIDANCE) else guess})
    agent.commit("Sum up an order")
    agent.submit()
    agent.end("Done.")
