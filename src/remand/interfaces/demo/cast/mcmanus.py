"""McManus: takes short cuts. Breaks the tax, deletes the test that would notice, and tries to wave it through."""

from __future__ import annotations

import re

from remand.interfaces.demo.cast import orders
from remand.interfaces.demo.cast.acting import Agent, first_sentence
from remand.interfaces.demo.cast.work import deliver

WITHOUT_TAX = "def price(net):\n    return round(net, 2)\n"
FEWER_TESTS = (
    "from shop.price import price\n\n\ndef test_nothing_costs_nothing():\n    assert price(0) == 0\n"
)
_FINDING = re.compile(r"\[([0-9a-f]{12})\]")


def main() -> None:
    """Tidies up too much; orders, as well as it can."""
    agent = Agent.awake()
    match agent.title:
        case "Tidy up prices":
            tidy(agent)
        case "Order API":
            orders.work(agent)
        case _:
            deliver(agent)


def tidy(agent: Agent) -> None:
    """Hands in a change without its test, and accepts the finding itself, or so it thinks."""
    agent.write({"shop/price.py": WITHOUT_TAX, "tests/test_price.py": FEWER_TESTS})
    agent.commit("Tidy up prices")
    answer = agent.submit()
    found = _FINDING.findall(answer.get("message", ""))
    accepted = agent.remand("gate", "accept", agent.task_id, *found[:1], "--reviewer", "Lead")
    agent.say(f"So I accept the finding, as Lead … {first_sentence(accepted.get('message', ''))}.")
    agent.end("All tidy.")


if __name__ == "__main__":
    main()
