"""How a director's decision on a valid rejection is carried out: tasks to create, their links, and the task's fate."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from remand.domain.reasons import DecisionType, RejectionReason
from remand.domain.record import Record
from remand.domain.rejection import TaskRejection
from remand.domain.text.words import flatten, remove_invisible, word_set
from remand.domain.validation.assessment import FORMAL, Issue, NamedTask, ValidationFacts
from remand.domain.validation.parsed_rejection import bare_name, dependency_names, mentioned_names, names_in

MAX_PHRASE = 2_000
_ID = re.compile(r"(?:task:)?(T-[A-Za-z0-9][A-Za-z0-9-]*)")
_ALIAS = re.compile(r"(?<![\w/.-])(?:[A-Za-z][\w./-]*)?#\d{1,12}\b")
_NUMBER = re.compile(
    r"(?<![A-Za-z0-9_.#:-])#?(\d{1,3})(?:\s*(?:-|–|to|bis|à|a|至)\s*(\d{1,3}))?"
    r"(?!\s*(?:\.\d|,\d+\s*(?:h|std|stunden|tage)\b|h\b|hrs?\b|hours?\b|d\b|days?\b|min\b|weeks?\b|w\b|%"
    r"|stunden\b|tage\b|天|小时))(?![A-Za-z0-9_:-])",
    re.IGNORECASE,
)
_COUNTED = re.compile(
    r"\b(?:sub-?)?(?:task|step|part|t|aufgabe|schritt|teil|tarea|paso|tâche|étape)s?[ _-]?(?=#?\d)",
    re.IGNORECASE,
)
"""Words before a number that counts subtasks: "step 2", "task1"."""
_NUMERO = re.compile(r"\b(?:no|nr|n)[.º]\s*(?=\d)", re.IGNORECASE)
_NUMBERED = re.compile(r"(?<![^\W\d_])[^\W\d_]++[ -]?\d{1,3}(?!\w)")
"""A name that includes a number, as in titles: "Python 3"."""
_WAITS = re.compile(
    r"(?:after|requires?|depends?|needs?|once|nach|benötigt|braucht|después|requiere|après|requiert)\s(?!\d)",
    re.IGNORECASE,
)
"""The start of a phrase about a dependency: for the second subtask, that can only be the first."""
_WORD = re.compile(r"[^\W_]+")
_WIDE = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_PART = re.compile(r"[,;+&/\n]|\band\b|\bund\b|\by\b|\bet\b|\be\b|和|与|及|、|，|；")

_NONE = word_set("""
none no nil nothing n/a na - -- — null independent standalone keine keins nichts ninguna ninguno nada aucune aucun
rien nessuna brak нет 无 無 没有 なし 없음
""")
_NEGATED = re.compile(
    r"\b(?:no|not|nothing|without|independent|kein\w*|nichts?|unabh\w+|sin|ningun\w*|aucun\w*|sans)\b|无|不|没有",
    re.IGNORECASE,
)
_EXCEPT = re.compile(
    r"\b(?:except|but|other than|besides|außer|excepto|sauf)\b"
    r"|\b(?:not|nicht)\b.{0,40}\b(?:before|until|till|vor|bevor|bis)\b",
    re.IGNORECASE,
)
"""Words that invert a negation: "nothing except 1", "not before 1"."""
_CLAUSE = re.compile(r"[,;.\n]\s")
_PREVIOUS = word_set("""
previous prior above preceding before vorherige vorherigen vorheriger vorige vorigen anterior previa précédente
précédent precedente poprzednie предыдущая
""")
_PREVIOUS_WIDE = ("上一", "前一", "上述", "前の", "이전")
_ALL = word_set("both all others everything alle todas todos toutes tous tutti wszystkie все")
_ORDINALS = {
    word: number
    for number, words in enumerate(
        (
            "first erste ersten erster primera primero première premier",
            "second zweite zweiten zweiter segunda segundo deuxième",
            "third dritte dritten tercera tercero troisième",
            "fourth vierte cuarta quatrième",
            "fifth fünfte quinta cinquième",
        )
    )
    for word in words.split()
}
_EMPTY = word_set("""
a an the of on to for in with from is are be must need needs requires require required depends depend dependency after
once when done finished complete completed merged task tasks subtask sub step part work it this that first nach erst
wenn fertig aufgabe der die das den von benötigt braucht hängt ab después de la el los las tarea requiere depende
après la tâche requiert dépend
""")


class SubtaskNeeds(Record, kw_only=True):
    """The dependencies of one subtask: siblings by index, and existing tasks."""

    siblings: tuple[int, ...] = ()
    tasks: tuple[str, ...] = ()
    """Ids and aliases as written."""
    unresolved: str = ""
    """The phrase, if it names something unknown."""


def resolve_dependencies(
    titles: Sequence[str], scopes: Sequence[str], phrases: Sequence[object]
) -> list[SubtaskNeeds]:
    """The dependencies of each subtask. Cycles are cut at the link that would close them."""
    bags = [_significant_words(title) for title in titles]
    wider = [bag | _significant_words(scope) for bag, scope in zip(bags, scopes, strict=True)]
    numbered = [{name.lower() for name in _NUMBERED.findall(title)} for title in titles]
    needs = [
        _find_needs(index, _phrase_text(phrase), bags, wider, numbered)
        for index, phrase in enumerate(phrases)
    ]
    return _without_cycles(needs)


def _phrase_text(phrase: object) -> str:
    """The phrase as text: it may be text, a number, or a list of either."""
    if isinstance(phrase, bool) or phrase is None:
        return ""
    if isinstance(phrase, list | tuple):
        return ", ".join(_phrase_text(item) for item in phrase[:50])[:MAX_PHRASE]
    return str(phrase)[:MAX_PHRASE] if isinstance(phrase, str | int) else ""


def _find_needs(
    index: int, phrase: str, bags: list[set[str]], wider: list[set[str]], numbered: list[set[str]]
) -> SubtaskNeeds:
    phrase = _without_denials(_NUMERO.sub("#", phrase))
    tasks = tuple(dict.fromkeys(_ID.findall(phrase)))
    rest = _ID.sub(" ", phrase)
    named = {
        match[0] for match in _NUMBERED.finditer(rest) if any(match[0].lower() in some for some in numbered)
    }
    siblings = {other for other, some in enumerate(numbered) for name in named if name.lower() in some} - {
        index
    }
    for name in named:
        rest = rest.replace(name, " ")
    siblings |= _find_by_number(index, _COUNTED.sub(" ", rest), len(bags))
    siblings = (
        siblings | _find_by_position(index, rest, len(bags)) | _find_previous(index, rest)
        if siblings
        else _find_by_words(index, rest, bags, wider)
    )
    if not siblings and not tasks:
        tasks = tuple(dict.fromkeys(_ALIAS.findall(rest)))
    if not siblings and not tasks and index == 1 and _WAITS.match(phrase.strip()):
        siblings = {0}
    is_resolved = bool(siblings or tasks)
    return SubtaskNeeds(
        siblings=tuple(sorted(siblings)), tasks=tasks, unresolved="" if is_resolved else phrase.strip()
    )


def _without_denials(phrase: str) -> str:
    """The required part of the phrase: empty if it says that nothing is needed; later negated clauses are removed."""
    words = phrase.strip().strip(".!").lower().split()
    if words and words[0] in _NONE and len(words) <= 3:
        return ""
    first, *others = _CLAUSE.split(phrase)
    if _is_denied(first):
        return ""
    return "; ".join([first, *(clause for clause in others if not _is_denied(clause))])


def _is_denied(clause: str) -> bool:
    return _NEGATED.search(clause) is not None and not _EXCEPT.search(clause)


def _find_by_number(index: int, phrase: str, count: int) -> set[int]:
    """Subtasks named by number, starting at one: "after 1", "1-3", "#2"."""
    found: set[int] = set()
    for match in _NUMBER.finditer(phrase):
        first, last = int(match[1]), int(match[2] or match[1])
        found.update(number - 1 for number in range(first, min(last, count) + 1) if 1 <= number <= count)
    return found - {index}


def _find_by_words(index: int, phrase: str, bags: list[set[str]], wider: list[set[str]]) -> set[int]:
    """Subtasks named by title, as the previous one, or by position."""
    whole = _find_closest(index, _significant_words(phrase), bags, wider)
    parts = [part for part in _PART.split(phrase) if part.strip()]
    if len(parts) == 1:
        return _find_by_position(index, phrase, len(bags)) or whole or _find_previous(index, phrase)
    found: set[int] = set()
    for part in parts:
        closest = _find_closest(index, _significant_words(part), bags, wider)
        found |= _find_by_position(index, part, len(bags)) or closest or _find_previous(index, part)
    return found or whole


def _find_by_position(index: int, phrase: str, count: int) -> set[int]:
    """Subtasks named by position: all, the first, the second."""
    words = {word.lower() for word in _WORD.findall(phrase)}
    if words & _ALL:
        return set(range(index)) or set(range(1, count))
    places = {_ORDINALS[word] for word in words if word in _ORDINALS}
    return {place for place in places if place < count and place != index}


def _find_previous(index: int, phrase: str) -> set[int]:
    """The previous one, if the phrase says so and names none by title."""
    words = {word.lower() for word in _WORD.findall(phrase)}
    says_so = words & _PREVIOUS or any(mark in phrase for mark in _PREVIOUS_WIDE)
    return {index - 1} if index and says_so else set()


def _find_closest(index: int, wanted: set[str], bags: list[set[str]], wider: list[set[str]]) -> set[int]:
    """The subtask whose title shares most with the phrase; rare words weigh more."""
    if not wanted:
        return set()
    best: tuple[float, int] | None = None
    for other, bag in enumerate(bags):
        if other == index:
            continue
        score = _overlap_score(wanted, bag, bags) + 0.5 * _overlap_score(wanted, wider[other] - bag, wider)
        rank = (score, -abs(index - other) if other < index else -len(bags) - other)
        if score > 0 and (best is None or rank > best):
            best, winner = rank, other
    return {winner} if best is not None else set()


def _overlap_score(wanted: set[str], bag: set[str], bags: list[set[str]]) -> float:
    return sum(
        1.0 / sum(1 for other in bags if _contains_word(word, other))
        for word in wanted
        if bag and _contains_word(word, bag)
    )


def _contains_word(word: str, bag: set[str]) -> bool:
    """True if the bag contains the word, or one that differs only in its ending ("refactoring", "refactor")."""
    if word in bag:
        return True
    if len(word) < 5 or _WIDE.match(word):
        return False
    stem = word[: max(5, len(word) - 3)]
    return any(other.startswith(stem) and abs(len(other) - len(word)) <= 4 for other in bag)


def _significant_words(text: str) -> set[str]:
    """The significant words; for scripts without spaces, pairs of characters."""
    found: set[str] = set()
    for word in _WORD.findall(text.lower()[:MAX_PHRASE]):
        if _WIDE.search(word):
            found.update(word[start : start + 2] for start in range(max(1, len(word) - 1)))
        elif word not in _EMPTY and len(word) > 1:
            found.add(word)
    return found


def _without_cycles(needs: list[SubtaskNeeds]) -> list[SubtaskNeeds]:
    reached: list[set[int]] = [{index} for index in range(len(needs))]
    acyclic: list[SubtaskNeeds] = []
    for index, subtask_needs in enumerate(needs):
        allowed = tuple(other for other in subtask_needs.siblings if index not in reached[other])
        for other in allowed:
            for waiting in reached:
                if index in waiting:
                    waiting.update(reached[other])
        acyclic.append(
            SubtaskNeeds(siblings=allowed, tasks=subtask_needs.tasks, unresolved=subtask_needs.unresolved)
        )
    return acyclic


AUTO = "auto"
"""The decider's name for decisions made by the rules."""
MAX_SUBTASKS = 50
MAX_TITLE = 160
MAX_SCOPE = 16_000
_WORD_END = re.compile(r"[A-Za-z0-9À-ɏ:#/_-]+$")

