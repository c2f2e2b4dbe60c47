"""The user's inbox: open questions, their answers, and notices of them."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import msgspec

from remand.app.events.task_folds import task_events
from remand.app.inbox import decisions, held_findings
from remand.app.inbox.objections import OBJECTION_OPTIONS, ObjectionQuestion, dismissal_command
from remand.app.inbox.questions import (
    AlertQuestion,
    Question,
    answer_options,
    find_task_by_alert,
    find_task_by_question,
)
from remand.app.requests import Acceptance
from remand.app.tasks.lookup import resolve_task_id
from remand.domain import commands as c
from remand.domain.access.agent_calls import require_outside_agent
from remand.domain.decisions.escalations import UNLOCK, EscalationOption, number_options
from remand.domain.decisions.findings import open_findings
from remand.domain.decisions.notices import open_alert
from remand.domain.decisions.objections import DISMISS, DISMISS_ALL, parse_question_id
from remand.domain.events.reviews import AnswerRetracted
from remand.domain.events.tasks import HandoffInitiated
from remand.domain.refusals import Refused, are_consecutive, option_at, require_question
from remand.domain.task import Task
from remand.domain.text.words import format_count
from remand.interfaces.cli.context import Context, argument, command
from remand.interfaces.cli.output import Result, clean, one_line, table
from remand.interfaces.cli.tasks import verdicts
from remand.interfaces.cli.tasks.views import find_task
from remand.wiring import after_call

_NO_CHANNEL = (
    "No channel is configured. Write one address per line to {}, readable only by you, or set REMAND_NOTIFY."
)


@command(
    "notify",
    argument("--test", action="store_true", help="send a test notice through every channel"),
    argument("--paced", action="store_true", help="limit the rate of notices, as Remand itself does"),
)
def _notify(context: Context) -> Result:
    require_outside_agent("notify", is_confined=context.is_confined)
    if context.arguments.test:
        return _test_channels()
    delivery = after_call.notice_delivery(context.opened_ledger)
    release = after_call.notice_channels.release_delivery
    sent = delivery.deliver_paced(release) if context.arguments.paced else delivery.deliver()
    data = {
        "channels": [address.name for address in after_call.notice_channels.read_addresses().channels],
        "notices": sent.notices,
        "delivered": [{"escalation_id": name, "channel": channel} for name, channel in sent.delivered],
        "problems": list(sent.problems),
    }
    rows = [
        f"{format_count(sent.notices, 'notice')} about {format_count(len(sent.delivered), 'question')}",
        *sent.problems,
    ]
    if not data["channels"]:
        rows.append(_NO_CHANNEL.format(after_call.notice_channels.addresses_file()))
    return Result(data, "\n".join(rows), code=3 if sent.problems else 0)


def _test_channels() -> Result:
    channels, problems = after_call.notice_channels.open_channels()
    results = [
        (channel.name, channel.send("Remand", "This is a test: questions will reach you here."))
        for channel in channels
    ]
    data = [{"channel": name, "ok": not problem, "problem": problem} for name, problem in results]
    data += [{"channel": "", "ok": False, "problem": problem} for problem in problems]
    rows = [(row["channel"], "took it" if row["ok"] else row["problem"]) for row in data]
    is_well = all(row["ok"] for row in data)
    none = _NO_CHANNEL.format(after_call.notice_channels.addresses_file())
    return Result(data, table(("channel", "result"), rows, none, wraps=True), code=0 if is_well else 3)


NO_QUESTIONS = "Nothing waits for you."


@command("inbox")
def _inbox(context: Context) -> Result:
    rules, origin = context.opened_ledger.settings.rules(), context.origin
    with context.opened_ledger.store.read() as view:
        questions = decisions.open_questions(
            view,
            rules,
            verdicts.acting_member(context),
            after_call.scheduler_files.unstartable(
                context.opened_ledger.folders.status, rules.team.members, context.opened_ledger.place.root
            ),
        )
    data = msgspec.to_builtins(questions)
    is_interactive = origin.opened is None and origin.is_terminal and sys.stdin.isatty()
    if questions and is_interactive and not context.call.is_json and not context.is_confined:
        return Result(data, _ask_each(context, questions))
    if context.call.is_json:
        return Result(data, "")
    held = {
        question.task_id
        for question in questions
        if isinstance(question, held_findings.HeldQuestion) and question.options
    }
    pages = [
        _page(found, may_answer=not context.is_confined)
        for found in questions
        if not isinstance(found, held_findings.HeldQuestion) or not found.options
    ]
    works = verdicts.held_work_for(context, verdicts.acting_member(context)) if held else []
    pages += [verdicts.render_held_work(work) for work in works if work.task_id in held]
    return Result(data, "\n\n".join(pages) or NO_QUESTIONS)


def _page(question: Question, *, may_answer: bool) -> str:
    """A question as text."""
    why, _, _ = question.question.partition(" Options: ")
    rows = [
        f"{question.escalation_id}  {question.task_id}  {one_line(question.title)}  (since {question.since[:19]})"
    ]
    rows += [f"  {why}"]
    rows += (
        [f"  {text}" for text in question.grounds] if isinstance(question, decisions.DecisionQuestion) else []
    )
    rows += [f"  tried: {text}" for text in question.tried]
    rows += [
        f"  {number}) {option.text}  [{option.key}]" for number, option in number_options(question.options)
    ]
    rows += (
        [f"  {_default_text(question)}"]
        if question.options or not isinstance(question, ObjectionQuestion)
        else []
    )
    if may_answer and question.options:
        rows += [f"  Answer: remand inbox answer {question.escalation_id} OPTION [--guidance TEXT]"]
        rows += (
            [f"  or, with tasks of your own: {question.answer}"]
            if isinstance(question, decisions.DecisionQuestion)
            else []
        )
    return "\n".join(rows)


def _default_text(question: Question) -> str:
    """What happens without an answer."""
    if isinstance(question, decisions.DecisionQuestion):
        return "Without an answer the task stays blocked; nothing is released or closed."
    if isinstance(question, held_findings.HeldQuestion):
        return "Without an answer the work stays held; nothing is released or closed."
    if isinstance(question, ObjectionQuestion):
        return "Without an answer an approval of the work it names waits; nothing is released or closed."
    if isinstance(question, AlertQuestion):
        return f"Without an answer {question.agent} continues; nothing is released or closed."
    if question.acknowledged_by:
        return f"Seen by {question.acknowledged_by}. Without an answer the task waits; nothing is released or closed."
    return f"Without an answer the task waits, and you are reminded at {question.deadline[:19]}; nothing is released or closed."


def _ask_each(context: Context, questions: list[Question]) -> str:
    """Asks for an answer to each question; an empty one skips it, and the end of input skips the rest."""
    answered = 0
    for question in questions:
        # An answer to another question may have settled this finding.
        if isinstance(question, held_findings.HeldQuestion) and question.finding not in open_findings(
            find_task(context, question.task_id)[0]
        ):
            continue
        _write_prompt(context, f"{_page(question, may_answer=False)}\n")
        key = _read_choice(context, question) if question.options else ""
        if key is None:
            break
        if not key:
            continue
        answered += 1
        request = decisions.command_for_answer(question, key, _read_guidance(context, key))
        _write_prompt(context, f"{give_answer(context, request, key, step=answered)}\n\n")
    return f"{answered} answered, {len(questions) - answered} still waiting."


def give_answer(context: Context, request: decisions.AnswerCommand, key: str, *, step: int = 0) -> str:
    """Gives an answer, and returns the outcome as text."""
    name = context.actor()
    if isinstance(request, c.SettleFinding):
        return str(
            verdicts.settlement_result(
                context, verdicts.settle_held(context, request, name, step=step), name
            ).show
        )
    return _answer_text(context.ask(request, name, step=step), key)


def _write_prompt(context: Context, text: str) -> None:
    context.origin.stdout.write(clean(text))
    context.origin.stdout.flush()


def _read_choice(context: Context, question: Question) -> str | None:
    """The key of the typed option, given as a number or a key; empty to skip it, None at the end of input."""
    numbers = sorted(dict(number_options(question.options)))
    choices = f"1-{len(numbers)}" if are_consecutive(numbers) else ", ".join(map(str, numbers))
    while True:
        _write_prompt(context, f"Answer {question.escalation_id} with [{choices}], enter to skip: ")
        typed = sys.stdin.readline()
        if not typed:
            return None
        try:
            return _option_key(question.options, typed.strip()) if typed.strip() else ""
        except Refused as refusal:
            _write_prompt(context, f"{refusal.message}\n")


def _read_guidance(context: Context, key: str) -> str:
    """Guidance for the agent that continues: an unlock without guidance tends to repeat the mistake."""
    if key in (DISMISS, DISMISS_ALL):
        _write_prompt(context, "Reason, which is recorded: ")
    elif key == held_findings.REFUSE:
        _write_prompt(context, "Reason for the agent, enter for none: ")
    elif key.startswith(f"{UNLOCK}:"):
        _write_prompt(context, f"Guidance for {key.partition(':')[2]}, enter for none: ")
    else:
        return ""
    return sys.stdin.readline().strip()


def _option_key(offered: Sequence[EscalationOption], option: str) -> str:
    if not option.isdecimal():
        return option
    return option_at(dict(number_options(offered)), int(option[:9])).key


@command(
    "inbox answer",
    argument("id", help="the question's id, or its task's"),
    argument(
        "option",
        help="fix, unlock:NAME, reassign:NAME, reopen, wontfix, accept, refuse, retry, ack, dismiss, dismiss_all, a decision, or its number",
    ),
    argument(
        "--guidance", default="", metavar="TEXT", help="guidance for the agent that continues (@file, -)"
    ),
)
def _answer(context: Context) -> Result:
    options = context.arguments
    task_name, signer = parse_question_id(options.id)
    if signer:
        # Objections of one key that is not trusted, or of all such keys, are dismissed.
        task, key = find_task(context, task_name)[0], _option_key(OBJECTION_OPTIONS, options.option)
        dismissal = dismissal_command(task.id, signer, key, context.text(options.guidance))
        return _answer_result(context.ask(dismissal, context.actor()), key, options.id)
    task_name, slash, finding = options.id.rpartition("/")
    with context.opened_ledger.store.read() as view:
        held_task = view.tasks.get(resolve_task_id(view, task_name)) if slash else None
    task, finding = (held_task, finding) if held_task else (_find_asking_task(context, options.id), "")
    is_about_alert = options.id.startswith("A-")
    if finding or (not is_about_alert and task.open_escalation is None and open_findings(task)):
        return _settle_finding(context, task, finding, options.option)
    request, key, name = _resolve_answer(context, task, options.option, context.text(options.guidance))
    return _answer_result(context.ask(request, context.actor()), key, name)


def _answer_result(answer: Acceptance, key: str, name: str) -> Result:
    reserved = next((event for event in answer.events if isinstance(event, HandoffInitiated)), None)
    data = {
        "task_id": answer.task.id,
        "status": answer.task.status.value,
        "escalation_id": name,
        "option": key,
        "reassigned_to": reserved.target_agent if reserved else None,
        "locked_out": [lockout.agent for lockout in answer.task.active_lockouts],
    }
    return Result(data, _answer_text(answer, key))


def _settle_finding(context: Context, task: Task, finding: str, option: str) -> Result:
    """Settles a held finding: the named one, or the only one."""
    findings = open_findings(task)
    choice, _, named = _option_key(held_findings.HELD_OPTIONS, option).partition(":")
    meant = finding or named or (findings[0] if len(findings) == 1 else "")
    request = held_findings.settlement_command(
        task.id, meant, choice, context.text(context.arguments.guidance)
    )
    after = verdicts.settle_held(context, request, context.actor())
    settled = verdicts.settlement_result(context, after, context.actor())
    given = {
        "escalation_id": held_findings.held_question_id(task.id, meant),
        "option": choice,
        "reassigned_to": None,
        "locked_out": [lockout.agent for lockout in after.active_lockouts],
    }
    return settled._replace(data=settled.data | given)


def _resolve_answer(
    context: Context, task: Task, option: str, guidance: str
) -> tuple[decisions.AnswerCommand, str, str]:
    """The command for an option given as its key or number, the key, and the question's id."""
    rules, filed = context.opened_ledger.settings.rules(), decisions.pending_rejection(task)
    with context.opened_ledger.store.read() as view:
        if filed is not None:
            question = decisions.decision_question(
                view, rules, task, filed, lambda task_id: task_events(view, task_id)
            )
            key = _option_key(question.options, option)
            return decisions.command_for_answer(question, key, guidance), key, question.escalation_id
        key = _option_key(answer_options(view, rules.team, task), option)
    name = _question_id(task)
    return c.AnswerEscalation(task_id=task.id, escalation_id=name, option=key, guidance=guidance), key, name


