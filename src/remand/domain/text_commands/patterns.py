"""The requests available in plain English, each with its command line, and the sentences that are obeyed."""

from __future__ import annotations

import re
from functools import cached_property
from shlex import quote

from remand.domain.record import Record
from remand.domain.text.words import word_set


class TaskName(Record, kw_only=True):
    """A task as people name it."""

    id: str
    label: str
    """`issue #42`, or `task T-…`."""
    alias: str = ""
    pr: int = 0

    @property
    def argument(self) -> str:
        """The task's name on a command line."""
        return quote(self.alias or self.id)


class TextRequest(Record, kw_only=True):
    """An understood request. `decide` says whether it is permitted."""


class ReviewTextRequest(TextRequest, kw_only=True):
    """Request a review of the submission."""

    reviewer: str
    task: TaskName


class WhyTextRequest(TextRequest, kw_only=True):
    """Ask why an agent is locked out, or why a task's work was rejected."""

    agent: str = ""
    task: TaskName | None = None


class UnlockTextRequest(TextRequest, kw_only=True):
    """Clear an agent's lockout."""

    agent: str
    task: TaskName
    reason: str = ""
    guidance: str = ""

    @property
    def advice(self) -> str:
        """The message to the agent: guidance, or else the reason."""
        return self.guidance or self.reason


class ReassignTextRequest(TextRequest, kw_only=True):
    """Let another agent continue the task."""

    task: TaskName
    target: str
    source: str = ""
    reason: str = ""


class EscalateTextRequest(TextRequest, kw_only=True):
    """Let the user decide how to continue with the task."""

    task: TaskName
    reason: str = ""


class StatusTextRequest(TextRequest, kw_only=True):
    """The state of the task."""

    task: TaskName


class LockoutsTextRequest(TextRequest, kw_only=True):
    """Ask who is locked out of one task or any."""

    task: TaskName | None = None


class InboxTextRequest(TextRequest, kw_only=True):
    """The questions that wait for the user."""


class AnswerTextRequest(TextRequest, kw_only=True):
    """The user's answer to an escalation."""

    task: TaskName
    option: str
    guidance: str = ""


USER_ONLY_REQUESTS = (UnlockTextRequest, AnswerTextRequest)
"""Requests permitted only to the user; their commands are not shown to others."""


_DEFAULT_REASON = "the user said so"
"""The reason for a command that needs one if none was given."""


class UnclearRequest(Record, kw_only=True):
    """A question back: what is unclear, and the possible requests."""

    message: str
    command: str = ""
    """The command for what plain English cannot do."""
    requests: tuple[TextRequest, ...] = ()

    @property
    def choices(self) -> tuple[str, ...]:
        """The exact command lines."""
        return tuple(dict.fromkeys(map(render_command_line, self.requests)))


class UnknownRequest(Record, kw_only=True):
    """A sentence that cannot be obeyed, and why."""

    message: str
    command: str = ""
    """The command for what plain English cannot do."""


TextResult = TextRequest | UnclearRequest | UnknownRequest


def describe_request(request: TextRequest) -> str:
    match request:
        case ReviewTextRequest(reviewer=reviewer, task=task):
            return f"Ask {reviewer} to review {task.label}{f' (PR #{task.pr})' if task.pr else ''}."
        case WhyTextRequest(agent="", task=TaskName() as task):
            return f"Explain why {task.label} was rejected."
        case WhyTextRequest(agent=agent, task=any_task):
            return f"Explain why {agent} is locked out{f' for {any_task.label}' if any_task else ''}."
        case UnlockTextRequest(agent=agent, task=task):
            return f"Unlock {agent} for {task.label}."
        case ReassignTextRequest(task=task, source=source, target=target):
            return f"Reassign {task.label}{f' from {source}' if source else ''} to {target}."
        case EscalateTextRequest(task=task):
            return f"Escalate {task.label} to the user."
        case StatusTextRequest(task=task):
            return f"Show the status of {task.label}."
        case LockoutsTextRequest(task=any_task):
            return f"List who is locked out{f' for {any_task.label}' if any_task else ''}."
        case AnswerTextRequest(task=task, option=option):
            return f"Answer the question about {task.label} with {option}."
        case _:
            return "List the questions that await the user."


