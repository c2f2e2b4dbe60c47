"""The acts in which reviewers say no: the author is locked out, a colleague finishes, the user settles a deadlock."""

from __future__ import annotations

from typing import Any

from remand.interfaces.demo.telling import Telling

BUTTON = '<div class="signin" onclick="signIn()">Sign in</div>\n'
BETTER_BUTTON = '<button type="button" class="signin" aria-label="Sign in">Sign in</button>\n'
INACCESSIBLE = "web/button.html:1: Accessibility issues: a div is no button, no keyboard reaches it"
API = "def order(items):\n    return sum(items)\n"
API_AGAIN = "def order(items):\n    return sum(items) if items else None\n"
API_AT_LAST = "def order(items):\n    return sum(item.price * item.count for item in items)\n"
GUIDANCE = "An order's total is price times count, summed up. See the ticket of the shop team."


def reassign(story: Telling) -> None:
    """The lead says no; the author is locked out; the colleague with the skill finishes on the same branch."""
    stage = story.stage
    story.heading("Fenster hands in a component; the lead rejects it for its accessibility")
    work = _work(story, "Fenster", "#42", "web/button.html", BUTTON)
    rejected = _reject(story, "#42", "Lead", work, INACCESSIBLE)
    story.expect(rejected, "locked_out", ["Fenster"])
    story.expect(rejected, "reassigned_to", "Hockney")
    again = stage.remand("task", "claim", "#42", "--agent", "Fenster")
    story.expect(again, "refused", "locked_out")
    story.say(f"  Fenster is refused: {again['message']}")
    told = stage.remand("say", "Why is Fenster locked out?", "--as", "owner")
    story.say(f"  {told['done']}")
    story.heading("Hockney, who knows accessibility, goes on on the same branch, with the feedback first")
    fixed = _work(story, "Hockney", "#42", "web/button.html", BETTER_BUTTON)
    story.say("  " + "\n  ".join(_feedback(fixed["prompt"]["prompt"])))
    own = stage.remand("review", "approve", "#42", "--reviewer", "Hockney", "--commit", _at(fixed))
    story.expect(own, "refused", "not_authorised")
    done = stage.remand("review", "approve", "#42", "--reviewer", "Lead", "--commit", _at(fixed))
    story.expect(done, "status", "done")


def deadlock(story: Telling) -> None:
    """Everyone who could do it is locked out: one question, answered with one command."""
    stage = story.stage
    story.heading("Two backend agents fail the review of #43: nobody is left, and the user is asked once")
    story.add("order", "Order API", "--skills", "backend", "--alias", "#43", "--branch", "work/order")
    first = _work(story, "McManus", "#43", "api/order.py", API)
    rejected = _reject(
        story, "#43", "Lead", first, "api/order.py:2: Integration tests fail: items have counts"
    )
    story.expect(rejected, "reassigned_to", "Kobayashi")
    story.say("  Kobayashi takes over, as the last agent who may")
    second = _work(story, "Kobayashi", "#43", "api/order.py", API_AGAIN)
    rejected = _reject(story, "#43", "Lead", second, "api/order.py:2: Integration tests still fail")
    story.expect(rejected, "status", "escalated")
    question = next(one for one in stage.remand("inbox") if one["task_id"] == story.tasks["order"])
    story.say(f"  {question['question']}")
    for option in question["options"]:
        story.say(f"    {option['key']}: {option['text']}")
    agents_word = stage.remand("unlock", "McManus", "--task", "#43", "--reason", "let me", "--as", "McManus")
    story.expect(agents_word, "refused", "user_only")
    story.say(f"  McManus may not unlock itself: {agents_word['message']}")
    story.heading("The user answers with one command, and McManus goes on with the guidance")
    stage.remand("inbox", "answer", question["escalation_id"], "unlock:McManus", "--guidance", GUIDANCE)
    fixed = _work(story, "McManus", "#43", "api/order.py", API_AT_LAST)
    if GUIDANCE not in fixed["prompt"]["prompt"]:
        story.fail("the user's guidance is missing from the prompt")
    done = stage.remand("review", "approve", "#43", "--reviewer", "Lead", "--commit", _at(fixed))
    story.expect(done, "status", "done")
    story.say("  What the log says of it:")
    for line in stage.log_lines("#43"):
        story.say(f"    {line}")


def _work(story: Telling, agent: str, task: str, file: str, text: str) -> dict[str, Any]:
    """An agent claims, reads, works and hands in."""
    stage = story.stage
    work = stage.finish(
        stage.start_agent(agent, claim=[task], file=file, text=text, message=f"{agent}: {file}")
    )
    story.expect(work["submit"], "status", "provisional")
    return work


def _reject(story: Telling, task: str, reviewer: str, work: dict[str, Any], finding: str) -> dict[str, Any]:
    answer: dict[str, Any] = story.stage.remand(
        "review", "reject", task, "--reviewer", reviewer, "--commit", _at(work), "--finding", finding
    )
    return answer


def _at(work: dict[str, Any]) -> str:
    return str(work["submit"]["at"])


def _feedback(prompt: str) -> list[str]:
    """The feedback's first lines, up to the finding's text."""
    lines = prompt.split("\n")
    last = next((at for at, line in enumerate(lines) if line.startswith("**")), 4)
    return [line for line in lines[: last + 2] if line]