def _question_id(task: Task) -> str:
    """The id of a task's question or alert, open or not."""
    alert = open_alert(task)
    return alert.id if alert else task.inbox.escalation.id if task.inbox.escalation else ""


def _find_asking_task(context: Context, name: str) -> Task:
    """The task that asked a question, by the question's id or its own; the rules say whether it is open."""
    find = {
        "E-": find_task_by_question,
        "R-": decisions.find_task_by_rejection,
        "A-": find_task_by_alert,
    }.get(name[:2])
    if find is None:
        return find_task(context, name)[0]
    with context.opened_ledger.store.read() as view:
        task = find(view, name)
    return require_question(task, name)


def _answer_text(answer: Acceptance, key: str) -> str:
    task, (choice, _, name) = answer.task, key.partition(":")
    reservation = f"; it is reserved for {name} for now" if task.claims.offers else ""
    match choice:
        case "fix":
            agent = task.claim.agent if task.claim else ""
            return f"{task.id} is yours: fix it, then run remand task submit {task.id} --agent {agent} --commit SHA"
        case "dismiss" | "dismiss_all":
            return f"That no longer blocks an approval of {task.label}"
        case "ack":
            return f"{task.claim.agent if task.claim else 'the agent'} continues with {task.label}"
        case "unlock":
            return f"{name} may work on {task.label} again{reservation}"
        case "reassign":
            return f"{name} takes over {task.label}{reservation}"
        case _:
            return f"{task.id} is {task.status}"