def render_command_line(request: TextRequest) -> str:
    match request:
        case ReviewTextRequest(reviewer=reviewer, task=task):
            return f"remand review request {task.argument} --from {quote(reviewer)}"
        case WhyTextRequest(agent=agent, task=any_task) if agent:
            return f"remand why {quote(agent)}{f' --task {any_task.argument}' if any_task else ''}"
        case UnlockTextRequest(agent=agent, task=task):
            return f"remand unlock {quote(agent)} --task {task.argument} {_reason(request.reason)}{_guidance(request.advice)}"
        case ReassignTextRequest(task=task, source=source, target=target):
            from_whom = f" --from {quote(source)}" if source else ""
            return f"remand reassign {task.argument}{from_whom} --to {quote(target)}"
        case EscalateTextRequest(task=task):
            return f"remand escalate {task.argument} {_reason(request.reason)}"
        case StatusTextRequest(task=task) | WhyTextRequest(task=TaskName() as task):
            return f"remand task show {task.argument}"
        case LockoutsTextRequest():
            return "remand lockout list"
        case AnswerTextRequest(task=task, option=option):
            return f"remand inbox answer {task.argument} {quote(option)}{_guidance(request.guidance)}"
        case _:
            return "remand inbox"


def _reason(text: str) -> str:
    return f"--reason {quote(text or _DEFAULT_REASON)}"


def _guidance(text: str) -> str:
    return f" --guidance {quote(text)}" if text else ""


OBEY, ASK_BACK = False, True
"""Whether a sentence suffices to obey, or may also mean something else."""

SHORT = {
    "DO": "work_on|touch|claim|revise|fix|continue|resume|submit|take|edit|finish",
    "GIVE": "reassign|re-assign|give|hand|move|transfer|pass|assign|switch|route",
    "LIFT": "lift|clear|remove|end|undo",
    "LOCKED": "locked_out|locked-out|locked",
    "LOOK": "review|re-review|look_at|look_over|have_a_look_at|take_a_look_at|evaluate|examine",
    "OF_TASK": "[of|on|for|from|in {task}]",
    "TAKE": "take|take_over|take_on|do|continue|finish",
    "WANT": "i_want|i'd_like|i_would_like|i_need|we_need|we_want",
    "WORK": "[the|my|our] [work|submission|changes|code|patch on|for|of|in|to] [{anyone} 's] {task}",
}

