"""A team in the middle of its work, with something of every kind for the pages to show, some of it hostile."""

from __future__ import annotations

import json
from pathlib import Path

from tests.integration.machine import Machine
from tests.support.rejection_records import SCOPE, TITLE, a_rejection

TEAM = """
[gates.style]
command = ["sh", "-c", "! grep -n ABOUT src/limits.py"]
[gates.integrity]
runs = []
[policy]
director = "human"
[team]
members = [
  {name = "Fenster", role = "agent", skills = ["frontend"]},
  {name = "McManus", role = "agent", skills = ["frontend"]},
  {name = "Backend", role = "agent", skills = ["api"]},
  {name = "CoreDev", role = "agent", skills = ["api"]},
  {name = "Lead", role = "lead"},
  {name = "owner", role = "user"},
]
[server]
calls_per_second = 1000
"""
MARKUP = "<script>window.hurt = 1</script><img src=x onerror='window.hurt = 1'>"
HOSTILE_FILE = "src/<img src=x onerror='window.hurt = 1'>.py"
HOSTILE = f"{MARKUP} \x1b[31mred\x1b[0m \u202egnp.exe {{{{ 7 * 7 }}}} [x](javascript:alert(1))"
"""What would do harm if it were taken for anything but text."""
SECRET = "ghp_" + "a1B2" * 9
CODE = '''"""Requests that are let through."""

LIMIT = 100


def allow(count: int) -> bool:
    """True while there is room."""
    return count < LIMIT
'''
FIXED = CODE.replace("return count < LIMIT", "return count <= LIMIT")


