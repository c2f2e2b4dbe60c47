"""Rules on requirements: unclear ones (open questions), infeasible ones (conflicting demands), and scope creep."""

from __future__ import annotations

import re
from collections.abc import Iterator

from remand.domain.text.words import set_similarity, word_set
from remand.domain.validation.assessment import Issue, issue
from remand.domain.validation.lexicon import (
    CLASSES,
    GENERIC_STEMS,
    clauses,
    is_indirect_question,
    is_interpretation,
    says_impossible,
    says_possible,
)
from remand.domain.validation.parsed_rejection import (
    ParsedRejection,
    ParsedSubTask,
    final_hours,
    range_hours_in,
)
from remand.domain.validation.tokens import (
    SHORT,
    Text,
    checkable_marks,
    is_character_pair,
    new_thing_count,
    overlap_share,
    quotations,
    specific_word_count,
    tokenise_text,
)

_MACHINE = (
    r"(?:server|backend|endpoint|api|service|gateway|host|page|site|database|proxy|script|function|method|query|serveur|servidor"
    r"|servizio|serwer|сервер|dienst|datenbank|schnittstelle)s?(?! (?:team|owner|people|group|maintainers?|lead|admins?))"
)
_ANSWER = r"(?:answer|repl|antwort|répon[ds]|respon[ds]|respuest|respost|contest|rispo|odpowied|ответ)\w*"
_REQUEST_TO_MACHINE = re.compile(
    r"(?:^|[\s(])(?:https?://|\.{0,2}/\w)|\b(?-i:GET|POST|PUT|PATCH|DELETE|HEAD|HTTP)\b|\w\(\)|\b[0-9.,]+ ?ms\b|\blocalhost\b"
    r"|\b[\w-]+\.(?:local|internal|com|net|org|io|dev)\b|\b[0-9]{1,3}(?:\.[0-9]{1,3}){3}\b"
    rf"|\b{_ANSWER}(?: \w+){{0,2}} [1-5][0-9]{{2}}\b|\b{_MACHINE}(?: \w+){{0,2}} {_ANSWER}"
    rf"|\b(?:called|requested|contacted|pinged|met|to|from|against) (?:the |our |an? )?(?:\w+ )?{_MACHINE}\b"
    rf"|\b(?:temps|délai|tiempo|tempo|czas|время|времени|code|código|codice|kod|код)(?: de| di| da)? {_ANSWER}"
    r"|\bresponse (?:times?|codes?|body|headers?|size)|服务器|接口|数据库|サーバ|エンドポイント|データベース",
    re.IGNORECASE,
)
_WROTE_TO_SOMEBODY = re.compile(
    r"\b(?:sent|left|opened|filed|put|added|raised|posted)\b(?: \S+){0,6} (?:e?-?mail|message|comment|questions?|blocker|thread|dm|poll)\b"
    r"|\b(?:mail|nachricht|kommentar|fragen?)\b(?: \S+){0,4} (?:geschickt|gesendet|hinterlassen|gestellt)\b"
    r"|\b(?:envoyé|laissé|posé|posté)\b(?: \S+){0,3} (?:mail|courriel|message|commentaire|questions?)\b"
    r"|\b(?:envié|enviado|dejé|dejado|planteé)\b(?: \S+){0,3} (?:correo|mensaje|comentario|preguntas?)\b",
    re.IGNORECASE,
)
_DENIED_ASKING = re.compile(
    r"\b(?:could|should|would|might|can|may|must|will|to|has to|needs to) be (?:asked|consulted|contacted|mailed|messaged)\b"
    r"|\b(?:nobody|no one|no-one|not|never|without|didn'?t|haven'?t|hasn'?t|did not|have not)(?: has| have| had| been| yet| having| anyone| was| were)* (?:ask|consult|contact|mail|request)\w*"
    r"|\b(?:niemand(?:en)?|nicht|ohne)(?: \w+){0,2} (?:gefragt|nachgefragt|nachzufragen|zu fragen)|\b(?:personne|sans|pas)(?: \w+){0,2} (?:demand\w+|interrog\w+)"
    r"|\b(?:nadie|sin|no)(?: \w+){0,2} (?:pregunt\w+|consult\w+)|\b(?:никого|не)(?: \w+)? спр\w+|没有?(?:问|询问)|未(?:问|询问)|聞いていない|質問していない|確認していない",
    re.IGNORECASE,
)
_QUESTION = re.compile(
    r"[^\s?？][\s\u202f]?[?？؟](?=\s|$|[\"'”’»」)\]]|[\u3040-\u9fff])|ですか|ますか|でしょうか"
)
_ASKED_SENTENCE = re.compile(r"[^.?!？。！;；\n]{2,300}(?:[?？؟]|か。)")
_ASKED_IN_CHINESE = re.compile("[问問]")
SHOWN_FIGURES = 2
PREFIX = 5
"""How many letters two forms of one word share."""
ASKED_ABOUT = 3
"""The least number of letters in a word that may be the subject of a question."""
SHARED = 2
HALF = 0.5
_SAYS_NOTHING = {"vague", "generic", "asks", "not"}
_QUESTION_WORDS = word_set("""
the how why are was did does for and any per und der die das wie les des que por
""")