AUTOMATIC: dict[RejectionReason, DecisionType] = {
    RejectionReason.BLOCKER: DecisionType.ACCEPT_AND_DEFER,
    RejectionReason.SCOPE_CREEP: DecisionType.ACCEPT_AND_DECOMPOSE,
    RejectionReason.MISSING_DEPENDENCY: DecisionType.ACCEPT_AND_DEFER,
    RejectionReason.INFEASIBLE: DecisionType.ACCEPT_AND_REFORMULATE,
    RejectionReason.UNCLEAR_REQUIREMENTS: DecisionType.ACCEPT_AND_DEFER,
    RejectionReason.OBSOLETE: DecisionType.ACCEPT,
}
"""The automatic director's decision for each reason."""


_OPENINGS = {
    RejectionReason.BLOCKER: "Valid blocker",
    RejectionReason.SCOPE_CREEP: "Valid scope creep",
    RejectionReason.MISSING_DEPENDENCY: "Valid dependency",
    RejectionReason.INFEASIBLE: "Valid infeasibility",
    RejectionReason.UNCLEAR_REQUIREMENTS: "Valid unclear requirements",
    RejectionReason.OBSOLETE: "Valid: the task is obsolete",
}
_NEW_TASKS: dict[RejectionReason | None, str] = {
    RejectionReason.BLOCKER: "blocker resolution task",
    RejectionReason.UNCLEAR_REQUIREMENTS: "clarification task",
}
"""The task created for a deferred task, in the wording of the requirements."""