TABLE: tuple[tuple[type[TextRequest], bool, str], ...] = (
    (UnlockTextRequest, OBEY, """
        unlock {agent} [again] for|on|from|of|in|at {task} [again]
        unlock {agent} [again] {task}
        unlock {agent} so_that|so {person} can|may DO {task} [again]
        unlock {task} for {agent}
        let|allow {agent} [to] DO {task} again
        let|allow {agent} back on|onto|to|into {task}
        LIFT {agent} 's lockout|lock for|on|from|of|in {task}
        LIFT [the] lockout|lock of|for|on|from {agent} for|on|from|of|in {task}
        LIFT [the] lockout|lock on|for|from|of {task} for|of {agent}
    """), (UnlockTextRequest, ASK_BACK,"""
        unlock {agent}
        unlock {agent} [for] everything|everywhere|all_tasks|all_of_it|it|this|that
        unlock {task}
        unlock everyone|everybody|all|all_agents|them|him|her for|on|from {task}
        LIFT {agent} 's lockout|lock
        LIFT [the] lockout|lock of|for|on {agent}
        unblock|free|release|reinstate|readmit|unban {agent} for|on|from|of {task}
        let|allow {agent} [to] DO {task}
        give {agent} another|a_second|one_more chance|try|go on|with|at {task}
        {agent} may|can|should DO {task} again
        {agent} should|must|can|may be unlocked for|on|from {task}
    """), (ReviewTextRequest, OBEY,"""
        {reviewer} [,|:] [please|kindly] [can|could|would|will you [please]] LOOK WORK [again]
        {reviewer} [,|:] would you mind reviewing WORK
        review|re-review WORK [please] [,] {reviewer}
        ask|tell|get|have|let|request {reviewer} [to] LOOK WORK [again]
        request|get|ask_for [a] review of|for|on WORK from|by {reviewer}
        request|get|ask_for [a] review from|by {reviewer} of|for|on WORK
        request {reviewer} 's review of|for|on WORK
        ask {reviewer} for a review of|on WORK
        send|pass|hand|give WORK to {reviewer} for|to review
        have|get WORK reviewed by {reviewer}
        assign {reviewer} to review WORK
        assign {reviewer} as [the|a] reviewer of|for|on|to WORK
        WANT {reviewer} to LOOK WORK
        WANT a review of|for|on WORK from|by {reviewer}
    """), (ReviewTextRequest, ASK_BACK,"""
        review WORK
        request|get|ask_for [a] review of|for|on WORK
        have|get WORK reviewed
        {reviewer} should|must|can|could|may LOOK WORK
        WORK needs|is_ready_for [a] review by|from {reviewer}
        {reviewer} ,|: WORK needs|is_ready_for [a] review
        {reviewer} ,|: check WORK
    """), (WhyTextRequest, OBEY,"""
        why|for_what_reason is|was|has {agent} [been|still] LOCKED OF_TASK
        why's {agent} [been|still] LOCKED OF_TASK
        why did {agent} get LOCKED OF_TASK
        why|for_what_reason is|was {agent} [still] blocked on|from {task}
        why am {i} [still] LOCKED OF_TASK
        why does {agent} have a lockout OF_TASK
        why did {reviewer} lock {agent} out OF_TASK
        why was {agent} LOCKED by {reviewer} OF_TASK
        why can't|cannot|can|may|isn't|is {agent} [not|no_longer] [allowed_to|able_to] DO {task} [again]
        why can't|cannot {i} DO {task} [again]
        why [was|is|were|has] WORK [been] rejected|sent_back|refused|turned_down
        why did {reviewer} reject|refuse|send_back|turn_down WORK
        [tell_me|explain|explain_to_me|say] why {agent} is|was|'s|has_been LOCKED OF_TASK
        [tell_me|explain|explain_to_me|say] why {agent} can't|cannot|may_not DO {task}
        [tell_me|explain|explain_to_me|say] why WORK was rejected|sent_back|refused
        {agent} is|'s|was LOCKED OF_TASK , why
        WANT to know why {agent} is|was|'s|has_been LOCKED OF_TASK
        explain {agent} 's lockout OF_TASK
        explain [the] lockout of {agent} OF_TASK
        how_come {agent} is|was|'s LOCKED OF_TASK
        what_is|what's [the] reason for|of {agent} 's lockout OF_TASK
        what_is|what's the reason [why|that] {agent} is|was|'s LOCKED OF_TASK
        what_did {agent} do|get wrong [on|with|in {task}]
        what_did {agent} do to get|be LOCKED OF_TASK
        who locked {agent} out OF_TASK
        who locked_out {agent} OF_TASK
        is|was {agent} [still] LOCKED|unlocked OF_TASK
        what_is|what's {agent} locked_out of|from|for
    """), (ReassignTextRequest, OBEY,"""
        GIVE {task} [over|on|away] from {source} [over|on] to {target}
        GIVE {task} [over|on] to {target} from|instead_of {source}
        GIVE {source} 's {task} [over|on] to {target}
        GIVE {task} [over|on] to {target}
        reassign|re-assign|give|hand|pass {target} {task}
        reassign|re-assign {task} [:|,|(] {source} to {target} [)]
        reassign|re-assign from {source} to {target} [on|for] {task}
        take {task} [away] from {source} and give|hand it [over] to {target}
        let|have|make {target} TAKE {task} [over] [from|instead_of {source}]
        {target} ,|: [please] TAKE {task} [over] [from|instead_of {source}]
        put|assign {target} on|to {task} [instead_of {source}]
        replace {source} by|with {target} on|for {task}
        swap {source} for {target} on {task}
    """), (ReassignTextRequest, ASK_BACK,"""
        reassign|re-assign {task} [from {source}]
        {target} should|must|can|could|may TAKE {task} [over] [from {source}]
        {target} takes|takes_over|gets {task} [over] [from {source}]
        [{source} 's] {task} goes|should_go|must_go to {target}
    """), (EscalateTextRequest, OBEY,"""
        escalate {task} [to {human}]
        escalate to {human} [:|,] {task}
        raise {task} to|with {human}
        bring {task} to {human}
        bring {task} to my_attention
        let {human} decide|decide_on|decide_about {task}
        ask {human} about|what_to_do_about|what_to_do_with {task}
        WANT to decide|decide_on|decide_about {task} [myself]
        hand|give|pass {task} [over|up] to me|the_user [to_decide]
    """), (StatusTextRequest, OBEY,"""
        [what_is|what's|tell_me|show_me|show|give_me] [the] [current] status|state of|on|for {task} [now]
        status|state {task}
        {task} status|state
        what_is|what's {task} 's status|state
        show|show_me|describe|display {task}
        how_is|how's|how_are|how_far_is {task} [doing|going|coming_along|getting_on]
        how does it stand with {task}
        where does {task} stand
        where_is|where's|where_are_we_with|where_do_we_stand_on|where_do_we_stand_with {task}
        what_happened|what_has_happened|what_is_happening|what's_happening to|with|on {task}
        what_is_going_on|what's_going_on|what's_up|what_is_up with|on {task}
        [is_there|do_you_have] any|an news|update|updates|progress on|about|for|with {task}
        what about {task}
        what_is|what's|what_does {task} waiting|wait for
        who_is|who's working_on|on|doing {task}
        who's_got|who_has_got|who_has|who_holds|who_owns|who_works_on {task}
        is|was {task} done|finished|merged|ready|approved|rejected|blocked|escalated|claimed|stuck [yet]
    """), (LockoutsTextRequest, OBEY,"""
        who_is|who's|who_are|who_was [currently|still|all] LOCKED [now] OF_TASK
        which|what agents are [currently|still] LOCKED OF_TASK
        is|are anyone|anybody|someone|somebody|any_agents [currently|still] LOCKED OF_TASK
        [list|show|show_me|what_are|who_are|give_me] [all] [the|my|current] lockouts|locked_out_agents OF_TASK
        are_there any lockouts OF_TASK
        lockout list
    """), (InboxTextRequest, OBEY,"""
        what_is|what's [there] waiting|open|pending [for|on|with me|us]
        what waits for me|us
        what_do|what_must|what_should|what i [have_to|need_to] decide|answer
        what needs my|our attention|decision|answer|input
        [is_there|is|do_you_have] [there] anything|something [waiting] for me [to_do|to_decide]
        what_is|what's there for me [to_do|to_decide]
        do i have|have_to_answer|need_to_answer any|anything [questions|escalations]
        what_do_you need|want from me
        what_are_you waiting for me to decide|do|answer
        do_you need|want anything|something from me
        [show|show_me|open|check|list] [me] [my|the] inbox
        what_is|what's in my|the inbox
        [show|show_me|list|what_are] [me] [all] [my|the|any] [open] escalations|questions [for_me]
    """), (AnswerTextRequest, OBEY,"""
        answer {task} : {option}
        answer {task} : unlock : {agent}
        answer {task} : reassign : {target}
    """),
)  # fmt: skip

