"""McManus: breaks the tax, deletes the test that would notice, and tries to accept the finding itself."""

from __future__ import annotations

import re

from remand.interfaces.demo.agents import session
from remand.interfaces.demo.agents.session import DemoAgent, deliver, first_sentence

WITHOUT_TAX = "def price(net):\n    return round(net, 2)\n"
FEWER_TESTS = (
    "from shop.price import price\n\n\ndef test_nothing_costs_nothing():\n    assert price(0) == 0\n"
)
_FINDING = re.compile(r"\[([0-9a-f]{12})\]")


def main() -> None:
    """Tidies up too much; orders, as well as it can."""
    agent = DemoAgent.from_stdin()
    match agent.title:
        case "Tidy up prices":
            tidy(agent)
        case "Order API":
            session.work_on_orders(agent)
        case _:
            deliver(agent)


def tidy(agent: DemoAgent) -> None:
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
