"""Kobayashi: hasty. Claims done before it has looked, and fixes what it is shown."""

from __future__ import annotations

from remand.interfaces.demo.agents import session
from remand.interfaces.demo.agents.session import DemoAgent, deliver

HASTY = "import os\nimport sys\n\n\ndef price(net, discount=0):\n    return round(net * 1.19 * (1 + discount), 2)\n"
TEST = (
    "from shop.price import price\n\n\n"
    "def test_a_discount_makes_it_cheaper():\n    assert price(100, discount=0.5) == 59.5\n"
)
FIXED = "def price(net, discount=0):\n    return round(net * 1.19 * (1 - discount), 2)\n"
REJECTED = "REJECTED: Quality gates failed"


def main() -> None:
    """Discounts, twice; orders, as well as it can."""
    agent = DemoAgent.from_stdin()
    match agent.title:
        case "Discounts on prices":
            discount(agent)
        case "Order API":
            session.work_on_orders(agent)
        case _:
            deliver(agent)


def discount(agent: DemoAgent) -> None:
    """Stops with a commit, which is a done claim; what comes back says what to do."""
    if agent.has_in_prompt(REJECTED):
        agent.quote(REJECTED, "Full report")
        agent.write({"shop/price.py": FIXED})
        agent.commit("Mend the discount")
        agent.end("Now it is done.")
    else:
        agent.write({"shop/price.py": HASTY, "tests/test_discount.py": TEST})
        agent.commit("Add discounts")
        agent.end("Done!")


if __name__ == "__main__":
    main()