BECAUSE = "because_of|because|since|as|so_that|so|due_to|given_that|now_that|reason_:"
GUIDING = (
    "[and] [with] [the|this|these|some|better|new|more|following] guidance|instructions|advice [that] [:|—|,]",
    "and give him|her|them [the|this|these|some|better|new|more|following] guidance|instructions|advice [:|—|,]",
    "and|, tell him|her|them [that|to] [:|,]",
)
"""Words that may separate a request from guidance for the agent."""

POLITE = (
    "[hey|hi|hello|ok|okay|alright [,]] [remand|coordinator [,|:]] [please|pls|kindly [,]] "
    "[can|could|would|will you [please|kindly]] [let's] [i_want|i'd_like|i_would_like|i_need you to] "
    "[go_ahead_and|just]"
)
THANKS = (
    "[any_more|anymore] [,] [please|pls|now|right_away|right_now|immediately|asap|for_me|if_you_please] "
    "[,|.] [please|thanks|thank_you]"
)

NEGATIONS = word_set("""
    not don't dont never no nobody cannot can't won't shouldn't mustn't needn't wouldn't doesn't didn't without stop avoid
    refuse neither nor refrain hardly
    """)
CONDITIONS = word_set("""
    if unless until till when whenever once after before provided assuming only except should would could might maybe
    perhaps otherwise else later tomorrow tonight depending whether suppose supposing pending while
    """)