@command(
    "inbox retract",
    argument("id", help="the question's id, or its task's"),
    argument("--reason", default="", metavar="TEXT", help="the reason, which is recorded (@file, -)"),
)
def _retract(context: Context) -> Result:
    options = context.arguments
    held_task, slash, _ = options.id.rpartition("/")
    task = _find_asking_task(context, held_task if slash else options.id)
    request = c.RetractAnswer(task_id=task.id, reason=context.text(options.reason))
    answer = context.ask(request, context.actor())
    option = next(event.option for event in answer.events if isinstance(event, AnswerRetracted))
    data = {"task_id": answer.task.id, "status": answer.task.status.value, "option": option}
    return Result(data, f"The answer {option} is retracted; {answer.task.id} is {answer.task.status}")


@command("inbox ack", argument("id", help="the question's id, or its task's"))
def _ack(context: Context) -> Result:
    asking = _find_asking_task(context, context.arguments.id)
    name, is_alert = _question_id(asking), open_alert(asking) is not None
    request = c.AcknowledgeEscalation(task_id=asking.id, escalation_id=name)
    task = context.ask(request, context.actor()).task
    acknowledged = task.gates.progress.alert if is_alert else task.inbox.escalation
    by = acknowledged.acknowledged_by if acknowledged else ""
    data = {"task_id": task.id, "escalation_id": name, "acknowledged_by": by}
    waits = "the agent continues" if is_alert else "it still needs an answer"
    return Result(data, f"{by} acknowledged {name}, so its notices stop; {waits}")
