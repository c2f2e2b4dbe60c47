"""The user's inbox: the questions that wait, and their answers."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections.abc import Sequence

import msgspec

from remand.app.alerts import Alerted, alerted_under
from remand.app.asking import Accepted
from remand.app.decisions import (
    GivenAnswer,
    Undecided,
    answering,
    asked,
    open_questions,
    rejected_under,
    waiting,
)
from remand.app.escalations import Question, asked_under, ways
from remand.app.held import HELD_OPTIONS, REFUSE, HeldQuestion, question_id, settle_ask
from remand.app.naming import locate
from remand.app.objections import OBJECTION_OPTIONS, ObjectionQuestion, dismissal
from remand.app.rebuild import story
from remand.domain import commands as c
from remand.domain import events as e
from remand.domain.escalations import UNLOCK, Option
from remand.domain.holds import open_findings
from remand.domain.notices import open_alert
from remand.domain.objections import DISMISS, DISMISS_ALL, question_parts
from remand.domain.refusals import Refused
from remand.domain.task import Task
from remand.interfaces.cli.context import Command, Context
from remand.interfaces.cli.holds import (
    acting_member,
    held_block,
    held_work_for,
    settle_held,
    settled_result,
    settled_text,
)
from remand.interfaces.cli.output import Result, clean, one_line
from remand.interfaces.cli.task_views import find_task

NOTHING = "Nothing waits for you."


def _nothing(parser: ArgumentParser) -> None:
    """Takes no arguments."""


def _inbox(context: Context) -> Result:
    questions = _open(context)
    data = msgspec.to_builtins(questions)
    if questions and _may_be_asked(context):
        return Result(data, _ask_each(context, questions))
    pages = [
        _page(found, may_answer=not context.is_confined)
        for found in questions
        if not isinstance(found, HeldQuestion) or not found.options
    ]
    held = {found.task_id for found in questions if isinstance(found, HeldQuestion) and found.options}
    works = held_work_for(context, acting_member(context)) if held else []
    pages += [held_block(work) for work in works if work.task_id in held]
    return Result(data, "\n\n".join(pages) or NOTHING)


def _open(context: Context) -> list[Question]:
    rules = context.opened.settings.rules()
    with context.opened.store.read() as view:
        return open_questions(view, rules, lambda task_id: story(view, task_id), acting_member(context))


def _may_be_asked(context: Context) -> bool:
    """True when a person sits at a terminal that reads and writes, outside an agent's environment."""
    around = context.surroundings
    is_here = around.opened is None and not context.call.is_json and not context.is_confined
    return is_here and around.is_terminal and sys.stdin.isatty()


def _page(found: Question, *, may_answer: bool) -> str:
    """A question as people read it."""
    why, _, _ = found.question.partition(" Options: ")
    rows = [f"{found.escalation_id}  {found.task_id}  {one_line(found.title)}  (since {found.since[:19]})"]
    rows += [f"  {why}"]
    rows += [f"  {text}" for text in found.grounds] if isinstance(found, Undecided) else []
    rows += [f"  tried: {text}" for text in found.tried]
    rows += [f"  {number}) {option.text}  [{option.key}]" for number, option in enumerate(found.options, 1)]
    rows += [f"  {_waiting(found)}"] if found.options or not isinstance(found, ObjectionQuestion) else []
    if may_answer and found.options:
        rows += [f"  Answer: remand inbox answer {found.escalation_id} OPTION [--guidance TEXT]"]
        rows += [f"  or, with tasks of your own: {found.answer}"] if isinstance(found, Undecided) else []
    return "\n".join(rows)


def _waiting(found: Question) -> str:
    """What happens without an answer."""
    if isinstance(found, Undecided):
        return "Without an answer the task stays blocked; nothing is released or closed."
    if isinstance(found, HeldQuestion):
        return "Without an answer the work stays held; nothing is released or closed."
    if isinstance(found, ObjectionQuestion):
        return "Without an answer an approval of the work it names waits; nothing is released or closed."
    if isinstance(found, Alerted):
        return f"Without an answer {found.agent} goes on; nothing is released or closed."
    if found.acknowledged_by:
        return f"Seen by {found.acknowledged_by}. Without an answer the task waits; nothing is released or closed."
    return f"Without an answer the task waits, and you are told again at {found.deadline[:19]}; nothing is released or closed."