def check_missing_questions(reading: ParsedRejection) -> Issue | None:
    """The record contains no question."""
    return None if has_question(reading) else issue("questions_missing")


def has_question(reading: ParsedRejection) -> bool:
    """True if a text asks something, directly or indirectly; a question mark inside an address does not count."""
    texts = (*reading.claim, reading.alternative)
    return any(_QUESTION.search(text.raw) or is_indirect_question(text.raw) for text in texts)


def check_generic_questions(reading: ParsedRejection) -> Issue | None:
    """The questions could be asked of any task."""
    questions = asked_questions(reading)
    if not questions or any(
        specific_word_count(text.telling) + checkable_marks(text) + len(text.acronyms) >= 1
        for text in questions
    ):
        return None
    return issue("questions_generic")


def check_answered_questions(reading: ParsedRejection) -> Issue | None:
    """Each question concerns something that a clause of the task already specifies with a figure."""
    clause_texts = [tokenise_text(clause) for clause in clauses(reading.scope.raw)]
    laid_down = [
        _word_forms(clause, ASKED_ABOUT)
        for clause in clause_texts
        if clause.figures or checkable_marks(clause) >= 1
    ]
    questions = [_word_forms(text, ASKED_ABOUT) for text in asked_questions(reading)]
    if not questions or not all(
        any(_is_answered_by(clause, words) for clause in laid_down) for words in questions
    ):
        return None
    return issue("questions_answered")


def _is_answered_by(clause: frozenset[str], question: frozenset[str]) -> bool:
    """True if a clause has a question's subject: its only word, or at least two and half of its words."""
    shared = len(clause & question)
    return bool(question) and shared >= min(len(question), SHARED) and shared >= HALF * len(question)


def asked_questions(reading: ParsedRejection) -> list[Text]:
    """The questions, one text for each."""
    texts = (*reading.claim, reading.alternative)
    return [tokenise_text(found) for text in texts for found in _ASKED_SENTENCE.findall(text.raw)]


def check_unquoted_ambiguity(reading: ParsedRejection) -> Issue | None:
    """The words that are called unclear are not in the task."""
    task = frozenset[str]().union(*map(_word_forms, reading.task))
    is_set_out = any(
        text.quotes or text.count("interprets") or text.count("chooses") for text in reading.claim
    )
    if (
        not task
        or is_set_out
        or any(_word_forms(text) & task for text in (*reading.claim, *reading.evidence_and_sources))
    ):
        return None
    return issue("ambiguity_unquoted")


def _word_forms(text: Text, least: int = SHORT) -> frozenset[str]:
    """The words of a text without their endings, except those that are too short."""
    words = (word for word in text.words if len(word) >= least or is_character_pair(word))
    return frozenset(
        word[:PREFIX]
        for word in words
        if word not in _QUESTION_WORDS and not _SAYS_NOTHING & set(CLASSES.get(word, ()))
    )


def check_missing_interpretations(reading: ParsedRejection) -> Issue | None:
    """No interpretation of the task is shown: none is compared with another, and none has counts."""
    texts = (*reading.claim, *reading.attempts, reading.alternative, *reading.evidence_and_sources)
    is_read = any(text.count("interprets") or is_interpretation(text.raw) for text in texts)
    is_choice = any(text.count("chooses") for text in reading.claim)
    is_counted = len(set(reading.detail.figures)) >= SHOWN_FIGURES
    is_conflict = any("conflict" in item.kind.lower() for item in reading.evidence)
    if is_read or is_choice or is_counted or is_conflict or not reading.is_readable:
        return None
    return issue("interpretations_missing")


