"""The validator's facts from the ledger and the repository, and all issues it can raise."""

from typing import Self

from remand.domain.record import NamedTuple, Record


class Issue(Record, kw_only=True):
    """One reason why a rejection is invalid. As text it is its message."""

    code: str
    field: str
    message: str

    def __str__(self) -> str:
        return self.message


class IssueText(str):
    """An issue as reported: its message with its code and field."""

    __slots__ = ("code", "field", "message")

    def __new__(cls, issue: Issue) -> Self:
        text = super().__new__(cls, issue.message)
        text.code, text.field, text.message = issue.code, issue.field, issue.message
        return text

    code: str
    field: str
    message: str


class Feature(Record, kw_only=True):
    """A measured property of the text and its weight: positive values support the rejection."""

    name: str
    field: str
    value: float
    weight: float
    note: str = ""

    @property
    def contribution(self) -> float:
        return self.value * self.weight


class Assessment(Record, kw_only=True):
    """The assessment of one rejection: valid if there is no issue."""

    issues: tuple[Issue, ...] = ()
    features: tuple[Feature, ...] = ()
    score: float = 0.0

    @property
    def is_valid(self) -> bool:
        """True when nothing speaks against it."""
        return not self.issues


class NamedTask(Record, kw_only=True):
    """A task named in the text, as the ledger knows it."""

    name: str
    """As written: an id with or without prefix, or an alias such as `#42`."""
    task_id: str = ""
    """Its id; empty if the ledger does not know it."""
    title: str = ""
    status: str = ""
    created_by: str = ""
    is_related: bool = True
    """Whether it shares words with the rejected task."""
    is_self: bool = False
    is_descendant: bool = False
    """Whether it was split from the rejected task, or depends on it."""
    is_open: bool = False


class EvidenceGrade(Record, kw_only=True):
    """The result of checking one piece of evidence or one attempt."""

    index: int
    grade: str
    detail: str = ""


class ValidationFacts(Record, kw_only=True):
    """Facts gathered before judging. A validator without a ledger has none and assumes that named ids exist."""

    named: tuple[NamedTask, ...] = ()
    graded: tuple[EvidenceGrade, ...] = ()
    attempts: tuple[EvidenceGrade, ...] = ()
    """The attempts compared with the journal of the agent's runs; only shown to the director."""
    merged: tuple[str, ...] = ()
    """Named commits that are on the base branch."""
    has_repository: bool = False
    """Whether commits and files could be looked up."""

    def find_task(self, text: str) -> NamedTask | None:
        """What is known of a name."""
        return next((item for item in self.named if item.name == text), None)


class IssueEntry(NamedTuple):
    field: str
    meaning: str
    message: str
    is_formal: bool = False
    """Whether a part is missing or misquoted that the agent can supply; other issues concern the content."""