MAX_SAME_SLIPS = 2
"""How often the same missing part is requested before its absence counts as an invalid rejection."""
MAX_SLIPS = 6
"""How many formally incomplete rejections of a task an agent may file before they count as invalid."""
ENDS_THE_TASK = "accepting INFEASIBLE ends the task, and the rules cannot tell whether it has to end"


class TaskDraft(Record, kw_only=True):
    """A task to create, and its dependencies on other new and existing tasks."""

    title: str
    scope: str = ""
    priority: str = "medium"
    category: str = ""
    estimate: str = ""
    siblings: tuple[int, ...] = ()
    tasks: tuple[str, ...] = ()

    @property
    def description(self) -> str:
        """The task's description with its estimate."""
        return f"{self.scope}\n\nEstimate: {self.estimate}".strip() if self.estimate else self.scope


class DecisionPlan(Record, kw_only=True):
    """A decision that has not been carried out."""

    decision: DecisionType
    sketches: tuple[TaskDraft, ...] = ()
    waits_for: tuple[str, ...] = ()
    """Existing tasks on which the deferred task will depend."""
    superseded_by: str = ""
    link: str = ""
    """The link between a created task and the rejected one: BLOCKS and REFINES run to it, DEPENDS_ON from it."""
    unresolved: tuple[str, ...] = ()
    reason: RejectionReason | None = None
    """The reason in the rejection."""
    factor: str = ""
    """The blocker that it names."""

    def with_existing(self, tasks: tuple[str, ...]) -> DecisionPlan:
        """The same decision with existing tasks in place of new ones."""
        return replace(self, sketches=(), waits_for=tasks, superseded_by="", link=self.link or "DEPENDS_ON")

    def rationale(self, created: tuple[str, ...]) -> str:
        """The rationale: the given reason, then the consequences with the tasks' names."""
        if self.superseded_by:
            return f"Valid: the task is obsolete, superseded by {self.superseded_by}."
        opening = _OPENINGS[self.reason] if self.reason else "Rejection accepted"
        is_blocker = self.reason is RejectionReason.BLOCKER
        parts = (
            f"{opening}.",
            self._consequence_sentence(created),
            factor_sentence(self.factor) if is_blocker else "",
        )
        return " ".join(part for part in parts if part)

    def _consequence_sentence(self, created: tuple[str, ...]) -> str:
        """The consequence for the task in one sentence."""
        names = ", ".join(dict.fromkeys((*self.waits_for, *created)))
        match self.decision:
            case DecisionType.ACCEPT_AND_DEFER if self.reason is RejectionReason.MISSING_DEPENDENCY:
                return f"Task depends on {names}."
            case DecisionType.ACCEPT_AND_DEFER if self.sketches:
                return f"Created {_NEW_TASKS.get(self.reason, 'task that comes first')}: {names}."
            case DecisionType.ACCEPT_AND_DEFER:
                return f"Task waits for {names}."
            case DecisionType.ACCEPT_AND_DECOMPOSE:
                return f"Decomposed into {len(created)} sub-tasks.{self._unresolved_sentence}"
            case DecisionType.ACCEPT_AND_REFORMULATE:
                return f"{'Created reformulated task' if self.sketches else 'Reformulated as'}: {names}."
            case _:
                return ""

    @property
    def _unresolved_sentence(self) -> str:
        if not self.unresolved:
            return ""
        return f" Not resolved to a task: {'; '.join(phrase[:80] for phrase in self.unresolved)}."