def check_questions(reading: ParsedRejection) -> Issue | None:
    """Nothing shows that someone was asked before the rejection."""
    texts = (reading.summary, reading.detail, *reading.evidence_and_sources)
    has_asked = any(_describes_inquiry(text, "asked") for text in texts) or any(
        _describes_inquiry(attempt, "asked", "contacted") or _is_asked_in_other_words(attempt)
        for attempt in reading.attempts
    )
    return None if has_asked or not reading.is_readable else issue("questions_unasked")


def _describes_inquiry(text: Text, *lists: str) -> bool:
    """True if a clause has a word of the lists, and does not describe a call to a machine."""
    if not any(map(text.count, lists)) or _DENIED_ASKING.search(text.raw) is not None:
        return False
    return any(_is_asking(clause, lists) for clause in clauses(text.raw))


def _is_asking(clause: str, lists: tuple[str, ...]) -> bool:
    """True if a clause reports that someone was asked. Words that machines also fit, such as call and answer, need a person."""
    found = [
        names for word in tokenise_text(clause).words if set(lists) & set(names := CLASSES.get(word, ()))
    ]
    if any("asked" in names and "answers" not in names for names in found):
        return True
    return bool(found) and _REQUEST_TO_MACHINE.search(clause) is None


def _is_asked_in_other_words(attempt: Text) -> bool:
    """True if a word that is on no list by itself reports asking."""
    has_asked = (
        _ASKED_IN_CHINESE.search(attempt.raw) is not None
        or _WROTE_TO_SOMEBODY.search(attempt.raw) is not None
    )
    return has_asked and _DENIED_ASKING.search(attempt.raw) is None


QUESTION_RULES = (
    check_missing_questions,
    check_generic_questions,
    check_answered_questions,
    check_unquoted_ambiguity,
    check_missing_interpretations,
    check_questions,
)


_DENIED = re.compile(
    r"\b(?:no|not any|without any?) (?:real |actual )?(?:conflict|contradiction)s?\b(?! (?:free|with|resolution))"
    r"|\bkein(?:en|e)? (?:konflikt|widerspruch)|\b(?:no hay|sin) (?:ningún )?conflicto|\b(?:pas|aucun)\w* (?:de )?conflit"
    r"|没有冲突|無衝突|矛盾は?ない",
    re.IGNORECASE,
)
MIN_PAIR = 2
DEMAND_WORDS = 3
"""How many specific words make a quotation a demand of its own."""
OWN_SHARE = 0.5
"""The share of a quotation's words that must be in the task."""


def check_invented_constraints(reading: ParsedRejection) -> Issue | None:
    """A quoted demand is not in the task, or several short ones are not."""
    if not reading.scope.stems:
        return None
    foreign = [stems for stems in _quoted_stems(reading) if not _is_of_task(stems, reading)]
    if len(foreign) < MIN_PAIR and not any(len(stems) >= DEMAND_WORDS for stems in foreign):
        return None
    return issue("infeasible_proof_invented")


def _quoted_stems(reading: ParsedRejection) -> set[frozenset[str]]:
    """The words of the quotations in the detail; quoted observations are not demands."""
    seen = "\n".join(
        text.raw for text in (*reading.attempts, *(item.data for item in reading.evidence))
    ).casefold()
    parts = (part for part in quotations(reading.detail.raw) if not part.startswith("`"))
    found = (tokenise_text(part).stems for part in parts if part.strip("\"'“”„«»").casefold() not in seen)
    return {stems for stems in found if len(stems) >= MIN_PAIR}


def _is_of_task(stems: frozenset[str], reading: ParsedRejection) -> bool:
    return len(stems & (reading.title.stems | reading.scope.stems)) >= OWN_SHARE * len(stems)


def check_denied_conflict(reading: ParsedRejection) -> Issue | None:
    """The record says that there is no conflict."""
    text = f"{reading.detail.raw}\n{reading.factor.raw}"
    return issue("infeasible_proof_denied") if _DENIED.search(text) else None


def check_missing_constraints(reading: ParsedRejection) -> Issue | None:
    """Nothing is named that conflicts with a demand of the task: no other demand, figure or prohibition."""
    demands = [tokenise_text(clause) for clause in clauses(reading.scope.raw)]
    touched = [
        clause for clause in demands if any(_touches(text, clause, reading.title) for text in reading.claim)
    ]
    is_titled = any(text.telling & reading.title.telling for text in reading.claim)
    figures = {figure for text in reading.claim for figure in text.figures}
    is_measured = len(figures) >= MIN_PAIR and bool(figures - set(reading.title.figures))
    is_opposed = any(text.count("opposes") for text in reading.claim)
    quoted = {part for text in reading.claim for part in quotations(text.raw)}
    if (
        len(touched) + is_titled >= MIN_PAIR
        or is_measured
        or len(quoted) >= MIN_PAIR
        or (is_opposed and (touched or is_titled))
    ):
        return None
    return issue("constraints_missing") if reading.is_readable and demands else None


