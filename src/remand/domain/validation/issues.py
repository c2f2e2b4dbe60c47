"""Every issue the validator can raise: its code, its field, its meaning, and what would satisfy it."""

from __future__ import annotations

from remand.domain.record import Record
from remand.domain.validation.assessment import Issue


class IssueEntry(Record, kw_only=True):
    field: str
    meaning: str
    message: str
    is_formal: bool = False
    """A part is missing or misquoted that the agent can supply; all other issues are about what the record says."""


ENTRIES = {
    "reason_unknown": IssueEntry(
        field="reason_type",
        meaning="The reason is not one of the six.",
        message="The reason is unknown. Give one of BLOCKER, SCOPE_CREEP, MISSING_DEPENDENCY, INFEASIBLE, "
        "UNCLEAR_REQUIREMENTS or OBSOLETE.",
        is_formal=True,
    ),
    "summary_missing": IssueEntry(
        field="reason_summary",
        meaning="There is no summary.",
        message="Give a summary: in one line, what prevents completion.",
        is_formal=True,
    ),
    "detail_missing": IssueEntry(
        field="reason_detail",
        meaning="There is no detail.",
        message="Give the detail: what is so, how it shows, and why it prevents completion.",
        is_formal=True,
    ),
    "effort_too_few": IssueEntry(
        field="what_attempted",
        meaning="Fewer than two attempts are documented.",
        message="Insufficient effort demonstrated. Document at least 2 concrete attempts, each with its result.",
    ),
    "effort_vague": IssueEntry(
        field="what_attempted",
        meaning="Fewer than two attempts say anything concrete.",
        message="Attempts are too vague: at least 2 must say what was run, read or asked, and what was seen "
        "(a command, a path, a figure, an error text).",
    ),
    "effort_repeated": IssueEntry(
        field="what_attempted",
        meaning="The attempts describe the same thing twice.",
        message="The attempts repeat one another. Document at least 2 different attempts.",
    ),
    "effort_weak": IssueEntry(
        field="what_attempted",
        meaning="The attempts do not support the claim.",
        message="The attempts are too vague or do not show the claim. Say what was run and what was seen, so that others could repeat it.",
    ),
    "blocking_factor_missing": IssueEntry(
        field="blocking_factor",
        meaning="No blocking factor is given.",
        message="Specify the blocking factor: the one thing that prevents completion.",
        is_formal=True,
    ),
    "blocking_factor_vague": IssueEntry(
        field="blocking_factor",
        meaning="The blocking factor names nothing one could check.",
        message="The blocking factor is too vague. Name the thing that prevents completion so that others can check it.",
    ),
    "blocking_factor_unfounded": IssueEntry(
        field="blocking_factor",
        meaning="Nothing else in the record or its task speaks of the blocking factor.",
        message="Nothing attempted, shown or asked for has to do with the blocking factor. Name what your evidence shows.",
    ),
    "blocking_factor_weak": IssueEntry(
        field="blocking_factor",
        meaning="The record and its task do not support the blocking factor.",
        message="The blocking factor does not hold up: nothing observed supports it, or the record itself shows a way. "
        "Name what prevents completion and what shows it.",
    ),
    "evidence_missing": IssueEntry(
        field="evidence",
        meaning="The reason needs evidence, and there is none.",
        message="{reason} requires evidence: an error log, a status check, a measurement, with its data and source.",
        is_formal=True,
    ),
    "evidence_empty": IssueEntry(
        field="evidence",
        meaning="A piece of evidence has no data.",
        message="Evidence without data shows nothing. Put what was observed into `data` and where into `source`.",
        is_formal=True,
    ),
    "evidence_opinion": IssueEntry(
        field="evidence",
        meaning="The evidence is nothing but the opinion of the agent.",
        message="An opinion is not evidence. Give what was seen: an error text, an answer, a status or a measurement, and "
        "the command or place it comes from.",
    ),
    "evidence_unrelated": IssueEntry(
        field="evidence",
        meaning="The evidence is about something other than the claim.",
        message="The evidence has nothing in common with the claim, the attempts or the task. Give evidence of the "
        "blocking factor itself.",
    ),
    "evidence_too_few": IssueEntry(
        field="evidence",
        meaning="Infeasibility is claimed with fewer than two pieces of evidence.",
        message="INFEASIBLE has the highest burden of proof: provide at least 2 pieces of evidence that show the impossibility.",
        is_formal=True,
    ),
    "evidence_contradicts": IssueEntry(
        field="evidence",
        meaning="The claimed error does not appear, and what was observed is a success.",
        message="The evidence contradicts the claim: {claimed} is claimed, and what was seen is a success. Show the error itself.",
    ),
    "evidence_stale": IssueEntry(
        field="evidence",
        meaning="The newest dated observation of a blocker is older than a week.",
        message="The evidence is stale: its newest date is more than a week before the rejection. Look again and give what is seen now.",
    ),
    "evidence_weak": IssueEntry(
        field="evidence",
        meaning="The evidence does not support the claim.",
        message="The evidence does not support the claim: it holds nothing observed, or it is about something else. "
        "Give the error text, the figures or the answer that was seen, and where.",
    ),
    "evidence_disproved": IssueEntry(
        field="evidence",
        meaning="A check of the evidence showed the opposite.",
        message="Evidence {number} was checked and disproved{detail}. Give evidence that holds, or continue the task.",
    ),
    "alternative_missing": IssueEntry(
        field="suggested_alternative",
        meaning="No alternative is suggested.",
        message="Provide a suggested alternative: who does what, so that the work continues.",
        is_formal=True,
    ),
    "alternative_generic": IssueEntry(
        field="suggested_alternative",
        meaning="The suggestion would fit any task.",
        message="The suggestion is too generic. Say concretely who does what, or give the breakdown into tasks.",
    ),
    "alternative_restates": IssueEntry(
        field="suggested_alternative",
        meaning="The alternative is the task again.",
        message="The alternative restates the task. Say what to do instead: who does what, or in which smaller steps.",
    ),
    "alternative_waits": IssueEntry(
        field="suggested_alternative",
        meaning="The alternative only waits.",
        message="Waiting is not an alternative. Say who removes the obstacle and how, or what can be done meanwhile.",
    ),
    "alternative_drops": IssueEntry(
        field="suggested_alternative",
        meaning="The alternative drops the task.",
        message="Dropping the task is not an alternative. Say who does what, so that the aim of the task is still reached.",
    ),
    "alternative_delegates": IssueEntry(
        field="suggested_alternative",
        meaning="The alternative leaves the task to someone else.",
        message="Leaving the task to someone else is not an alternative. Say what has to be done, by whom, and what it takes.",
    ),
    "alternative_weak": IssueEntry(
        field="suggested_alternative",
        meaning="The alternative adds nothing to the task.",
        message="The alternative restates the task, only waits, or is too generic. Say what is ready, what is missing, "
        "who can supply it, and what it would take.",
    ),
    "scope_original_missing": IssueEntry(
        field="task_original_scope",
        meaning="Scope creep is claimed without the original scope.",
        message="SCOPE_CREEP requires the original scope: quote it in task_original_scope.",
        is_formal=True,
    ),
    "scope_misquoted": IssueEntry(
        field="task_original_scope",
        meaning="The original scope given is not the scope of the task.",
        message="The original scope is misquoted: quote the task's own scope, its estimate included.",
        is_formal=True,
    ),
    "scope_growth_missing": IssueEntry(
        field="scope_growth_factor",
        meaning="The record does not claim that the scope at least doubled.",
        message="SCOPE_CREEP requires at least 2x growth. Give scope_growth_factor with evidence.",
        is_formal=True,
    ),
    "scope_growth_invalid": IssueEntry(
        field="scope_growth_factor",
        meaning="The growth factor is not a finite number above zero.",
        message="The growth factor is not a usable number. Give revised effort divided by original effort, at least 2x.",
        is_formal=True,
    ),
    "scope_growth_unsupported": IssueEntry(
        field="scope_growth_factor",
        meaning="The growth factor does not follow from the figures given.",
        message="The growth factor does not follow from the figures given. Show original and revised effort whose "
        "ratio is the factor, at least 2x.",
        is_formal=True,
    ),
    "scope_growth_unexplained": IssueEntry(
        field="reason_detail",
        meaning="The detail does not say how the scope grew.",
        message="Document how the scope grew: what was asked, what was found, and what each finding adds.",
        is_formal=True,
    ),
    "scope_weak": IssueEntry(
        field="task_original_scope",
        meaning="The growth is asserted rather than found in the work.",
        message="The growth beyond the original scope is asserted, not shown. Give original and revised effort, and name "
        "what in the code forces the difference.",
    ),
    "decomposition_too_few": IssueEntry(
        field="alternative_tasks",
        meaning="Scope creep is claimed with fewer than two sub-tasks.",
        message="SCOPE_CREEP requires a decomposition into at least 2 sub-tasks, each with title, scope and estimate.",
        is_formal=True,
    ),
    "decomposition_too_many": IssueEntry(
        field="alternative_tasks",
        meaning="The task is split into more than fifty sub-tasks.",
        message="A task can be split into at most 50 sub-tasks. Group them; each can be split again later.",
        is_formal=True,
    ),
    "decomposition_repeats": IssueEntry(
        field="alternative_tasks",
        meaning="The sub-tasks repeat one another or the task.",
        message="The sub-tasks repeat one another or the task. Give at least 2 different sub-tasks, each with what it "
        "changes.",
    ),
    "decomposition_weak": IssueEntry(
        field="alternative_tasks",
        meaning="The sub-tasks are not a plan for this task.",
        message="The decomposition is generic or just the task again. Give at least 2 sub-tasks that name what each changes.",
    ),
    "dependency_unnamed": IssueEntry(
        field="blocking_factor",
        meaning="Nothing is named that has to come first: no task, no decision, and in words nothing that is shown.",
        message="MISSING_DEPENDENCY must name the dependency: by id, or in words that attempts or evidence speak of too.",
        is_formal=True,
    ),
    "dependency_is_itself": IssueEntry(
        field="blocking_factor",
        meaning="The task is said to wait for itself.",
        message="{name} is this task itself. Name another task or decision that has to come first, or do it.",
    ),
    "dependency_unknown": IssueEntry(
        field="blocking_factor",
        meaning="The dependency named does not exist.",
        message="{name} is not known here. Name a task or decision that exists.",
    ),
    "dependency_done": IssueEntry(
        field="blocking_factor",
        meaning="The named dependency is already done or cancelled.",
        message="{name} is already {status}, so it does not block the task. Continue, or name what is still open.",
    ),
    "dependency_own": IssueEntry(
        field="blocking_factor",
        meaning="The rejecting agent added the dependency itself.",
        message="{name} was added by the agent itself. Name a dependency that others asked for, or do it as part of "
        "the task.",
    ),
    "dependency_circular": IssueEntry(
        field="blocking_factor",
        meaning="The named dependency was split from this task or waits for it.",
        message="{name} was split from this task or waits for it, so this task cannot wait for it in turn.",
    ),
    "dependency_trivial": IssueEntry(
        field="blocking_factor",
        meaning="The record itself calls the dependency easy to do oneself.",
        message="The record says that the dependency is easily done. Do it as part of the task, or show what keeps you "
        "from it.",
    ),
    "dependency_weak": IssueEntry(
        field="blocking_factor",
        meaning="Nothing shows that the dependency is real, open and not trivial.",
        message="Nothing shows that the dependency exists, is still open and cannot be done along the way. Say where it "
        "stands and what fails without it.",
    ),
    "hard_requirement_weak": IssueEntry(
        field="reason_detail",
        meaning="It is not shown why the dependency has to come first.",
        message="Show why the dependency is a hard requirement: what fails without it, as observed.",
    ),
    "hard_requirement_missing": IssueEntry(
        field="reason_detail",
        meaning="Nothing is said about why the dependency has to come first.",
        message="Explain why the dependency is a hard requirement: what fails without it.",
        is_formal=True,
    ),
    "infeasible_proof_denied": IssueEntry(
        field="reason_detail",
        meaning="The record itself says that nothing conflicts.",
        message="INFEASIBLE must name demands of the task that conflict; this record says that there is no conflict.",
    ),
    "infeasible_proof_invented": IssueEntry(
        field="reason_detail",
        meaning="The demands quoted as excluding each other are not in the task.",
        message="The demands quoted as conflicting are not in the task. Quote the task's own words.",
    ),
    "constraints_missing": IssueEntry(
        field="reason_detail",
        meaning="The record names no two conflicting demands.",
        message="Cite the constraints that conflict: quote a demand of the task, and the other demand, limit or rule that "
        "excludes it.",
        is_formal=True,
    ),
    "infeasible_preference": IssueEntry(
        field="reason_detail",
        meaning="The work that is called infeasible is possible, but not preferred.",
        message="INFEASIBLE is for what cannot be done; this record tells of a preference, or says that it could be done. "
        "Show the impossibility, or do the task.",
    ),
    "infeasible_proof_weak": IssueEntry(
        field="reason_detail",
        meaning="The evidence does not show that the demands exclude each other.",
        message="The impossibility is not shown. Quote the demands of the task that exclude each other, and what was "
        "tried and observed for each way out.",
    ),
    "reformulation_weak": IssueEntry(
        field="suggested_alternative",
        meaning="There is no feasible reformulation of the task.",
        message="Give a reformulation that is feasible and still serves the task, with what it costs.",
    ),
    "reformulation_missing": IssueEntry(
        field="suggested_alternative",
        meaning="The alternative only waits, drops the task, leaves it to someone else, or does not say what to build instead.",
        message="Give a reformulation of the task that is feasible: what to build instead, what it still achieves, and "
        "what it costs. Dropping the task, waiting, or asking someone else does not count.",
    ),
    "questions_missing": IssueEntry(
        field="reason_detail",
        meaning="Unclear requirements are claimed without a question.",
        message="UNCLEAR_REQUIREMENTS must list the specific questions that need answers.",
        is_formal=True,
    ),
    "questions_generic": IssueEntry(
        field="reason_detail",
        meaning="The questions could be asked of any task.",
        message="Ask specific questions: name the word, value or case of this task that needs an answer.",
    ),
    "questions_unasked": IssueEntry(
        field="what_attempted",
        meaning="Nobody was asked before the task was rejected.",
        message="Ask first: put the questions to whoever can answer them, and add whom you asked, when, and what came "
        "back.",
        is_formal=True,
    ),
    "ambiguity_unquoted": IssueEntry(
        field="reason_detail",
        meaning="The words that are called unclear are not in the task.",
        message="Cite the ambiguity: quote the words of the task that can be read in more than one way.",
        is_formal=True,
    ),
    "interpretations_missing": IssueEntry(
        field="reason_detail",
        meaning="No interpretation of the task is shown.",
        message="Show the interpretations you tried: how the task can be read, and what each reading would lead to.",
        is_formal=True,
    ),
    "questions_weak": IssueEntry(
        field="reason_detail",
        meaning="The questions are not specific, or nobody was asked.",
        message="The questions are too vague, or nobody was asked. Say what was asked of whom, what came back, and what "
        "each answer would change.",
    ),
    "questions_answered": IssueEntry(
        field="reason_detail",
        meaning="The task already answers what is asked.",
        message="The task answers these questions already. Ask what its text leaves open, and show the readings it allows.",
    ),
    "interpretations_weak": IssueEntry(
        field="reason_detail",
        meaning="No differing interpretations are shown.",
        message="Show the interpretations tried and how their results differ; readings with the same result need no answer.",
    ),
    "obsolete_unnamed": IssueEntry(
        field="evidence",
        meaning="A task is called obsolete without naming what made it so.",
        message="OBSOLETE must name the commit, task or file and line that shows it, with evidence of it.",
        is_formal=True,
    ),
    "obsolete_unknown": IssueEntry(
        field="blocking_factor",
        meaning="What is said to supersede the task does not exist.",
        message="Nothing named shows that the task is obsolete: name a commit on the base branch, another task of the "
        "ledger, or a file and line (as a probe) that exists.",
    ),
    "obsolete_itself": IssueEntry(
        field="blocking_factor",
        meaning="A task is called obsolete because of itself.",
        message="{name} is this task itself. Name the commit or the other task that made it obsolete.",
    ),
}  # fmt: skip


MEANINGS = {code: entry.meaning for code, entry in ENTRIES.items()}
"""What each code means, in one sentence."""


FORMAL = frozenset(code for code, entry in ENTRIES.items() if entry.is_formal)
"""The codes of formal slips: the answer to a record that has nothing worse asks for the missing part."""


def field_of(code: str) -> str:
    return ENTRIES[code].field


def issue(code: str, **details: str) -> Issue:
    """Makes the issue of a code, its message filled with the details."""
    entry = ENTRIES[code]
    return Issue(
        code=code, field=entry.field, message=entry.message.format(**details) if details else entry.message
    )


REMEDIES = {code: entry.message for code, entry in ENTRIES.items()}
"""What would satisfy each issue; braces stand for what the record brings."""