SPEECH = word_set("""
    said says say saying wrote writes told tells asked asks wants wanted thinks thought claims claimed suggests suggested
    according quote quoting commented begged insists
    """)
TURNS = (
    CONDITIONS
    | SPEECH
    | word_set("""
        not don't dont never but or and then though although however wait nevermind just lol actually rather sorry oops
        correction instead denied refused forbidden from hypothetically theoretically supposedly allegedly
        unlock reassign re-assign escalate give hand move transfer assign let allow ask tell lift clear remove approve
        reject retract override accept cancel reopen claim submit answer merge close
        """)
)
"""Words that revoke the request or begin another one at the start of a reason."""
LIMITS = word_set("if unless until provided assuming otherwise only too also likewise kidding joking jk")
"""Words that limit or revoke a request anywhere in its reason."""

QUERY_REQUESTS = (WhyTextRequest, StatusTextRequest, LockoutsTextRequest, InboxTextRequest)
"""Read-only requests, which may be phrased as questions."""

_ROWS = (POLITE, THANKS, BECAUSE, *GUIDING, *SHORT.values(), *(rows for _, _, rows in TABLE))
ORDINARY_WORDS = (
    frozenset(word for row in _ROWS for word in re.findall(r"[a-z][a-z'-]*", re.sub(r"\{.*?\}", "", row)))
    | TURNS
    | NEGATIONS
    | LIMITS
    | word_set("and or then also too both but i you we he she they it agent fix reopen wontfix")
)
"""Words with a meaning here; any other may be an unknown person's name, written `~` in patterns."""

_SLOTS = {
    "{task}": r"(?:the |this |my |our )?(?P<task>#\d+) ",
    "{anyone}": r"@\d+ ",
    "{i}": r"(?P<agent>i) ",
    "{option}": r"(?P<option>fix|reopen|wontfix) ",
    "{person}": r"(?:he|she|they|it|@\d+) ",
}


class SentencePattern:
    """One row of the table, compiled on first use."""

    def __init__(self, request: type[TextRequest], row: str, *, is_loose: bool) -> None:
        self.request = request
        self.row = row
        self.is_loose = is_loose

    @cached_property
    def whole(self) -> re.Pattern[str]:
        """Matches a whole sentence, with polite words around it and possibly unknown names."""
        return re.compile(f"{compile_row(POLITE)}{compile_row(self.row)}{compile_row(THANKS)}(?:[.?] )*")

    @cached_property
    def part(self) -> re.Pattern[str]:
        """Matches anywhere in a sentence, with known names only."""
        return re.compile(rf"(?<!\S){compile_row(self.row, names='@')}")


def compile_row(row: str, *, names: str = "@~") -> str:
    """A row as a regular expression over `Sentence.shape`; `names` are the symbols for known and unknown names."""
    parts = []
    row = re.sub(r"[A-Z_]{2,}", lambda short: SHORT[short.group()], row)
    for element in re.findall(r"\[|\]|[^\s\[\]]+", row):
        if element in "[]":
            parts.append("(?:" if element == "[" else ")?")
        elif element in _SLOTS:
            parts.append(_SLOTS[element])
        elif element.startswith("{"):
            parts.append(rf"(?:the )?(?:agent )?(?P<{element[1:-1]}>[{names}]\d+|me|myself) ")
        else:
            words = (re.escape(word).replace("_", " ") for word in element.split("|"))
            parts.append(f"(?:{'|'.join(words)}) ")
    return "".join(parts)


PATTERNS = tuple(
    SentencePattern(request, row, is_loose=loose)
    for request, loose, rows in TABLE
    for row in rows.strip().splitlines()
)