def _touches(text: Text, clause: Text, title: Text) -> bool:
    """True if a text mentions a demand with more than the words of the title."""
    words = (text.telling & clause.telling) - title.telling - GENERIC_STEMS
    return bool(words) or bool(set(text.figures) & set(clause.figures) - set(title.figures))


def check_preference(reading: ParsedRejection) -> Issue | None:
    """The record states a preference: it calls nothing impossible, or calls the work possible."""
    is_preferred = any(text.count("prefers") for text in reading.claim)
    claim = "\n".join(text.raw for text in (reading.detail, reading.factor))
    if says_possible(claim) or (is_preferred and not says_impossible(claim)):
        return issue("infeasible_preference")
    return None


INFEASIBLE_RULES = (
    check_invented_constraints,
    check_denied_conflict,
    check_missing_constraints,
    check_preference,
)


TOLERANCE = 0.15
LEAST_SHARE = 0.6
"""The share of the growth that the sub-tasks must add up to; the rest may be done or left out."""
SAME_EFFORT = 0.34
"""By how much two figures for one effort may differ: a day may have six or eight hours."""
_PLANNED = ("plan", "orig", "budget", "initial", "before", "ursprüng", "previst", "prévu", "alt_")


def task_planned_hours(reading: ParsedRejection) -> float | None:
    """The effort at the end of the task, as in `Change the header. 2 h.`"""
    return final_hours(reading.scope.raw) or final_hours(reading.title.raw)


def agent_planned_hours(reading: ParsedRejection) -> tuple[float, ...]:
    """The original effort that the agent gives, in the quoted scope or in evidence."""
    quoted = final_hours(reading.original_scope.raw)
    planned = (hours for item in reading.evidence for key, hours in item.hours if _is_planned(key))
    return tuple(dict.fromkeys((*((quoted,) if quoted else ()), *planned)))


def contradicts_task_plan(reading: ParsedRejection) -> bool:
    """True if the agent gives another original effort than the task."""
    planned = task_planned_hours(reading)
    if not planned:
        return False
    return any(abs(hours - planned) > SAME_EFFORT * planned for hours in agent_planned_hours(reading))


def is_growth_supported(reading: ParsedRejection) -> bool:
    """True if a stated effort is the factor times the original one, and the sub-tasks roughly add up to it."""
    factor = reading.growth or 0.0
    planned = task_planned_hours(reading)
    given = (planned,) if planned else agent_planned_hours(reading)
    found = given or tuple(sorted(set(_stated_hours(reading))))[:1]
    originals = tuple(hours for hours in found if hours > 0)
    stated = tuple(_revised_hours(reading))
    is_stated = any(
        abs(value / original - factor) <= TOLERANCE * factor for original in originals for value in stated
    )
    return (is_stated or _do_counts_support(reading, factor)) and _do_sub_tasks_add_up(
        reading, originals, factor
    )


def sub_task_hours(reading: ParsedRejection) -> float | None:
    """The sum of the sub-tasks; None unless each has an estimate."""
    hours = [task.hours for task in reading.sub_tasks]
    return sum(value for value in hours if value) if hours and all(hours) else None


def _do_sub_tasks_add_up(reading: ParsedRejection, originals: tuple[float, ...], factor: float) -> bool:
    total = sub_task_hours(reading)
    if total is None or not originals:
        return True
    return any(total / original >= LEAST_SHARE * factor for original in originals)


def _revised_hours(reading: ParsedRejection) -> Iterator[float]:
    """The possible new efforts: a stated one, the sum of the parts of an estimate, or the sum of the sub-tasks."""
    yield from _stated_hours(reading)
    for item in reading.evidence:
        yield sum(hours for key, hours in item.hours if not _is_planned(key))
    total = sub_task_hours(reading)
    if total:
        yield total
        yield total + (task_planned_hours(reading) or 0.0)


def _stated_hours(reading: ParsedRejection) -> Iterator[float]:
    for item in reading.evidence:
        yield from (hours for _, hours in item.hours)
        yield from range_hours_in(item.data.raw)
        yield from range_hours_in(item.source.raw)
    for text in (reading.detail, reading.summary, reading.factor, *reading.attempts):
        yield from range_hours_in(text.raw)


