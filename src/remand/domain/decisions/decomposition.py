"""Which sub-tasks wait for which, read from what an agent wrote beside each."""

from __future__ import annotations

import re
from collections.abc import Sequence

from remand.domain.record import Record
from remand.domain.text.words import word_set

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
"""What stands before a number that counts sub-tasks: "step 2", "task1"."""
_NUMERO = re.compile(r"\b(?:no|nr|n)[.º]\s*(?=\d)", re.IGNORECASE)
_NUMBERED = re.compile(r"(?<![^\W\d_])[^\W\d_]++[ -]?\d{1,3}(?!\w)")
"""A name with a number of its own, as titles have it: "Python 3"."""
_WAITS = re.compile(
    r"(?:after|requires?|depends?|needs?|once|nach|benötigt|braucht|después|requiere|après|requiert)\s(?!\d)",
    re.IGNORECASE,
)
"""How a phrase begins that names something to wait for: for the second sub-task, that can only be the first."""
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
"""What turns a negation around: "nothing except 1", "not before 1"."""
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
    """What one sub-task waits for: others of the same decomposition by their index, and tasks that exist."""

    siblings: tuple[int, ...] = ()
    tasks: tuple[str, ...] = ()
    """Ids and aliases as they were written."""
    unresolved: str = ""
    """The phrase, when it names something that could not be found."""


def resolve_dependencies(
    titles: Sequence[str], scopes: Sequence[str], phrases: Sequence[object]
) -> list[SubtaskNeeds]:
    """What each sub-task waits for. Circles are cut at the link that would close them."""
    bags = [_significant_words(title) for title in titles]
    wider = [bag | _significant_words(scope) for bag, scope in zip(bags, scopes, strict=True)]
    numbered = [{name.lower() for name in _NUMBERED.findall(title)} for title in titles]
    found = [
        _find_needs(index, _phrase_text(phrase), bags, wider, numbered)
        for index, phrase in enumerate(phrases)
    ]
    return _without_cycles(found)


def _phrase_text(phrase: object) -> str:
    """The phrase as text, however it came: text, a number, or a list of either."""
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
    """What the phrase asks for: empty when it says that nothing is needed; later clauses that deny are left out."""
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
    """Sub-tasks named by their number, from one on: "after 1", "1-3", "#2"."""
    found: set[int] = set()
    for match in _NUMBER.finditer(phrase):
        first, last = int(match[1]), int(match[2] or match[1])
        found.update(number - 1 for number in range(first, min(last, count) + 1) if 1 <= number <= count)
    return found - {index}


def _find_by_words(index: int, phrase: str, bags: list[set[str]], wider: list[set[str]]) -> set[int]:
    """Sub-tasks named by what they are called, as the previous one, or by their place."""
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
    """Sub-tasks named by their place: all, the first, the second."""
    words = {word.lower() for word in _WORD.findall(phrase)}
    if words & _ALL:
        return set(range(index)) or set(range(1, count))
    places = {_ORDINALS[word] for word in words if word in _ORDINALS}
    return {place for place in places if place < count and place != index}


def _find_previous(index: int, phrase: str) -> set[int]:
    """The one before, when the phrase says so and names none by its title."""
    words = {word.lower() for word in _WORD.findall(phrase)}
    says_so = words & _PREVIOUS or any(mark in phrase for mark in _PREVIOUS_WIDE)
    return {index - 1} if index and says_so else set()


def _find_closest(index: int, wanted: set[str], bags: list[set[str]], wider: list[set[str]]) -> set[int]:
    """The sub-task whose title shares most with the phrase, each shared word the more the rarer it is."""
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
    """True when the bag has the word, or one that differs in its ending alone ("refactoring", "refactor")."""
    if word in bag:
        return True
    if len(word) < 5 or _WIDE.match(word):
        return False
    stem = word[: max(5, len(word) - 3)]
    return any(other.startswith(stem) and abs(len(other) - len(word)) <= 4 for other in bag)


def _significant_words(text: str) -> set[str]:
    """The words that tell something; of scripts without spaces, pairs of characters."""
    found: set[str] = set()
    for word in _WORD.findall(text.lower()[:MAX_PHRASE]):
        if _WIDE.search(word):
            found.update(word[start : start + 2] for start in range(max(1, len(word) - 1)))
        elif word not in _EMPTY and len(word) > 1:
            found.add(word)
    return found


def _without_cycles(needs: list[SubtaskNeeds]) -> list[SubtaskNeeds]:
    reached: list[set[int]] = [{index} for index in range(len(needs))]
    kept: list[SubtaskNeeds] = []
    for index, one in enumerate(needs):
        allowed = tuple(other for other in one.siblings if index not in reached[other])
        for other in allowed:
            for waiting in reached:
                if index in waiting:
                    waiting.update(reached[other])
        kept.append(SubtaskNeeds(siblings=allowed, tasks=one.tasks, unresolved=one.unresolved))
    return kept
