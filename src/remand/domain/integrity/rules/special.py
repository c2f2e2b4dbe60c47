"""Product code that answers what tests ask, instead of working it out."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator

from remand.domain.integrity.catalogue import short, suspicion
from remand.domain.integrity.comparison import Suspicion
from remand.domain.integrity.paths import is_product_path
from remand.domain.integrity.reading.answers import Answer, answers_of, does_work, working
from remand.domain.integrity.reading.python_tree import constants
from remand.domain.integrity.reading.source import Source
from remand.domain.integrity.scene import Scene
from remand.domain.integrity.views import View

MAX_TESTS = 2_000
MAX_QUESTIONS = 20_000
MAX_ANSWERS = 100
"""A function with more answers than that holds data; nobody writes as many tests."""
FIGURES = 3
"""Digits of a number that is no coincidence."""
_SMALL = frozenset(("0", "1", "2", "-1", "''"))
_FIGURE = re.compile(r"-?\d{1,50}(?:\.\d{1,50})?")


def hardcoded(scene: Scene) -> Iterator[Suspicion]:
    """New constant answers that are those of the tests, or that answer several inputs at once."""
    views = [view for view in scene.views if view.after is not None and is_product_path(view.path)]
    added = [(view, _added(view)) for view in views]
    sources = _tests(scene) if any(answers for _, answers in added) else []
    questions = _questions(sources)
    known = _constants(sources)
    for view, answers in added:
        for group in _by_function(answers):
            told = _telling(group, questions, view) or _copied(group, questions, known)
            if told is not None:
                yield suspicion(
                    "answer_hardcoded",
                    view.path,
                    told.line,
                    f"`{told.function}`: `{short(told.text)}`",
                    told.text,
                )


def _added(view: View) -> list[Answer]:
    had = {answer.text for answer in answers_of(view.before)} if view.before else set()
    return [answer for answer in answers_of(view.after) if answer.text not in had] if view.after else []


def _by_function(answers: list[Answer]) -> list[list[Answer]]:
    groups: defaultdict[str, list[Answer]] = defaultdict(list)
    for answer in answers:
        if answer.answer and answer.is_whole:
            groups[answer.function].append(answer)
    return [group for group in groups.values() if len(group) <= MAX_ANSWERS]


def _tests(scene: Scene) -> list[Source]:
    """The tests that changed, on both sides, and those that did not."""
    sources = [side for view in scene.views for side in (view.before, view.after) if side]
    sources += [Source(item.path, item.text) for item in scene.comparison.unchanged[:MAX_TESTS]]
    return [source for source in sources if source.is_test]


def _constants(sources: list[Source]) -> frozenset[str]:
    """Every string and number that tests write."""
    found: set[str] = set()
    for source in sources:
        found |= (
            constants(source.every(ast.Constant))
            if source.tree
            else source.code.literals(0, len(source.code.tokens))
        )
    return frozenset(found)


def _copied(group: list[Answer], questions: list[frozenset[str]], known: frozenset[str]) -> Answer | None:
    """A figure that a test expects, given for inputs that tests name, by a function that works others out."""
    for answer in group:
        figure = answer.answer.strip("'")
        is_telling = answer.works and len(figure.strip("-").replace(".", "").strip("0")) >= FIGURES
        asked = answer.asked - _SMALL
        if is_telling and _FIGURE.fullmatch(figure) and asked <= known and _is_answered(answer, questions):
            return answer
    return None


def _questions(sources: list[Source]) -> list[frozenset[str]]:
    """The literals of each assertion."""
    found: list[frozenset[str]] = []
    for case in (case for source in sources for case in source.cases):
        found += (item.literals for item in case.assertions if item.literals)
        if any(item.times > 1 for item in case.assertions):
            found.append(case.literals)
    return found[:MAX_QUESTIONS]


def _telling(group: list[Answer], questions: list[frozenset[str]], view: View) -> Answer | None:
    """The first answer of a function that gives it away."""
    joint = next((answer for answer in group if answer.is_joint and answer.works), None)
    if joint is not None:
        return joint
    known = [answer for answer in group if _is_asked(answer, questions)]
    worked = _worked(view, group[0].function)
    if known and len(known) == len(group) and (group[0].works or worked or len(known) > 1):
        return known[0]
    is_bare = worked and not group[0].works and len(group) > 1
    return group[0] if is_bare and any(_is_answered(answer, questions) for answer in group) else None


def _is_answered(answer: Answer, questions: list[frozenset[str]]) -> bool:
    return any(answer.answer in question for question in questions)


def _is_asked(answer: Answer, questions: list[frozenset[str]]) -> bool:
    asked = answer.asked - _SMALL
    told = asked | ({answer.answer} - _SMALL)
    return bool(asked) and any(_holds(question, told) for question in questions)


def _holds(question: frozenset[str], told: frozenset[str]) -> bool:
    """True when a question has all the values, lists by their items."""
    return all(text in question or (text[:1] in "[({" and _inner(text, question)) for text in told)


def _inner(text: str, question: frozenset[str]) -> bool:
    """True when the parts of a written-out list are all among the literals."""
    try:
        tree = ast.parse(text, mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    parts = {repr(part.value) for part in ast.walk(tree) if isinstance(part, ast.Constant)}
    return bool(parts) and parts - {"0", "1", "2"} <= question


def _worked(view: View, function: str) -> bool:
    """True when the function worked something out on the base."""
    if view.before is None:
        return False
    return _had_work(view, function) or any(
        answer.works for answer in answers_of(view.before) if answer.function == function
    )


def _had_work(view: View, function: str) -> bool:
    if view.before is None:
        return False
    if view.before.language == "script":
        return function in working(view.before.code)
    return any(does_work(node) for name, node in view.before.functions if name == function)
