"""What the story is played with: a small shop with tests, a team of agents, gates, and the tasks."""

from __future__ import annotations

import importlib.util
import json
import os
import socket
import sys
from collections.abc import Iterator
from typing import NamedTuple

CAST = "remand.interfaces.demo.cast"
MODULES = 12
GATES = """\
[gates.tests]
command = ["python", "-m", "pytest", "-q", "-p", "no:cacheprovider", "--junitxml={report}"]
parser = "junit"
require = {max_failures = 0}
paths = ["shop/**", "tests/**"]

[gates.lint]
command = ["ruff", "check", "--isolated", "--no-cache", "--output-format", "json", "."]
parser = "ruff"
require = {max_errors = 0}
paths = ["shop/**", "tests/**"]
"""
CONFIG = """\
# Who works here: those with a command are started by `remand run`.
[team]
members = [
{members}
  {{name = "owner", role = "user", aliases = ["user"]}},
]

{gates}
[policy]
lease = "10m"

[run]
network = false
time = "5m"
"""
PRICE = "def price(net):\n    return round(net * 1.19, 2)\n"
TEST_PRICE = (
    "from shop.price import price\n\n\n"
    "def test_tax_is_added():\n    assert price(100) == 119.0\n\n\n"
    "def test_nothing_costs_nothing():\n    assert price(0) == 0\n"
)
PASSWORDS = "def check_password(user, password):\n    return user.knows(password)\n"
SESSION = (
    "from shop.passwords import check_password\n\n\n"
    "def open_{0}(user, password):\n    return check_password(user, password)\n\n\n"
    "def reopen_{0}(user, password):\n    return check_password(user, password)\n"
)


class Actor(NamedTuple):
    """A member of the team."""

    name: str
    character: str
    role: str = "agent"
    skills: tuple[str, ...] = ()

    @property
    def row(self) -> str:
        """The member as `remand.toml` has it. JSON's strings and lists are TOML's."""
        command = [sys.executable, "-P", "-m", f"{CAST}.{self.name.lower()}"]
        skills = f", skills = {json.dumps(self.skills)}" if self.skills else ""
        return f'  {{name = "{self.name}", role = "{self.role}"{skills}, command = {json.dumps(command)}}},'


TEAM = (
    Actor("Fenster", "lazy", skills=("frontend",)),
    Actor("Hockney", "steady, knows accessibility", skills=("frontend", "accessibility")),
    Actor("McManus", "takes short cuts", skills=("backend", "refactoring")),
    Actor("Kobayashi", "hasty", skills=("backend", "pricing")),
    Actor("Keaton", "earns its no", skills=("identity", "payments")),
    Actor("Verbal", "crashes once", skills=("docs",)),
    Actor("Lead", "reviews", role="lead"),
)


class Ask(NamedTuple):
    """A task of the story."""

    alias: str
    title: str
    skill: str
    scope: str = ""
    needs_gates: bool = False

    @property
    def options(self) -> Iterator[str]:
        """How it is written down."""
        yield from (self.title, "--alias", self.alias, "--skills", self.skill)
        if self.scope:
            yield from ("--scope", self.scope)


BUTTON = Ask("#42", "Sign-in button", "frontend")
FOOTER = Ask("#48", "Footer links", "frontend", "Add imprint and privacy links.")
TASKS = (
    Ask("#43", "Order API", "backend"),
    Ask("#44", "Discounts on prices", "pricing", needs_gates=True),
    Ask("#45", "Tidy up prices", "refactoring", needs_gates=True),
    Ask(
        *("#46", "Add an OAuth button to the sign-in page", "identity"),
        "Add an OAuth button to the sign-in page. 2 hours.",
    ),
    Ask("#47", "Run the checkout tests", "payments", "Green run against the payment sandbox"),
    Ask("#49", "Write the FAQ", "docs"),
)


def has_tools() -> bool:
    """True when pytest and ruff are there to be run."""
    beside = os.path.join(os.path.dirname(sys.executable), "ruff")
    return importlib.util.find_spec("pytest") is not None and os.path.exists(beside)


def configuration() -> str:
    """The tables of `remand.toml` that are the project's own."""
    members = "\n".join(actor.row for actor in TEAM)
    return CONFIG.format(members=members, gates=GATES if has_tools() else "[gates]\n")


def files() -> dict[str, str]:
    """The shop: prices with tests, modules that all check passwords themselves, a way to a sandbox that is down."""
    port = _free_port()
    return {
        "README.md": "# A shop\n",
        "shop/__init__.py": "",
        "shop/passwords.py": PASSWORDS,
        "shop/price.py": PRICE,
        "tests/test_price.py": TEST_PRICE,
        "checkout.py": f'"""The way to the payment sandbox."""\nSANDBOX = ("127.0.0.1", {port})\n',
    } | {f"auth/session_{number}.py": SESSION.format(number) for number in range(1, MODULES + 1)}


def _free_port() -> int:
    """A port where nobody listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    return port