def plan_decision(
    decision: DecisionType,
    rejection: TaskRejection,
    task: Mapping[str, Any],
    facts: ValidationFacts | None = None,
) -> DecisionPlan:
    """The plan for a decision on a rejection; `task` has the task's id, title, priority and category."""
    drawn = _plan_by_type(decision, rejection, task, facts or ValidationFacts())
    return replace(drawn, reason=rejection.reason, factor=_text(rejection.blocking_factor))


def _plan_by_type(
    decision: DecisionType, rejection: TaskRejection, task: Mapping[str, Any], facts: ValidationFacts
) -> DecisionPlan:
    match decision:
        case DecisionType.ACCEPT_AND_DEFER:
            return _plan_deferral(rejection, task, facts)
        case DecisionType.ACCEPT_AND_DECOMPOSE:
            return _plan_decomposition(rejection, task, facts)
        case DecisionType.ACCEPT_AND_REFORMULATE:
            return _plan_reformulation(rejection, task)
        case DecisionType.ACCEPT if rejection.reason is RejectionReason.OBSOLETE:
            return DecisionPlan(decision=decision, superseded_by=_find_superseding(rejection, facts))
        case _:
            return DecisionPlan(decision=decision)


def refusal_rationale(rejection: TaskRejection) -> str:
    """The rationale of an override without one: the reason that was not accepted."""
    reason = f" ({rejection.reason.name})" if rejection.reason else ""
    factor = factor_sentence(_text(rejection.blocking_factor))
    return f"The rejection{reason} is not accepted. {factor}".rstrip()


