"""The acts in which agents say no to a task: lazily, with cause, and with what is learned from it."""

from __future__ import annotations

import json
import os
import socket
from typing import Any

from remand.interfaces.demo import records
from remand.interfaces.demo.telling import Telling

MODULES = 12
CALLERS = 2


def override_a_lazy_rejection(story: Telling) -> str:
    """An agent gives up with empty words: overridden, with what would satisfy. Returns the handoff."""
    story.heading("Kobayashi rejects a task with empty words: overridden, with reasons")
    _write_auth(story)
    story.add(
        *("oauth", "Add an OAuth button to the sign-in page"),
        *("--scope", "Add an OAuth button to the sign-in page. 2 hours.", "--skills", "backend"),
    )
    handoff = _claim(story, "oauth", "Kobayashi")
    answer = _reject(story, handoff, "Kobayashi", records.LAZY)
    story.expect(answer, "refused", "invalid_rejection")
    for issue in answer["issues"]:
        story.say(f"    {issue['field']}: {issue['message']}")
    story.say(f"  {answer['decision']['decision_type']}: the task is still Kobayashi's")
    return handoff


def decompose_what_grew(story: Telling, handoff: str) -> None:
    """The same agent does the work, comes back with figures that hold, and the task is cut into three."""
    story.heading("Kobayashi looks properly and comes back with figures: accepted and decomposed")
    answer = _reject(story, handoff, "Kobayashi", records.scope_creep(MODULES, MODULES * CALLERS))
    story.expect(answer, "accepted", True)
    for graded in answer["evidence"]:
        story.say(f"    evidence {graded['index'] + 1} is {graded['grade']}: {graded['detail']}")
    decision = answer["decision"]
    story.say(f"  {decision['decision_type']}: {decision['rationale']}")
    for name in decision["created_tasks"]:
        made = story.stage.remand("task", "show", name, is_quiet=True)
        waits = f", waits for {', '.join(made['depends_on'])}" if made["depends_on"] else ""
        story.say(f"    {name} {made['title']}{waits}")
    if len(decision["created_tasks"]) != 3:
        story.fail(f"expected three sub-tasks, got {decision}")


def defer_and_wake(story: Telling) -> None:
    """A blocker that is one: the task sleeps until somebody removes it, then wakes by itself."""
    stage = story.stage
    story.heading("McManus meets a real blocker: the task sleeps, and wakes when the blocker is gone")
    story.add("checkout", "Run the checkout tests", "--scope", "Green run against the payment sandbox")
    handoff = _claim(story, "checkout", "McManus")
    error, port = _refused_connection()
    _commit(story, "checkout.py", f'"""The way to the payment sandbox."""\nSANDBOX = ("127.0.0.1", {port})\n')
    answer = _reject(story, handoff, "McManus", records.blocker(error, port))
    story.expect(answer, "status", "deferred")
    blocking = answer["decision"]["created_tasks"][0]
    story.say(f"  {answer['decision']['rationale']}")
    sleeping = stage.remand("task", "claim", story.tasks["checkout"], "--agent", "Kobayashi")
    story.expect(sleeping, "refused", "bad_transition")
    work = stage.finish(
        stage.start_agent(
            "Hockney", claim=[blocking], file="ops/sandbox.md", text="Started.\n", message="Start the sandbox"
        )
    )
    stage.remand("review", "approve", blocking, "--reviewer", "owner", "--commit", work["submit"]["at"])
    woken = stage.remand("task", "show", story.tasks["checkout"], is_quiet=True)
    story.expect(woken, "status", "incoming")
    story.say(f"  {blocking} is done, and {story.tasks['checkout']} is in the queue again")


def stop_a_serial_rejecter(story: Telling) -> None:
    """The second empty rejection ends the handoff: a colleague gets the task."""
    story.heading("Fenster rejects twice without cause: the task goes to Hockney, and stays there")
    story.add("footer", "Footer links", "--scope", "Add imprint and privacy links.", "--skills", "frontend")
    handoff = _claim(story, "footer", "Fenster")
    _reject(story, handoff, "Fenster", records.LAZY)
    last = _reject(story, handoff, "Fenster", records.LAZY)
    story.expect(last["decision"], "reassign_to", "Hockney")
    story.say(f"  {last['decision']['decision_type']}, and on to {last['decision']['reassign_to']}")
    again = story.stage.remand("task", "claim", story.tasks["footer"], "--agent", "Fenster")
    story.expect(again, "refused", "locked_out")
    story.say(f"  Fenster is refused: {again['message']}")
    taken = story.stage.remand("task", "claim", story.tasks["footer"], "--agent", "Hockney")
    story.expect(taken, "task_id", story.tasks["footer"])


def learn(story: Telling) -> None:
    """What the rejections say about tasks, agents and blockers."""
    story.heading("What is learned: who rejects what, how often without cause, and what blocks")
    found = story.stage.remand("analyze", "rejections")
    story.say(
        f"  {found['total_rejections']} rejections, {found['override_rate']:.0%} overridden; "
        f"by reason: {_counted(found['by_reason'])}; by agent: {_counted(found['by_agent'])}"
    )
    story.say(f"  decisions: {_counted(found['decision_outcomes'])}")


def _counted(counts: dict[str, Any]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items())


def _claim(story: Telling, name: str, agent: str) -> str:
    claimed: str = story.stage.remand("task", "claim", story.tasks[name], "--agent", agent)["handoff_id"]
    return claimed


def _reject(story: Telling, handoff: str, agent: str, record: dict[str, Any]) -> dict[str, Any]:
    path = os.path.join(story.stage.folder, "rejection.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(record, file)
    answer: dict[str, Any] = story.stage.remand(
        "handoff", "reject", handoff, "--agent", agent, "--from", path
    )
    return answer


def _write_auth(story: Telling) -> None:
    """A module in which every part checks passwords itself."""
    for number in range(1, MODULES + 1):
        text = f"def open_{number}(user, password):\n    return check_password(user, password)\n"
        _commit(
            story,
            f"auth/session_{number}.py",
            text + text.replace("open", "reopen"),
            is_last=number == MODULES,
        )


def _commit(story: Telling, name: str, text: str, *, is_last: bool = True) -> None:
    path = os.path.join(story.stage.repository, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    if is_last:
        story.stage.git("add", os.path.dirname(name) or name)
        story.stage.git("commit", "-q", "-m", f"add {name}")


def _refused_connection() -> tuple[str, int]:
    """The error of connecting to a port where nobody listens, and that port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
    except OSError as error:
        return f"{type(error).__name__}: {error}", port
    return "ConnectionRefusedError: [Errno 111] Connection refused", port
