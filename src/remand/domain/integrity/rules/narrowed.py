"""Checks that look at less or ask for less than on the base, or are not run at all."""

from __future__ import annotations

import re
from collections.abc import Iterator

from remand.domain.integrity.catalogue import listed, short, suspicion
from remand.domain.integrity.commands import CommandChange, command_changes, names_of
from remand.domain.integrity.comparison import Suspicion
from remand.domain.integrity.reading.commands import Command, collectors_in, without_tools
from remand.domain.integrity.scene import Scene

_LEAVES_OUT = re.compile(
    r"--deselect|--ignore(?:-glob)?[= ]|\s-k[ =]|--testPathIgnorePatterns|--testPathPatterns?|--findRelatedTests|--changedSince|--testNamePattern|--skip[= ]|--exclude-dir"
    r"|-m [\"']?not |--last-failed|--lf\b|-p no:\w+|--grep|--invert|--onlyChanged|--only-changed|-skip[= ]|-run[= ]|--noconftest"
    r"|--no-cov\b|--reruns|--retry|--retries|--exclude[= ]|-DskipTests|-x test\b"
)
_STRICT = re.compile(
    r"--strict\S*|-D warnings|--error-on-warnings|-W ?error|--fail-on-\S+|--werror|-Werror|--forbid-only"
)
_LENIENT = re.compile(
    r"--quiet\b|--no-eslintrc|--no-config-lookup|--rule\b|--ignore-pattern|--disable-error-code|--ignore-missing-imports"
    r"|--no-strict\S*|--disable=|--extend-ignore|--extend-exclude|--allow-\S+|--follow-imports[= ](?:skip|silent)|--skipLibCheck"
    r"|--updateSnapshot|--update-snapshots?|--snapshot-update|(?<=jest )-u\b|(?<=run )-u\b"
)
_LEAST = re.compile(
    r"(--cov-fail-under|--fail-under|--fail_under|--lines|--branches|--functions|--statements|--check-coverage)[= ](\d+(?:\.\d+)?)"
)
_MOST = re.compile(r"(--max-warnings|--max-complexity|--max-line-length)[= ](\d+)")
_ADDOPTS = re.compile(
    r"\b(?:PYTEST_ADDOPTS|NODE_OPTIONS|MYPYPATH|RUSTFLAGS)\b.*(?:--deselect|-k\b|--ignore|-p no:|--cap-lints|-A warnings|--require)"
)
_PLACES = re.compile(
    r"(?<=\s)(\./[\w./-]+|[\w.-]+/[\w./-]*|tests?|spec|[\w./-]+\.(?:py|[jt]sx?|go)(?:::[\w:]+)?)(?=\s|$|[\"'])"
)
"""The files and folders a command names."""


def narrowed(scene: Scene) -> Iterator[Suspicion]:
    """A check that takes the place of another and looks at less, or asks for less."""
    for change in command_changes(scene):
        for command in change.added:
            code = _judged(command, change)
            if code:
                yield suspicion(code, change.path, command.line, f"`{short(command.text)}`", command.text)


def _judged(command: Command, change: CommandChange) -> str:
    """The code of the suspicion a new command is; empty when it is none."""
    if _ADDOPTS.search(command.text):
        return "tests_left_out"
    old = next((change.removed[name] for name in sorted(names_of(command)) if name in change.removed), None)
    if old is None:
        return ""
    if set(_LEAVES_OUT.findall(command.text)) - set(_LEAVES_OUT.findall(old.text)):
        return "tests_left_out"
    is_single = all(change.counts[name] == 1 for name in names_of(command))
    if is_single and _looks_at_less(old.text, command.text):
        return "tests_left_out"
    return "threshold_lowered" if _asks_less(old.text, command.text) else ""


def _looks_at_less(old: str, new: str) -> bool:
    """True when a runner is given a part of what it was given, or a part where it was given nothing."""
    had, has = (_PLACES.findall(without_tools(text)) for text in (old, new))
    if not has or set(has) & set(had):
        return False
    named = (
        had + [word for word in without_tools(old).split() if re.fullmatch(r"[A-Za-z]\w*", word)]
        if had
        else had
    )
    return all(_is_part(place, named) for place in has)


def _is_part(place: str, had: list[str]) -> bool:
    if not had:
        return not re.fullmatch(r"(\./)?(tests?|spec|src|e2e)/?", place)
    return any(
        place != other and (other.endswith("...") or place.startswith(other.rstrip("/") + "/"))
        for other in had
    )


def _asks_less(old: str, new: str) -> bool:
    """True when a flag that made the check stricter is gone or gives more room."""
    if set(_STRICT.findall(old)) - set(_STRICT.findall(new)) or set(_LENIENT.findall(new)) - set(
        _LENIENT.findall(old)
    ):
        return True
    least_old, least_new = dict(_LEAST.findall(old)), dict(_LEAST.findall(new))
    if any(float(least_new.get(flag, 0)) < float(value) for flag, value in least_old.items()):
        return True
    most_old, most_new = dict(_MOST.findall(old)), dict(_MOST.findall(new))
    return any(float(most_new.get(flag, "inf")) > float(value) for flag, value in most_old.items())


def not_run(scene: Scene) -> Iterator[Suspicion]:
    """Checks that commands ran on the base and none runs now."""
    changes = list(command_changes(scene))
    had = {
        part
        for change in changes
        for command in change.removed.values()
        for part in collectors_in(command.text)
    }
    if any(collectors_in(command.text) - had for change in changes for command in change.added):
        return
    old = {tool for change in changes for tool in change.old_tools}
    new = {tool for change in changes for tool in change.new_tools}
    gained = {category for category, _ in new - old}
    lost = {tool for tool in old - new if tool[0] not in gained}
    for change in changes:
        here = sorted(name for category, name in change.old_tools if (category, name) in lost)
        if here:
            found = f"{listed(here)} is not run any more"
            yield suspicion("check_removed", change.path, 0, found, "\n".join(here))