def _do_counts_support(reading: ParsedRejection, factor: float) -> bool:
    """True if growth is counted in files or calls, and evidence shows the planned and the actual count."""
    for item in reading.evidence:
        planned = [value for key, value in item.counts if value > 0 and _is_planned(key)]
        others = [value for key, value in item.counts if not _is_planned(key)]
        if any(abs(found / count - factor) <= TOLERANCE * factor for count in planned for found in others):
            return True
    return False


def _is_planned(key: str) -> bool:
    return any(name in key for name in _PLANNED)


MIN_GROWTH = 2.0
SUB_TASKS = 2
MAX_SUB_TASKS = 50
QUOTED_SHARE = 0.5
EXPLAINING_WORDS = 2
SAME_SCOPE = 0.8
SAME_TITLE = 0.6


def check_missing_original_scope(reading: ParsedRejection) -> Issue | None:
    return None if reading.original_scope.raw else issue("scope_original_missing")


def check_misquoted_scope(reading: ParsedRejection) -> Issue | None:
    """The original scope is not in the task's title and scope."""
    quoted = reading.original_scope.stems
    known = reading.title.stems | reading.scope.stems
    if not quoted or not known:
        return None
    return (
        issue("scope_misquoted")
        if overlap_share(quoted, known) < QUOTED_SHARE or contradicts_task_plan(reading)
        else None
    )


def check_missing_growth(reading: ParsedRejection) -> Issue | None:
    """There is no growth, or a factor under two."""
    if reading.growth is None:
        return issue("scope_growth_invalid" if reading.has_growth else "scope_growth_missing")
    if reading.growth <= 0:
        return issue("scope_growth_invalid")
    return issue("scope_growth_missing") if reading.growth < MIN_GROWTH else None


def check_unsupported_growth(reading: ParsedRejection) -> Issue | None:
    """The growth does not follow from the given figures."""
    if reading.growth is None or reading.growth < MIN_GROWTH:
        return None
    return None if is_growth_supported(reading) else issue("scope_growth_unsupported")


def check_too_few_sub_tasks(reading: ParsedRejection) -> Issue | None:
    """There are fewer than two sub-tasks with a title."""
    titled = {task.title.raw.casefold() for task in reading.sub_tasks if task.title.raw}
    return issue("decomposition_too_few") if len(titled) < SUB_TASKS else None


def check_unexplained_growth(reading: ParsedRejection) -> Issue | None:
    """The detail says that the scope grew, but not how."""
    if not reading.detail.raw or new_thing_count(reading.detail, *reading.task) >= EXPLAINING_WORDS:
        return None
    return issue("scope_growth_unexplained")


def check_repeated_sub_tasks(reading: ParsedRejection) -> Issue | None:
    """Sub-tasks repeat one another or the task."""
    titled = [task for task in reading.sub_tasks if task.title.raw]
    tasks: list[ParsedSubTask] = []
    for task in titled:
        if not any(_is_same_sub_task(task, other) for other in tasks):
            tasks.append(task)
    if len(titled) < SUB_TASKS:
        return None
    is_new = any(
        new_thing_count(text, *reading.task) >= 1 for task in tasks for text in (task.title, task.scope)
    )
    return issue("decomposition_repeats") if len(tasks) < SUB_TASKS or not is_new else None


def _is_same_sub_task(task: ParsedSubTask, other: ParsedSubTask) -> bool:
    """True if two sub-tasks differ only in their wording."""
    if set(task.title.figures) != set(other.title.figures) or set(task.scope.figures) != set(
        other.scope.figures
    ):
        return False
    has_scopes = bool(task.scope.stems and other.scope.stems)
    is_same_scope = has_scopes and set_similarity(task.scope.stems, other.scope.stems) >= SAME_SCOPE
    titles = set_similarity(_title_subject(task.title), _title_subject(other.title))
    return is_same_scope or (titles >= SAME_TITLE and not has_scopes)


def _title_subject(text: Text) -> frozenset[str]:
    """The subject of a title, without its verbs."""
    return (text.stems - GENERIC_STEMS) or text.stems


def check_too_many_sub_tasks(reading: ParsedRejection) -> Issue | None:
    """There are too many sub-tasks."""
    return issue("decomposition_too_many") if reading.sub_task_count > MAX_SUB_TASKS else None


SCOPE_RULES = (
    check_missing_original_scope,
    check_misquoted_scope,
    check_missing_growth,
    check_unsupported_growth,
    check_unexplained_growth,
    check_too_few_sub_tasks,
    check_repeated_sub_tasks,
    check_too_many_sub_tasks,
)