ENTRIES = {
    "reason_unknown": IssueEntry("reason_type", "The reason is not one of the six.",
        "The reason is unknown. Give one of BLOCKER, SCOPE_CREEP, MISSING_DEPENDENCY, INFEASIBLE, "
        "UNCLEAR_REQUIREMENTS or OBSOLETE.", is_formal=True),
    "summary_missing": IssueEntry("reason_summary", "There is no summary.",
        "Give a summary: in one line, what prevents completion.", is_formal=True),
    "detail_missing": IssueEntry("reason_detail", "There is no detail.",
        "Give the detail: the facts, how they were observed, and why they prevent completion.", is_formal=True),
    "effort_too_few": IssueEntry("what_attempted", "Fewer than two attempts are documented.",
        "Insufficient effort demonstrated. Document at least 2 concrete attempts, each with its result."),
    "effort_vague": IssueEntry("what_attempted", "Fewer than two attempts say anything concrete.",
        "Attempts are too vague: at least 2 must say what was run, read or asked, and what was seen "
        "(a command, a path, a figure, an error text)."),
    "effort_repeated": IssueEntry("what_attempted", "The attempts describe the same thing twice.",
        "The attempts repeat one another. Document at least 2 different attempts."),
    "effort_weak": IssueEntry("what_attempted", "The attempts do not support the claim.",
        "The attempts are too vague or do not show the claim. Say what was run and what was seen, so that others could repeat it."),
    "blocking_factor_missing": IssueEntry("blocking_factor", "No blocking factor is given.",
        "Specify the blocking factor: the one thing that prevents completion.", is_formal=True),
    "blocking_factor_vague": IssueEntry("blocking_factor", "The blocking factor names nothing one could check.",
        "The blocking factor is too vague. Name the thing that prevents completion so that others can check it."),
    "blocking_factor_unfounded": IssueEntry("blocking_factor",
        "Nothing else in the record or its task mentions the blocking factor.",
        "Neither the attempts, nor the evidence, nor the task mention the blocking factor. Name what your evidence shows."),
    "blocking_factor_weak": IssueEntry("blocking_factor",
        "The record and its task do not support the blocking factor.",
        "The blocking factor does not hold up: nothing observed supports it, or the record itself shows a way. "
        "Name what prevents completion and what shows it."),
    "evidence_missing": IssueEntry("evidence", "The reason needs evidence, and there is none.",
        "{reason} requires evidence: an error log, a status check, a measurement, with its data and source.",
        is_formal=True),
    "evidence_empty": IssueEntry("evidence", "A piece of evidence has no data.",
        "Evidence without data shows nothing. Put what was observed into `data` and where into `source`.",
        is_formal=True),
    "evidence_opinion": IssueEntry("evidence", "The evidence is only the agent's opinion.",
        "An opinion is not evidence. Give what was seen: an error text, an answer, a status or a measurement, and "
        "the command or place it comes from."),
    "evidence_unrelated": IssueEntry("evidence", "The evidence is about something other than the claim.",
        "The evidence has nothing in common with the claim, the attempts or the task. Give evidence of the "
        "blocking factor itself."),
    "evidence_too_few": IssueEntry("evidence", "Infeasibility is claimed with fewer than two pieces of evidence.",
        "INFEASIBLE has the highest burden of proof: provide at least 2 pieces of evidence that show the impossibility.",
        is_formal=True),
    "evidence_contradicts": IssueEntry("evidence",
        "The claimed error does not appear, and what was observed is a success.",
        "The evidence contradicts the claim: {claimed} is claimed, but a success was observed. Show the error itself."),
    "evidence_stale": IssueEntry("evidence", "The newest dated observation of a blocker is older than a week.",
        "The evidence is stale: its newest date is more than a week before the rejection. Check again, and give the current observation."),
    "evidence_weak": IssueEntry("evidence", "The evidence does not support the claim.",
        "The evidence does not support the claim: it contains no observation, or concerns something else. "
        "Give the error text, the figures or the answer that was seen, and where."),
    "evidence_disproved": IssueEntry("evidence", "A check of the evidence showed the opposite.",
        "Evidence {number} was checked and disproved{detail}. Give evidence that passes the check, or continue the task."),
    "alternative_missing": IssueEntry("suggested_alternative", "No alternative is suggested.",
        "Provide a suggested alternative: who does what, so that the work continues.", is_formal=True),
    "alternative_generic": IssueEntry("suggested_alternative", "The suggestion would fit any task.",
        "The suggestion is too generic. Say concretely who does what, or give the breakdown into tasks."),
    "alternative_restates": IssueEntry("suggested_alternative", "The alternative is the task again.",
        "The alternative restates the task. Say what to do instead: who does what, or in which smaller steps."),
    "alternative_waits": IssueEntry("suggested_alternative", "The alternative only waits.",
        "Waiting is not an alternative. Say who removes the obstacle and how, or what can be done meanwhile."),
    "alternative_drops": IssueEntry("suggested_alternative", "The alternative drops the task.",
        "Dropping the task is not an alternative. Say who does what, so that the aim of the task is still reached."),
    "alternative_delegates": IssueEntry("suggested_alternative", "The alternative leaves the task to someone else.",
        "Leaving the task to someone else is not an alternative. Say what has to be done, by whom, and what it takes."),
    "alternative_weak": IssueEntry("suggested_alternative", "The alternative adds nothing to the task.",
        "The alternative restates the task, only waits, or is too generic. Say what is ready, what is missing, "
        "who can supply it, and what it would take."),
    "scope_original_missing": IssueEntry("task_original_scope", "Scope creep is claimed without the original scope.",
        "SCOPE_CREEP requires the original scope: quote it in task_original_scope.", is_formal=True),
    "scope_misquoted": IssueEntry("task_original_scope", "The original scope given is not the scope of the task.",
        "The original scope is misquoted: quote the task's own scope, its estimate included.", is_formal=True),
    "scope_growth_missing": IssueEntry("scope_growth_factor",
        "The record does not claim that the scope at least doubled.",
        "SCOPE_CREEP requires at least 2x growth. Give scope_growth_factor with evidence.", is_formal=True),
    "scope_growth_invalid": IssueEntry("scope_growth_factor", "The growth factor is not a finite number above zero.",
        "The growth factor is not a usable number. Give revised effort divided by original effort, at least 2x.",
        is_formal=True),
    "scope_growth_unsupported": IssueEntry("scope_growth_factor",
        "The growth factor does not follow from the figures given.",
        "The growth factor does not follow from the figures given. Show original and revised effort whose "
        "ratio is the factor, at least 2x.", is_formal=True),
    "scope_growth_unexplained": IssueEntry("reason_detail", "The detail does not say how the scope grew.",
        "Document how the scope grew: what was asked, what was found, and what each finding adds.", is_formal=True),
    "scope_weak": IssueEntry("task_original_scope", "The growth is asserted rather than found in the work.",
        "The growth beyond the original scope is asserted, not shown. Give original and revised effort, and name "
        "what in the code forces the difference."),
    "decomposition_too_few": IssueEntry("alternative_tasks", "Scope creep is claimed with fewer than two sub-tasks.",
        "SCOPE_CREEP requires a decomposition into at least 2 sub-tasks, each with title, scope and estimate.",
        is_formal=True),
    "decomposition_too_many": IssueEntry("alternative_tasks", "The task is split into more than fifty sub-tasks.",
        "A task can be split into at most 50 sub-tasks. Group them; each can be split again later.", is_formal=True),
    "decomposition_repeats": IssueEntry("alternative_tasks", "The sub-tasks repeat one another or the task.",
        "The sub-tasks repeat one another or the task. Give at least 2 different sub-tasks, each with what it "
        "changes."),
    "decomposition_weak": IssueEntry("alternative_tasks", "The sub-tasks are not a plan for this task.",
        "The decomposition is generic or just the task again. Give at least 2 sub-tasks that name what each changes."),
    "dependency_unnamed": IssueEntry("blocking_factor",
        "The record names no task or decision that has to come first, and describes none that its attempts or evidence mention.",
        "MISSING_DEPENDENCY must name the dependency: by id, or in words that the attempts or the evidence also use.",
        is_formal=True),
    "dependency_is_itself": IssueEntry("blocking_factor", "The named dependency is the task itself.",
        "{name} is this task itself. Name another task or decision that has to come first, or do it."),
    "dependency_unknown": IssueEntry("blocking_factor", "The dependency named does not exist.",
        "{name} is not known here. Name a task or decision that exists."),
    "dependency_done": IssueEntry("blocking_factor", "The named dependency is already done or cancelled.",
        "{name} is already {status}, so it does not block the task. Continue, or name what is still open."),
    "dependency_own": IssueEntry("blocking_factor", "The rejecting agent added the dependency itself.",
        "{name} was added by the agent itself. Name a dependency that others asked for, or do it as part of "
        "the task."),
    "dependency_circular": IssueEntry("blocking_factor",
        "The named dependency was split from this task or waits for it.",
        "{name} was split from this task or waits for it, so this task cannot wait for it in turn."),
    "dependency_trivial": IssueEntry("blocking_factor", "The record itself calls the dependency easy to do oneself.",
        "The record says that the dependency is easily done. Do it as part of the task, or show what keeps you "
        "from it."),
    "dependency_weak": IssueEntry("blocking_factor",
        "Nothing shows that the dependency is real, open and not trivial.",
        "Nothing shows that the dependency exists, is still open and cannot be done along the way. Say where it "
        "stands and what fails without it."),
    "hard_requirement_weak": IssueEntry("reason_detail", "It is not shown why the dependency has to come first.",
        "Show why the dependency is a hard requirement: what fails without it, as observed."),
    "hard_requirement_missing": IssueEntry("reason_detail",
        "The record does not say why the dependency has to come first.",
        "Explain why the dependency is a hard requirement: what fails without it.", is_formal=True),
    "infeasible_proof_denied": IssueEntry("reason_detail", "The record itself says that nothing conflicts.",
        "INFEASIBLE must name demands of the task that conflict; this record says that there is no conflict."),
    "infeasible_proof_invented": IssueEntry("reason_detail",
        "The demands quoted as excluding each other are not in the task.",
        "The demands quoted as conflicting are not in the task. Quote the task's own words."),
    "constraints_missing": IssueEntry("reason_detail", "The record names no two conflicting demands.",
        "Cite the constraints that conflict: quote a demand of the task, and the other demand, limit or rule that "
        "excludes it.", is_formal=True),
    "infeasible_preference": IssueEntry("reason_detail",
        "The work that is called infeasible is possible, but not preferred.",
        "INFEASIBLE is for what cannot be done; this record states a preference, or says that it could be done. "
        "Show the impossibility, or do the task."),
    "infeasible_proof_weak": IssueEntry("reason_detail",
        "The evidence does not show that the demands exclude each other.",
        "The impossibility is not shown. Quote the demands of the task that exclude each other, and what was "
        "tried and observed for each way out."),
    "reformulation_weak": IssueEntry("suggested_alternative", "There is no feasible reformulation of the task.",
        "Give a reformulation that is feasible and still serves the task, with what it costs."),
    "reformulation_missing": IssueEntry("suggested_alternative",
        "The alternative only waits, drops the task, leaves it to someone else, or does not say what to build instead.",
        "Give a reformulation of the task that is feasible: what to build instead, what it still achieves, and "
        "what it costs. Dropping the task, waiting, or asking someone else does not count."),
    "questions_missing": IssueEntry("reason_detail", "Unclear requirements are claimed without a question.",
        "UNCLEAR_REQUIREMENTS must list the specific questions that need answers.", is_formal=True),
    "questions_generic": IssueEntry("reason_detail", "The questions could be asked of any task.",
        "Ask specific questions: name the word, value or case of this task that needs an answer."),
    "questions_unasked": IssueEntry("what_attempted", "Nobody was asked before the task was rejected.",
        "Ask first: put the questions to whoever can answer them, and add whom you asked, when, and what came "
        "back.", is_formal=True),
    "ambiguity_unquoted": IssueEntry("reason_detail", "The words that are called unclear are not in the task.",
        "Cite the ambiguity: quote the words of the task that can be read in more than one way.", is_formal=True),
    "interpretations_missing": IssueEntry("reason_detail", "No interpretation of the task is shown.",
        "Show the interpretations you tried: how the task can be read, and what each reading would lead to.",
        is_formal=True),
    "questions_weak": IssueEntry("reason_detail", "The questions are not specific, or nobody was asked.",
        "The questions are too vague, or nobody was asked. Say what was asked of whom, what came back, and what "
        "each answer would change."),
    "questions_answered": IssueEntry("reason_detail", "The task already answers the questions.",
        "The task answers these questions already. Ask what its text leaves open, and show the readings it allows."),
    "interpretations_weak": IssueEntry("reason_detail", "No differing interpretations are shown.",
        "Show the interpretations tried and how their results differ; readings with the same result need no answer."),
    "obsolete_unnamed": IssueEntry("evidence", "A task is called obsolete without naming what made it so.",
        "OBSOLETE must name the commit, task or file and line that shows it, with evidence of it.", is_formal=True),
    "obsolete_unknown": IssueEntry("blocking_factor", "The commit, task or file that should supersede the task does not exist.",
        "Nothing named shows that the task is obsolete: name a commit on the base branch, another task of the "
        "ledger, or a file and line (as a probe) that exists."),
    "obsolete_itself": IssueEntry("blocking_factor", "A task is called obsolete because of itself.",
        "{name} is this task itself. Name the commit or the other task that made it obsolete."),
}  # fmt: skip


MEANINGS = {code: entry.meaning for code, entry in ENTRIES.items()}
"""The meaning of each code in one sentence."""


FORMAL = frozenset(code for code, entry in ENTRIES.items() if entry.is_formal)
"""The codes of formal slips: a record without worse issues is answered with a request for the missing part."""


def field_of(code: str) -> str:
    return ENTRIES[code].field


def issue(code: str, **details: str) -> Issue:
    """Makes the issue of a code, its message filled with the details."""
    entry = ENTRIES[code]
    return Issue(
        code=code, field=entry.field, message=entry.message.format(**details) if details else entry.message
    )


REMEDIES = {code: entry.message for code, entry in ENTRIES.items()}
"""What would resolve each issue; braces are filled from the record."""