class TeamAtWork:
    """The repository, and the tasks by what they are there for."""

    def __init__(self, machine: Machine, *, is_harmless: bool = False) -> None:
        """With `is_harmless`, as pictures of the pages show it: nothing hostile, and more work."""
        self.repository = machine.repository(config=TEAM)
        self.tasks: dict[str, str] = {}
        if is_harmless:
            self._finish_tasks()
        self._reject_twice()
        self._ask_the_user()
        if not is_harmless:
            self._write_hostile_texts()
        self._reject_a_task(machine.folder)
        self._hand_in_for_review()
        self._fail_the_gates()
        self._work_and_wait()

    def hand_in(self, task: str, agent: str, text: str) -> str:
        """Claims, reads, commits and submits; returns the commit."""
        repository = self.repository
        claimed = repository.ok("task", "claim", task, "--agent", agent)
        repository.ok("task", "prompt", task, "--agent", agent)
        branch = claimed["branch"] or f"work-{task[-8:]}"
        is_there = branch in repository.git("branch", "--format=%(refname:short)").split()
        repository.git("checkout", "-q", *(() if is_there else ("-b",)), branch)
        commit = repository.commit("src/limits.py", text)
        repository.ok("task", "submit", task, "--agent", agent, "--commit", "HEAD")
        repository.git("checkout", "-q", "main")
        return commit

    def _finish_tasks(self) -> None:
        titles = ("Read limits from the settings", "Log what is refused", "Answer refused requests with 429")
        for number, (title, agent) in enumerate(zip(titles, ("Backend", "CoreDev", "McManus"), strict=True)):
            task = self.repository.add(title)
            commit = self.hand_in(task, agent, f"{CODE}\n\n# {number}\n")
            self.repository.ok("review", "approve", task, "--reviewer", "Lead", "--commit", commit)

    def _reject_twice(self) -> None:
        task = self.tasks["deadlock"] = self.repository.add(
            "Let clients retry after a rate limit", "--skills", "api", "--scope", "Only the public API."
        )
        for agent, code, finding in (
            (
                "Backend",
                CODE,
                "src/limits.py:8: the limit itself is refused, and the documents say it is allowed",
            ),
            ("CoreDev", FIXED, "src/limits.py:8: there is no test for the limit itself"),
        ):
            commit = self.hand_in(task, agent, code)
            self.repository.ok(
                "review", "reject", task, "--reviewer", "Lead", "--commit", commit, "--finding", finding
            )

    def _ask_the_user(self) -> None:
        task = self.tasks["asked"] = self.repository.add("Move the sessions to the new store")
        self.repository.ok("escalate", task, "--reason", "Both stores are in use. Which one is to stay?")

    def _write_hostile_texts(self) -> None:
        other = self.tasks["hostile"] = self.repository.add(
            HOSTILE, "--scope", f"{HOSTILE} {SECRET} {'x' * 5000}"
        )
        self.repository.ok("escalate", other, "--reason", f"{HOSTILE} {SECRET}")
        self._hand_in_hostile_work()

    def _hand_in_hostile_work(self) -> None:
        """A file's name, its lines, a gate's output and a finding that would do harm, and a line of a megabyte."""
        repository = self.repository
        task = self.tasks["hostile_work"] = repository.add(f"Work: {HOSTILE}", "--skills", "api")
        repository.ok("task", "claim", task, "--agent", "Backend")
        repository.git("checkout", "-q", "-b", "hostile")
        repository.commit("src/limits.py", f"ABOUT = {HOSTILE!r} + {SECRET!r}\n{CODE}")
        repository.call("task", "submit", task, "--agent", "Backend", "--commit", "HEAD")
        events = repository.written().values()
        self.tasks["hostile_verdict"] = next(
            one["meta"]["id"] for one in events if one["event"] == "gate.reject"
        )
        repository.git("reset", "-q", "--hard", "main")
        commit = repository.commit(HOSTILE_FILE, f"# {HOSTILE} {SECRET}\nLONG = '{'x' * 1_000_000}'\n")
        held = repository.call("task", "submit", task, "--agent", "Backend", "--commit", "HEAD").data["held"]
        repository.ok("gate", "accept", task, held[0]["finding"], "--reviewer", "Lead")
        repository.git("checkout", "-q", "main")
        given = ("--commit", commit, "--finding", f"{HOSTILE_FILE}:1: {HOSTILE} {SECRET}")
        repository.ok("review", "reject", task, "--reviewer", "Lead", *given)

    def _reject_a_task(self, folder: Path) -> None:
        task = self.tasks["decision"] = self.repository.add(TITLE, "--scope", SCOPE)
        handoff = self.repository.ok("task", "claim", task, "--agent", "Fenster")["handoff_id"]
        record = folder / "rejection.json"
        record.write_text(json.dumps(a_rejection()))
        self.repository.ok("handoff", "reject", handoff, "--agent", "Fenster", "--from", str(record))

    def _hand_in_for_review(self) -> None:
        task = self.tasks["review"] = self.repository.add("Count refused requests", "--skills", "frontend")
        self.hand_in(task, "McManus", CODE.replace("LIMIT", "MOST"))
        self.repository.ok("review", "request", task, "--from", "owner")

    def _fail_the_gates(self) -> None:
        task = self.tasks["gates"] = self.repository.add("Say what each limit is about", "--skills", "api")
        self.repository.ok("task", "claim", task, "--agent", "CoreDev")
        self.repository.git("checkout", "-q", "-b", "about-limits")
        self.repository.commit("src/limits.py", f"ABOUT = 1\n{CODE}")
        self.repository.call("task", "submit", task, "--agent", "CoreDev", "--commit", "HEAD")
        self.repository.git("checkout", "-q", "main")
        events = self.repository.written().values()
        self.tasks["verdict"] = next(one["meta"]["id"] for one in events if one["event"] == "gate.reject")

    def _work_and_wait(self) -> None:
        at_work = self.tasks["claimed"] = self.repository.add("Name the limits in the docs")
        self.repository.ok("task", "claim", at_work, "--agent", "Fenster")
        self.tasks["open"] = self.repository.add("Tidy the change log", "--priority", "low")