def _ask_each(context: Context, questions: list[Question]) -> str:
    """Asks for an answer to each question; an empty one leaves it, and the end of input leaves them all."""
    answered = 0
    for found in questions:
        if not _is_still_open(context, found):
            continue
        _say(context, f"{_page(found, may_answer=False)}\n")
        key = _chosen(context, found) if found.options else ""
        if key is None:
            break
        if not key:
            continue
        answered += 1
        ask = answering(found, key, _guidance(context, key))
        _say(context, f"{carry_out(context, ask, key, step=answered)}\n\n")
    return f"{answered} answered, {len(questions) - answered} still waiting."


def _is_still_open(context: Context, found: Question) -> bool:
    """False for a finding that is settled by what was answered to another one."""
    if not isinstance(found, HeldQuestion):
        return True
    return found.finding in open_findings(find_task(context, found.task_id)[0])


def carry_out(
    context: Context,
    ask: GivenAnswer,
    key: str,
    *,
    step: int = 0,
) -> str:
    """Gives an answer, and says what came of it."""
    name = context.actor()
    if isinstance(ask, c.SettleFinding):
        return settled_text(context, settle_held(context, ask, name, step=step), name)
    return followed(context.ask(ask, name, step=step), key)


def _say(context: Context, text: str) -> None:
    context.surroundings.stdout.write(clean(text))
    context.surroundings.stdout.flush()


def _chosen(context: Context, found: Question) -> str | None:
    """The key of the option that was typed, as a number or as itself; empty to leave it, None at the end of input."""
    while True:
        _say(context, f"Answer {found.escalation_id} with [1-{len(found.options)}], enter to leave: ")
        typed = sys.stdin.readline()
        if not typed:
            return None
        try:
            return _key(found.options, typed.strip()) if typed.strip() else ""
        except Refused as refusal:
            _say(context, f"{refusal.message}\n")


def _guidance(context: Context, key: str) -> str:
    """What the agent should know that is let back; asked for, since an unlock without it repeats what was."""
    if key in (DISMISS, DISMISS_ALL):
        _say(context, "Reason, which is recorded: ")
        return sys.stdin.readline().strip()
    if key == REFUSE:
        _say(context, "Reason for the agent, enter for none: ")
        return sys.stdin.readline().strip()
    if not key.startswith(f"{UNLOCK}:"):
        return ""
    _say(context, f"Guidance for {key.partition(':')[2]}, enter for none: ")
    return sys.stdin.readline().strip()


def _key(offered: Sequence[Option], option: str) -> str:
    """The key of an option that is given as its key or its number."""
    if not option.isdecimal():
        return option
    number = int(option[:9])
    if not 1 <= number <= len(offered):
        raise Refused("bad_value", f"There is no option {number}; choose one from 1 to {len(offered)}.")
    return offered[number - 1].key


def _answer_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("id", help="the question's id, or its task's")
    parser.add_argument(
        "option",
        help="fix, unlock:NAME, reassign:NAME, reopen, wontfix, accept, refuse, retry, ack, dismiss, dismiss_all, a decision, or its number",
    )
    parser.add_argument(
        "--guidance", default="", metavar="TEXT", help="what whoever goes on should know (@file, -)"
    )


def _answer(context: Context) -> Result:
    given = context.arguments
    task_name, signer = question_parts(given.id)
    if signer:
        return _dismiss(context, find_task(context, task_name)[0], signer, given.option)
    task, finding = _held_finding(context, given.id) or (_asking(context, given.id), "")
    is_about_alert = given.id.startswith("A-")
    if finding or (not is_about_alert and task.open_escalation is None and open_findings(task)):
        return _settle_finding(context, task, finding, given.option)
    ask, key, name = _meant(context, task, given.option, context.text(given.guidance))
    answer = context.ask(ask, context.actor())
    reserved = next((event for event in answer.events if isinstance(event, e.HandoffInitiated)), None)
    data = {
        "task_id": answer.task.id,
        "status": answer.task.status.value,
        "escalation_id": name,
        "option": key,
        "reassigned_to": reserved.target_agent if reserved else None,
        "locked_out": [lockout.agent for lockout in answer.task.active_lockouts],
    }
    return Result(data, followed(answer, key))


def _dismiss(context: Context, task: Task, signer: str, option: str) -> Result:
    """Dismisses what a key that is not trusted said against a task, or what all such keys said."""
    key = _key(OBJECTION_OPTIONS, option)
    ask = dismissal(task.id, signer, key, context.text(context.arguments.guidance))
    answer = context.ask(ask, context.actor())
    data = {
        "task_id": answer.task.id,
        "status": answer.task.status.value,
        "escalation_id": context.arguments.id,
        "option": key,
        "reassigned_to": None,
        "locked_out": [lockout.agent for lockout in answer.task.active_lockouts],
    }
    return Result(data, followed(answer, key))