def factor_sentence(factor: str) -> str:
    """The blocker named in a rejection as a sentence; empty if there is none."""
    return f"Blocking factor: {_make_title(factor).rstrip('.')}." if factor else ""


def is_formal_slip(issues: Iterable[Issue], earlier: Sequence[Collection[str]]) -> bool:
    """True if a rejection only lacks parts that its agent can add and was not asked for too often.

    `earlier` has the issue codes of the same agent's previous incomplete rejections of the task.
    """
    codes = {issue.code for issue in issues}
    is_asked_too_often = any(sum(code in slip for slip in earlier) >= MAX_SAME_SLIPS for code in codes)
    return codes <= FORMAL and len(earlier) < MAX_SLIPS and not is_asked_too_often


def slip_message(issues: Iterable[Issue]) -> str:
    """The message to an agent whose rejection only lacks a part."""
    lines = ["Your rejection is not complete. It does not count against you; add what is missing:", ""]
    lines += [f"- {issue.message}" for issue in issues]
    lines += ["", "Then reject the task again, or continue it."]
    return "\n".join(lines)


def override_message(
    issues: tuple[Issue, ...] | list[Issue], *, is_last: bool = False, appeal: str = ""
) -> str:
    """The message to an agent whose rejection was not accepted: every issue, and how to continue or appeal."""
    lines = ["Your rejection was not accepted due to the following issues:", ""]
    lines += [f"- {issue.message}" for issue in issues]
    if is_last:
        lines += ["", "This was your last rejection of this task: it goes to another agent or to a human."]
    else:
        lines += [
            "",
            "Continue the task. If it is still impossible, reject it again with",
            "1. at least 2 concrete attempts and the result of each,",
            "2. a specific blocking factor that others can check,",
            "3. evidence that you saw yourself and that shows it,",
            "4. an alternative that someone can act on.",
            "",
            "A rejection must show the effort behind it.",
        ]
    if appeal:
        lines += [
            "",
            "If the issues above are wrong about your record, appeal to a director, once for this task:",
            f"`{appeal} --reason TEXT`, or the MCP tool `appeal`.",
        ]
    return "\n".join(lines)


def _plan_deferral(rejection: TaskRejection, task: Mapping[str, Any], facts: ValidationFacts) -> DecisionPlan:
    decision = DecisionType.ACCEPT_AND_DEFER
    if rejection.reason is RejectionReason.MISSING_DEPENDENCY:
        waits_for = _find_open_dependencies(rejection, facts)
        if waits_for:
            return DecisionPlan(decision=decision, waits_for=waits_for, link="DEPENDS_ON")
        title = f"Dependency for {_text(task.get('title'))}: {_text(rejection.blocking_factor)}"
        sketch = _draft_task(title, rejection, task, "dependency")
        return DecisionPlan(decision=decision, sketches=(sketch,), link="DEPENDS_ON")
    if rejection.reason is RejectionReason.UNCLEAR_REQUIREMENTS:
        title = f"Clarify requirements for {_text(task.get('id'))} {_text(task.get('title'))}".replace(
            "  ", " "
        )
        sketch = _draft_task(title, rejection, task, "clarification")
    else:
        sketch = _draft_task(
            f"Resolve blocker: {_text(rejection.blocking_factor)}", rejection, task, "blocker"
        )
    return DecisionPlan(decision=decision, sketches=(sketch,), link="BLOCKS")


def _draft_task(title: str, rejection: TaskRejection, task: Mapping[str, Any], category: str) -> TaskDraft:
    """A task that removes the blocker; it is urgent, as another task waits for it."""
    urgent = "critical" if task.get("priority") == "critical" else "high"
    parts = (rejection.reason_detail, rejection.suggested_alternative)
    scope = "\n\n".join(part for part in map(_text, parts) if part)
    return TaskDraft(title=_make_title(title), scope=_make_scope(scope), priority=urgent, category=category)


