"""The demo's scripted agents.

The scheduler starts each by its name, like any agent; they use only git and the command line.
"""

from __future__ import annotations

import glob
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from typing import Any, NamedTuple

from remand.startup import COMMAND_LINE

PRICE = 0.03
"""The cost of a turn in dollars: made up, because these agents use no model."""
TOKENS = 1200
_TASK = re.compile(r"^## Task (\S+): (.+)$", re.MULTILINE)
_HANDOFF = re.compile(r"remand handoff reject (\S+)")
_NAME = re.compile(r"--agent (\S+)")
_ATTEMPT = re.compile(r"^- attempt (\d+)$", re.MULTILINE)


class DemoAgent:
    def __init__(self, prompt: str) -> None:
        self.prompt = prompt
        self.task_id, self.title = _match_groups(_TASK, prompt, 2)
        (self.handoff_id,) = _match_groups(_HANDOFF, prompt, 1)
        self.attempt = int(_match_groups(_ATTEMPT, prompt, 1)[0] or 1)
        self._name = _match_groups(_NAME, prompt, 1)[0]
        self._turns = 1

    def say(self, text: str) -> None:
        """Prints a line for people."""
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()

    def quote(self, first: str, last: str) -> None:
        """Prints a part of its prompt, from one line to another."""
        lines = [line.removeprefix(">").removeprefix(" ") for line in self.prompt.splitlines()]
        start = next((at for at, line in enumerate(lines) if line.startswith(first)), len(lines))
        for line in lines[start:]:
            if line.startswith(last):
                break
            if line:
                self.say(f"| {line}")

    def write(self, files: Mapping[str, str]) -> None:
        """Writes files in its worktree."""
        for name, text in files.items():
            self._turns += 1
            os.makedirs(os.path.dirname(name) or ".", exist_ok=True)
            with open(name, "w", encoding="utf-8") as file:
                file.write(text)

    def commit(self, message: str) -> None:
        """Commits everything, unless an earlier session of it has."""
        self._turns += 1
        git("add", "--all")
        if not git("status", "--porcelain"):
            return
        own = (f"user.name={self._name}", f"user.email={self._name.lower()}@demo")
        git(*(word for value in own for word in ("-c", value)), "commit", "-q", "-m", message)

    def remand(self, *arguments: str, given: str = "") -> dict[str, Any]:
        """Calls the command line; a refusal is an answer."""
        self._turns += 1
        process = subprocess.run(
            [*COMMAND_LINE, *arguments, "--json"], input=given, capture_output=True, text=True, check=False
        )
        if not process.stdout:
            sys.exit(f"`remand {' '.join(arguments)}` ended with {process.returncode}: {process.stderr}")
        answer: dict[str, Any] = json.loads(process.stdout)
        return answer

    def submit(self) -> dict[str, Any]:
        """Claims done, as its prompt says."""
        return self.remand("task", "submit", self.task_id, "--commit", git("rev-parse", "HEAD"))

    def reject(self, record: Mapping[str, object]) -> dict[str, Any]:
        return self.remand("handoff", "reject", self.handoff_id, "--from", "-", given=json.dumps(record))

    def end(self, words: str = "") -> None:
        """Ends the session with a final message and its figures, as Claude Code does."""
        result = {
            "type": "result",
            "subtype": "success",
            "result": words,
            "num_turns": self._turns,
            "total_cost_usd": round(PRICE * self._turns, 2),
            "usage": {"input_tokens": TOKENS * self._turns, "output_tokens": TOKENS // 4},
        }
        sys.stdout.write(json.dumps(result) + "\n")


def git(*arguments: str) -> str:
    """Calls git; raises if it fails."""
    process = subprocess.run(["git", *arguments], capture_output=True, text=True, check=True)
    return process.stdout.strip()


def _match_groups(pattern: re.Pattern[str], text: str, groups: int) -> tuple[str, ...]:
    match = pattern.search(text)
    return match.groups() if match else ("",) * groups


LAZY_REJECTION: dict[str, Any] = {
    "reason_type": "BLOCKER",
    "reason_summary": "Too complex",
    "reason_detail": "This task is too complex for me to handle.",
    "what_attempted": ["Looked at the code", "Tried to understand it"],
    "blocking_factor": "It's confusing",
    "suggested_alternative": "Ask someone else to do it",
}


def scope_creep_rejection(files: int, callers: int) -> dict[str, Any]:
    """A rejection with figures counted in the repository, and probes that repeat the count."""
    return {
        "reason_type": "SCOPE_CREEP",
        "reason_summary": "OAuth needs a provider interface that the auth module does not have",
        "reason_detail": (
            f"Asked for was a button and its flow, 2 hours. Every one of the {files} modules in auth/ calls "
            f"check_password() itself ({callers} call sites), so a second way to sign in has to go through all "
            "of them, or through one provider interface first. My estimate from porting auth/session_1.py "
            "(40 minutes) is 18 hours: 9 times the plan."
        ),
        "what_attempted": [
            f"Counted modules in auth/: {files} files, {callers} calls of check_password()",
            "Added the button with a stub flow: auth/session_1.py raises TypeError, it takes a password only",
            "Ported auth/session_1.py to a provider object: 40 minutes, 2 callers changed",
        ],
        "blocking_factor": f"{callers} direct calls of check_password() in auth/ leave no place for a second provider",
        "evidence": [
            {
                "type": "file_analysis",
                "data": {"files": files, "calls": callers},
                "source": "grep check_password auth/",
                "probe": {"count": "auth/*.py", "containing": "check_password", "is": files},
            },
            {
                "type": "time_estimate",
                "data": {"original_hours": 2, "revised_hours": 18},
                "source": "auth/session_1.py as reference",
            },
        ],
        "suggested_alternative": (
            "Provider interface first (10 hours), then OAuth behind it (5 hours), then the button (3 hours). "
            "The port of auth/session_1.py is in a branch and can serve as the pattern."
        ),
        "alternative_tasks": [
            {
                "title": "Extract a provider interface in the auth module",
                "scope": f"{files} modules, password sign-in unchanged",
                "dependencies": "none",
                "estimate": "10 hours",
            },
            {
                "title": "OAuth provider",
                "scope": "behind the provider interface, with tests",
                "dependencies": "Requires the provider interface task",
                "estimate": "5 hours",
            },
            {
                "title": "OAuth button and redirect flow",
                "scope": "sign-in page",
                "dependencies": "after OAuth provider",
                "estimate": "3 hours",
            },
        ],
        "task_original_scope": "Add an OAuth button to the sign-in page. 2 hours.",
        "scope_growth_factor": 9.0,
    }


def blocker_rejection(error: str, port: int) -> dict[str, Any]:
    """A rejection whose evidence is an actual error."""
    return {
        "reason_type": "BLOCKER",
        "reason_summary": f"The payment sandbox on port {port} refuses connections",
        "reason_detail": (
            f"The three checkout tests talk to the payment sandbox at 127.0.0.1:{port}. Nothing listens there. "
            "The sandbox is started by operations with a key that only they have, so I cannot start it myself."
        ),
        "what_attempted": [
            f"Connected to 127.0.0.1:{port}: {error}",
            "Searched the repository for a start script of the sandbox: 0 hits for 'sandbox' outside of docs",
            "Ran the checkout code against a recorded answer: passes, so only the sandbox is missing",
        ],
        "blocking_factor": f"Payment sandbox at 127.0.0.1:{port} is down; only operations hold its key",
        "evidence": [
            {"type": "error_log", "data": error, "source": f"connect to 127.0.0.1:{port}"},
            {
                "type": "file_analysis",
                "data": "checkout.py:2 names the host and port",
                "source": "checkout.py",
                "probe": {"file": "checkout.py", "line": 2, "text": str(port)},
            },
        ],
        "suggested_alternative": (
            f"Operations start the sandbox on port {port} (they say it takes 10 minutes); the tests are ready on "
            "work/checkout and run in one minute once it answers."
        ),
    }


WORK: dict[str, dict[str, str]] = {
    "Extract a provider interface": {
        "auth/provider.py": (
            'class Provider:\n    """A way to sign in."""\n\n'
            "    def sign_in(self, user, proof):\n        raise NotImplementedError\n"
        )
    },
    "OAuth provider": {
        "auth/oauth.py": (
            'class OAuth:\n    """Signs in by another site\'s word."""\n\n'
            "    def sign_in(self, user, proof):\n        return proof.site_vouches_for(user)\n"
        )
    },
    "OAuth button": {"web/oauth.html": '<button type="button" class="oauth">Sign in with …</button>\n'},
    "Footer links": {"web/footer.html": '<a href="/imprint">Imprint</a>\n<a href="/privacy">Privacy</a>\n'},
    "Write the FAQ": {"docs/faq.md": "# Questions\n\nHow do I pay? By card.\n"},
    "Resolve blocker": {
        "ops/sandbox.md": "# The payment sandbox\n\nIt is started, and its key is renewed.\n"
    },
    "Run the checkout tests": {"docs/checkout.md": "# Checkout\n\nThree of three runs went through.\n"},
}


def _deliver(agent: DemoAgent) -> None:
    """Does the task, and submits it."""
    files = next((files for title, files in WORK.items() if agent.title.startswith(title)), {})
    agent.write(files or {"NOTES.md": f"{agent.title}\n"})
    agent.commit(agent.title[:72])
    agent.submit()
    agent.end("Done.")


ORDER_FILE = "api/order.py"
FIRST_GUESS = "def order(items):\n    return sum(items)\n"
SECOND_GUESS = "def order(items):\n    return sum(items) if items else None\n"
RIGHT_ORDER = "def order(items):\n    return sum(item.price * item.count for item in items)\n"
GUIDANCE = "An order's total is price times count, summed up."
FEEDBACK = "## Review Feedback"


def _sum_up_order(agent: DemoAgent) -> None:
    """Guesses, guesses again, and follows the guidance once there is some."""
    guess = SECOND_GUESS if FEEDBACK in agent.prompt else FIRST_GUESS
    agent.write({ORDER_FILE: RIGHT_ORDER if GUIDANCE in agent.prompt else guess})
    agent.commit("Sum up an order")
    agent.submit()
    agent.end("Done.")


def fenster(agent: DemoAgent) -> None:
    """Submits what looks right, and rejects what looks like work, twice with the same empty words."""
    match agent.title:
        case "Sign-in button":
            agent.write({BUTTON_FILE: '<div class="signin" onclick="signIn()">Sign in</div>\n'})
            agent.commit("Add the sign-in button")
            agent.submit()
            agent.end("Done.")
        case "Footer links":
            answer = agent.reject(LAZY_REJECTION)
            agent.say(f"They want to know more: {', '.join(issue['field'] for issue in answer['issues'])}.")
            agent.reject(LAZY_REJECTION)
            agent.end("It is too complex.")
        case _:
            _deliver(agent)


BUTTON_FILE = "web/button.html"
HALF_WAY = "A real button stands. Next: its name for screen readers."


def hockney(agent: DemoAgent) -> None:
    """Steady, and knows accessibility. The scheduler is killed once while it works."""
    if agent.title != "Sign-in button":
        _deliver(agent)
        return
    if "<button" not in _read(BUTTON_FILE):
        agent.write({BUTTON_FILE: '<button type="button" class="signin">Sign in</button>\n'})
        agent.say(HALF_WAY)
        signal.pause()
    agent.say("My earlier work is still here, uncommitted. I continue from there.")
    agent.write({BUTTON_FILE: '<button type="button" class="signin" aria-label="Sign in">Sign in</button>\n'})
    agent.commit("Make the sign-in button one")
    agent.submit()
    agent.end("A real button, with a name.")


def keaton(agent: DemoAgent) -> None:
    """Rejects a task if necessary, with what it counted and tried on record."""
    if agent.title.startswith("Add an OAuth button"):
        texts = [_read(name) for name in glob.glob("auth/*.py")]
        agent.reject(scope_creep_rejection(len(texts), sum(text.count("check_password(") for text in texts)))
        agent.end("This is nine times what was planned.")
    elif agent.title == "Run the checkout tests" and agent.attempt == 1:
        port = int(re.findall(r"\d{2,5}(?=\))", _read("checkout.py"))[0])
        agent.reject(blocker_rejection(_refused_connection(port), port))
        agent.end("Somebody has to start the sandbox first.")
    else:
        _deliver(agent)


def _refused_connection(port: int) -> str:
    """The error of connecting to a port where nobody listens."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
    except OSError as error:
        return f"{type(error).__name__}: {error}"
    return "ConnectionResetError: it answered, and then closed the connection"


HASTY = "import os\nimport sys\n\n\ndef price(net, discount=0):\n    return round(net * 1.19 * (1 + discount), 2)\n"
TEST = (
    "from shop.price import price\n\n\n"
    "def test_a_discount_makes_it_cheaper():\n    assert price(100, discount=0.5) == 59.5\n"
)
FIXED = "def price(net, discount=0):\n    return round(net * 1.19 * (1 - discount), 2)\n"
REJECTED = "REJECTED: Quality gates failed"


def kobayashi(agent: DemoAgent) -> None:
    """Hasty: stops with a commit, which is a done claim, before checking it, and fixes what the gates report."""
    if agent.title == "Order API":
        _sum_up_order(agent)
    elif agent.title != "Discounts on prices":
        _deliver(agent)
    elif REJECTED in agent.prompt:
        agent.quote(REJECTED, "Full report")
        agent.write({"shop/price.py": FIXED})
        agent.commit("Fix the discount")
        agent.end("Now it is done.")
    else:
        agent.write({"shop/price.py": HASTY, "tests/test_discount.py": TEST})
        agent.commit("Add discounts")
        agent.end("Done!")


WITHOUT_TAX = "def price(net):\n    return round(net, 2)\n"
FEWER_TESTS = (
    "from shop.price import price\n\n\ndef test_nothing_costs_nothing():\n    assert price(0) == 0\n"
)


def mcmanus(agent: DemoAgent) -> None:
    """Breaks the tax, deletes the test that would notice, and tries to accept the finding itself."""
    if agent.title == "Order API":
        _sum_up_order(agent)
    elif agent.title != "Tidy up prices":
        _deliver(agent)
    else:
        agent.write({"shop/price.py": WITHOUT_TAX, "tests/test_price.py": FEWER_TESTS})
        agent.commit("Tidy up prices")
        found = re.findall(r"\[([0-9a-f]{12})\]", agent.submit().get("message", ""))
        accepted = agent.remand("gate", "accept", agent.task_id, *found[:1], "--reviewer", "Lead")
        first_sentence = accepted.get("message", "").partition(". ")[0].rstrip(".")
        agent.say(f"So I accept the finding, as Lead … {first_sentence}.")
        agent.end("All tidy.")


def verbal(agent: DemoAgent) -> None:
    """Writes the docs, and crashes once, which is nobody's fault."""
    if agent.title == "Write the FAQ" and agent.attempt == 1:
        sys.exit("OverloadedError: the model's endpoint answers 529")
    _deliver(agent)


class ReviewRule(NamedTuple):
    """What a file must contain, and the finding when it does not."""

    path: str
    needs: str
    line: int
    text: str


REVIEW_RULES = (
    ReviewRule(
        BUTTON_FILE,
        "<button",
        1,
        "Accessibility issues: a div is not a button, and the keyboard cannot reach it",
    ),
    ReviewRule("api/order.py", ".count", 2, "Integration tests fail: items have counts"),
)


def lead(agent: DemoAgent) -> None:
    """Reviews. Its final message is a rejection with findings, or an approval with what it checked."""
    since, commit = _require_match(r"^From ([0-9a-f]{40,}) to ([0-9a-f]{40,})\.", agent.prompt)
    changed = git("diff", "--name-only", since, commit).splitlines()
    findings = [
        {"path": rule.path, "line": rule.line, "text": rule.text, "blocking": True}
        for rule in REVIEW_RULES
        if rule.path in changed and rule.needs not in _read(rule.path)
    ]
    review: dict[str, object] = {"run": _require_match(r'"run": "(\S+)"', agent.prompt)[0]}
    if findings:
        review |= {"verdict": "reject", "findings": findings}
    else:
        review |= {
            "verdict": "approve",
            "checked": [_check(path) for path in changed if os.path.isfile(path)],
        }
    agent.end(f"```json\n{json.dumps(review)}\n```")


def _check(path: str) -> dict[str, object]:
    first_line = next((line for line in _read(path).splitlines() if line.strip()), "")
    return {
        "path": path,
        "line": 1,
        "text": f"`{first_line[:60]}` and all below it do what the task asks for",
    }


def _require_match(pattern: str, text: str) -> tuple[str, ...]:
    match = re.search(pattern, text, re.MULTILINE)
    if match is None:
        raise SystemExit(f"The prompt does not contain what I need: {pattern}")
    return match.groups()


def _read(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()


CHARACTERS = {
    "Fenster": fenster,
    "Hockney": hockney,
    "McManus": mcmanus,
    "Kobayashi": kobayashi,
    "Keaton": keaton,
    "Verbal": verbal,
    "Lead": lead,
}

if __name__ == "__main__":
    CHARACTERS[sys.argv[1]](DemoAgent(sys.stdin.read()))