def _held_finding(context: Context, name: str) -> tuple[Task, str] | None:
    """The task and the finding that the id of a held question names; None for any other id."""
    task_name, slash, finding = name.rpartition("/")
    with context.opened.store.read() as view:
        task = view.tasks.get(locate(view, task_name)) if slash else None
    return (task, finding) if task is not None else None


def _settle_finding(context: Context, task: Task, finding: str, option: str) -> Result:
    """Settles a held finding: the one that is named, or the only one that there is."""
    held = open_findings(task)
    choice, _, named = _key(HELD_OPTIONS, option).partition(":")
    meant = finding or named or (held[0] if len(held) == 1 else "")
    ask = settle_ask(task.id, meant, choice, context.text(context.arguments.guidance))
    after, name = settle_held(context, ask, context.actor()), question_id(task.id, meant)
    settled = settled_result(context, after, context.actor())
    given = {"escalation_id": name, "option": choice, "reassigned_to": None}
    locked = {"locked_out": [lockout.agent for lockout in after.active_lockouts]}
    return settled._replace(data=settled.data | given | locked)


def _meant(context: Context, task: Task, option: str, guidance: str) -> tuple[GivenAnswer, str, str]:
    """What an option, given as its key or its number, says to what a task asks: the ask, the key, and the question."""
    rules, filed = context.opened.settings.rules(), waiting(task)
    with context.opened.store.read() as view:
        if filed is not None:
            found = asked(view, rules, task, filed, lambda task_id: story(view, task_id))
            key = _key(found.options, option)
            return answering(found, key, guidance), key, found.escalation_id
        key = _key(ways(view, rules.team, task), option)
    name = _asked_as(task)
    return c.AnswerEscalation(task_id=task.id, escalation_id=name, option=key, guidance=guidance), key, name


def _asked_as(task: Task) -> str:
    """The id of what a task asks or alerts to, open or not."""
    alert = open_alert(task)
    return alert.id if alert else task.escalation.id if task.escalation else ""


def _asking(context: Context, name: str) -> Task:
    """The task that asked a question, by the question's id or its own; whether it is open the rules say."""
    look = {"E-": asked_under, "R-": rejected_under, "A-": alerted_under}.get(name[:2])
    if look is None:
        return find_task(context, name)[0]
    with context.opened.store.read() as view:
        found = look(view, name)
    if found is None:
        raise Refused("nothing_to_answer", f"There is no question {name[:40]}.")
    return found


def followed(answer: Accepted, key: str) -> str:
    """What came of an answer."""
    task, (choice, _, name) = answer.task, key.partition(":")
    held = f"; it is reserved for {name} for now" if task.offers else ""
    match choice:
        case "fix":
            agent = task.claim.agent if task.claim else ""
            return (
                f"{task.id} is yours: mend it, then remand task submit {task.id} --agent {agent} --commit SHA"
            )
        case "dismiss" | "dismiss_all":
            return f"No approval of {task.label} waits for that any more"
        case "ack":
            return f"{task.claim.agent if task.claim else 'the agent'} goes on with {task.label}"
        case "unlock":
            return f"{name} may work on {task.label} again{held}"
        case "reassign":
            return f"{name} takes {task.label} over{held}"
        case _:
            return f"{task.id} is {task.status}"


def _ack_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("id", help="the question's id, or its task's")


def _ack(context: Context) -> Result:
    asking = _asking(context, context.arguments.id)
    name, is_alert = _asked_as(asking), open_alert(asking) is not None
    ask = c.AcknowledgeEscalation(task_id=asking.id, escalation_id=name)
    task = context.ask(ask, context.actor()).task
    seen = task.gating.alert if is_alert else task.escalation
    by = seen.acknowledged_by if seen else ""
    data = {"task_id": task.id, "escalation_id": name, "acknowledged_by": by}
    waits = "the agent goes on" if is_alert else "it still waits for an answer"
    return Result(data, f"{name} was seen by {by} and is not repeated; {waits}")


COMMANDS = {
    "inbox": Command(_nothing, _inbox),
    "inbox answer": Command(_answer_arguments, _answer),
    "inbox ack": Command(_ack_arguments, _ack),
}