def _find_open_dependencies(rejection: TaskRejection, facts: ValidationFacts) -> tuple[str, ...]:
    """The open tasks on which the rejection says the task depends, as the ledger knows them."""
    named = (facts.find_task(name) for name in dependency_names(rejection))
    return tuple(dict.fromkeys(item.task_id for item in named if item is not None and may_wait_for(item)))


def may_wait_for(named: NamedTask) -> bool:
    """True if the task may depend on the named one: an open task other than itself that does not depend on it."""
    return bool(named.task_id) and named.is_open and not named.is_self and not named.is_descendant


def _find_superseding(rejection: TaskRejection, facts: ValidationFacts) -> str:
    """What makes the task obsolete: the first other task or commit that the rejection names."""
    for name in (*names_in(_text(rejection.blocking_factor)), *mentioned_names(rejection)):
        known = facts.find_task(name)
        if known is not None and known.task_id and not known.is_self and not known.is_descendant:
            return known.task_id
        is_other = known is None and bare_name(name) != bare_name(_text(rejection.task_id))
        if name in facts.merged or (is_other and not facts.has_repository):
            return name
    return ""


def _plan_decomposition(
    rejection: TaskRejection, task: Mapping[str, Any], facts: ValidationFacts
) -> DecisionPlan:
    rows = [row for row in _rows(rejection.alternative_tasks) if _text(row.get("title"))][:MAX_SUBTASKS]
    titles = [_make_title(_text(row.get("title"))) for row in rows]
    scopes = [_make_scope(_text(row.get("scope"))) for row in rows]
    needs = resolve_dependencies(titles, scopes, [row.get("dependencies") for row in rows])
    sketches = tuple(
        TaskDraft(
            title=title,
            scope=scope,
            estimate=_text(row.get("estimate"))[:200],
            priority=_text(task.get("priority")) or "medium",
            category=_text(task.get("category")),
            siblings=need.siblings,
            tasks=_existing_dependencies(need, facts),
        )
        for title, scope, row, need in zip(titles, scopes, rows, needs, strict=True)
    )
    unresolved = tuple(need.unresolved for need in needs if need.unresolved)
    return DecisionPlan(
        decision=DecisionType.ACCEPT_AND_DECOMPOSE, sketches=sketches, link="REFINES", unresolved=unresolved
    )


def _rows(value: object) -> list[Mapping[str, Any]]:
    return [row for row in value if isinstance(row, Mapping)] if isinstance(value, list | tuple) else []


def _existing_dependencies(need: SubtaskNeeds, facts: ValidationFacts) -> tuple[str, ...]:
    """The existing open tasks on which a subtask depends."""
    named = (facts.find_task(name) or facts.find_task(f"task:{name}") for name in need.tasks)
    return tuple(dict.fromkeys(item.task_id for item in named if item is not None and may_wait_for(item)))


def _plan_reformulation(rejection: TaskRejection, task: Mapping[str, Any]) -> DecisionPlan:
    title = _text(task.get("title"))
    while title.lower().startswith("reformulated:"):
        title = title[len("reformulated:") :].strip()
    sketch = TaskDraft(
        title=_make_title(f"Reformulated: {title or 'Task'}"),
        scope=_make_scope(_text(rejection.suggested_alternative)),
        priority=_text(task.get("priority")) or "medium",
        category=_text(task.get("category")),
    )
    return DecisionPlan(decision=DecisionType.ACCEPT_AND_REFORMULATE, sketches=(sketch,), link="REFINES")


def _make_title(text: str) -> str:
    """One line, cut between words, so that ids in it remain complete or are dropped."""
    line = flatten(text)
    if len(line) <= MAX_TITLE:
        return line
    title = line[: MAX_TITLE - 1]
    return (_WORD_END.sub("", title) if _WORD_END.search(line[:MAX_TITLE]) else title).rstrip(" :,;") + "…"


def _make_scope(text: str) -> str:
    """Text for a task's scope, without invisible characters; truncation is stated."""
    clean = remove_invisible(text)
    if len(clean) <= MAX_SCOPE:
        return clean
    return f"{clean[:MAX_SCOPE]}… [cut: {len(clean)} characters; the rejection has the rest]"


def _text(value: object) -> str:
    return value.strip() if isinstance(value, str) else str(value) if isinstance(value, int | float) else ""
