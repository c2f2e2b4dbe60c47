"""Commands that check and may now fail unnoticed, leave something out, or are not run at all."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from remand.domain.integrity.catalogue import listed, short, suspicion
from remand.domain.integrity.comparison import Suspicion
from remand.domain.integrity.reading.commands import (
    COLLECTS,
    Command,
    commands_of,
    runs_commands,
    tools_in,
    without_tools,
)
from remand.domain.integrity.reading.source import Source
from remand.domain.integrity.scene import Scene
from remand.domain.integrity.views import View

_IGNORES = re.compile(
    r"\|\|\s*(?:/bin/)?(?:true|:|exit\s+0|echo|printf|return\s+0|\{\s*(?:echo|true|:))|;\s*(?:/bin/)?(?:true|exit\s+0|:)\s*[\"']?\s*,?$"
    r"|--exit-zero|--passWithNoTests|--pass-with-no-tests|--no-fail-on|--suppress-tests|--allow-empty|--warn-only"
    r"|--exit-code[= ]0|--quiet-exit|--continue-on-collection-errors|--no-error-on-unmatched|--nowarn|\|\s*tee\b|(?<![&>|])&\s*$"
    r"|--collect-only|--co\b|--setup-plan|\bPYTHONOPTIMIZE=|\bpython[\d.]* -O+\b|success_codes"
)
_FAILS_AFTER = re.compile(r"\|\|.*(?:\bexit\s+(?:[1-9]|\$)|\bfalse\b|\breturn\s+(?:[1-9]|\$)|=1\b|=\$\?)")
_LEAVES_OUT = re.compile(
    r"--deselect|--ignore(?:-glob)?[= ]|\s-k[ =]|--testPathIgnorePatterns|--testNamePattern|--skip[= ]|--exclude-dir"
    r"|-m [\"']?not |--last-failed|--lf\b|-p no:\w+|--grep|--invert|--onlyChanged|--only-changed|-skip[= ]|-run[= ]|--noconftest"
    r"|--no-cov\b|--reruns|--retry|--retries|--exclude[= ]|-DskipTests|-x test\b"
)
_STRICT = re.compile(
    r"--max-warnings[= ]\d+|--strict\S*|-D warnings|--error-on-warnings|-W ?error|--fail-on-\S+|--werror|-Werror|--forbid-only"
)
_LEAST = re.compile(
    r"(--cov-fail-under|--fail-under|--fail_under|--lines|--branches|--functions|--statements|--check-coverage)[= ](\d+(?:\.\d+)?)"
)
_MOST = re.compile(r"(--max-warnings|--max-complexity|--max-line-length)[= ](\d+)")
_SHELL_TRICKS = re.compile(
    r"^\s*(?:set \+e\b|set \+o (?:errexit|pipefail)|trap\b.*\bexit 0|exit 0$|MAKEFLAGS\s*\+?=.*-i|\.IGNORE\s*:|SHELL\s*:?=.*/true)"
)
_STAND_IN = re.compile(
    r"^\s*(?:alias\s+|function\s+)?([\w-]+)\s*(?:\(\)\s*\{\s*(?::|true|return 0|exit 0)|[:?]?=\s*[\"']?(?:true|:|echo)\b)",
    re.IGNORECASE,
)
_FORGIVES = re.compile(
    r"^\s*-?\s*(?:continue-on-error:\s*true|allow_failure:\s*true|ignore_errors:\s*true|ignoreErrors:\s*true|continueOnError:\s*true"
    r"|if:\s*(?:\$\{\{\s*)?(?:false|\"false\"|'false')|when:\s*(?:never|manual)|stages:\s*\[\s*manual\s*\])"
)
_BYPASSES = re.compile(
    r"\bgit (?:commit|push)\b.*(?:--no-verify|\s-n\b)|core\.hooksPath\s*=?\s*(?:/dev/null|[\"']{2})|\bHUSKY=0|\bSKIP=\w"
)
_ADDOPTS = re.compile(
    r"\b(?:PYTEST_ADDOPTS|NODE_OPTIONS|MYPYPATH|RUSTFLAGS)\b.*(?:--deselect|-k\b|--ignore|-p no:|--cap-lints|-A warnings|--require)"
)
_PLACES = re.compile(
    r"(?<=\s)(\./[\w./-]+|[\w.-]+/[\w./-]*|tests?|spec|[\w./-]+\.(?:py|[jt]sx?|go)(?:::[\w:]+)?)(?=\s|$|[\"'])"
)
"""The files and folders a command names."""
_NEAR = 14


def ignored(scene: Scene) -> Iterator[Suspicion]:
    """New lines by which a check's failure is lost."""
    for view in _command_files(scene):
        for command in _added(view):
            if _loses_failure(command, view):
                found = f"`{short(command.text)}`"
                yield suspicion("failure_ignored", view.path, command.line, found, command.text)


def left_out(scene: Scene) -> Iterator[Suspicion]:
    """A check that takes the place of another and looks at less, or asks for less."""
    for view in _command_files(scene):
        gone = _removed(view)
        for command in _added(view):
            if _ADDOPTS.search(command.text):
                yield suspicion(
                    "tests_left_out", view.path, command.line, f"`{short(command.text)}`", command.text
                )
            old = next((other for other in gone if _names(other) & _names(command)), None)
            if old is None:
                continue
            if (
                _LEAVES_OUT.search(command.text)
                and set(_LEAVES_OUT.findall(command.text)) - set(_LEAVES_OUT.findall(old.text))
            ) or (len(_same_tool(view, command)) == 1 and _looks_at_less(old.text, command.text)):
                yield suspicion(
                    "tests_left_out", view.path, command.line, f"`{short(command.text)}`", command.text
                )
            elif _asks_less(old.text, command.text):
                found = f"`{short(old.text)}` became `{short(command.text)}`"
                yield suspicion("threshold_lowered", view.path, command.line, found, command.text)


def _same_tool(view: View, command: Command) -> list[Command]:
    return (
        [other for other in commands_of(view.after) if _names(other) & _names(command)] if view.after else []
    )


def _looks_at_less(old: str, new: str) -> bool:
    """True when a runner is given a part of what it was given, or a part where it was given nothing."""
    had, has = (_PLACES.findall(without_tools(text)) for text in (old, new))
    if not has or set(has) & set(had):
        return False
    return all(_is_part(place, had) for place in has)


def _is_part(place: str, had: list[str]) -> bool:
    if not had:
        return not re.fullmatch(r"(\./)?(tests?|spec|src|e2e)/?", place)
    return any(
        place != other and (other.endswith("...") or place.startswith(other.rstrip("/") + "/"))
        for other in had
    )


def not_run(scene: Scene) -> Iterator[Suspicion]:
    """Checks that commands ran on the base and none runs now."""
    views = list(_command_files(scene))
    old = {tool for view in views for tool in _tools(view.before)}
    new = {tool for view in views for tool in _tools(view.after)}
    gained = {category for category, _ in new - old}
    if any(COLLECTS.search(command.text) for view in views for command in _added(view)):
        return
    lost = {tool for tool in old - new if tool[0] not in gained}
    for view in views:
        here = sorted(name for category, name in _tools(view.before) if (category, name) in lost)
        if here:
            yield suspicion(
                "check_removed", view.path, 0, f"{listed(here)} is not run any more", "\n".join(here)
            )


def _command_files(scene: Scene) -> Iterator[View]:
    for view in scene.views:
        if re.search(r"(^|/)(fixtures|testdata)/", view.path):
            continue
        if any(side is not None and runs_commands(side) for side in (view.before, view.after)):
            yield view


def _added(view: View) -> list[Command]:
    return _difference(view.after, view.before)


def _removed(view: View) -> list[Command]:
    return _difference(view.before, view.after)


def _difference(one: Source | None, other: Source | None) -> list[Command]:
    """The commands of one side that the other has not."""
    left = Counter(command.text for command in commands_of(other)) if other else Counter()
    found = []
    for command in commands_of(one) if one else ():
        if left[command.text] > 0:
            left[command.text] -= 1
        else:
            found.append(command)
    return found


def _tools(source: Source | None) -> set[tuple[str, str]]:
    return {tool for command in commands_of(source) for tool in command.tools} if source else set()


def _names(command: Command) -> set[str]:
    """The checks a command runs; of a package script its own name, too."""
    names = {name for _, name in command.tools}
    script = re.match(r"([\w:-]+): ", command.text)
    return names | ({script[1]} if script else set())


def _loses_failure(command: Command, view: View) -> bool:
    text = command.text
    if _BYPASSES.search(text):
        return True
    if command.tools and (_IGNORES.search(text.rstrip("\"',")) or _is_dashed(text, view)):
        return not _FAILS_AFTER.search(text) and not _is_tee_with_pipefail(text, view)
    if _SHELL_TRICKS.search(text):
        return bool(_tools(view.after)) and _is_checking_end(command, view)
    if _STAND_IN.search(text):
        name = _STAND_IN.search(text)
        return name is not None and bool(tools_in(name[1].lower()) or tools_in(name[1]))
    return bool(_FORGIVES.search(text)) and _stands_at_check(command, view)


def _is_dashed(text: str, view: View) -> bool:
    """A line that starts with `-`, by which make and tox go on whatever it ends with."""
    goes_on = view.after is not None and (view.after.language == "make" or view.path.endswith("tox.ini"))
    return goes_on and re.match(r"@?-\s*\w", text) is not None


def _is_tee_with_pipefail(text: str, view: View) -> bool:
    has_tee = re.search(r"\|\s*tee\b", text) is not None
    others = _IGNORES.sub("", text) if not has_tee else re.sub(r"\|\s*tee\b", "", text)
    is_only_tee = has_tee and not _IGNORES.search(others)
    return (
        is_only_tee
        and view.after is not None
        and ("pipefail" in view.after.text or "shell: bash" in view.after.text)
    )


def _is_checking_end(command: Command, view: View) -> bool:
    """An `exit 0` counts when no branch guards it; other tricks always do."""
    if not command.text.strip().startswith("exit 0"):
        return True
    line = view.after.lines[command.line - 1] if view.after and command.line else ""
    return not line.startswith((" ", "\t"))


def _stands_at_check(command: Command, view: View) -> bool:
    """True when the step or job a line belongs to runs a check that the base ran, too."""
    lines = view.after.lines if view.after else []
    at = command.line - 1
    near = _block(lines, at)
    known = _tools(view.before)
    return any(tools_in(line) & known for line in near)


def _block(lines: list[str], at: int) -> list[str]:
    """The lines of the step, or job, around a line."""
    indent = len(lines[at]) - len(lines[at].lstrip(" -"))
    start = at
    while start > 0 and at - start < _NEAR and not _starts_block(lines[start], indent):
        start -= 1
    stop = at + 1
    while (
        stop < len(lines)
        and stop - at < 60
        and (not lines[stop].strip() or _depth(lines[stop]) >= min(indent, _depth(lines[at]) + 2))
    ):
        if (
            lines[stop].lstrip().startswith("- ")
            and _depth(lines[stop]) <= indent
            and _depth(lines[stop]) < indent
        ):
            break
        stop += 1
    return lines[start:stop]


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _starts_block(line: str, indent: int) -> bool:
    stripped = line.strip()
    is_item = stripped.startswith("- ") and _depth(line) < indent
    return bool(stripped) and (is_item or (_depth(line) < indent and stripped.endswith(":")))


def _asks_less(old: str, new: str) -> bool:
    """True when a flag that made the check stricter is gone or gives more room."""
    if set(_STRICT.findall(_plain(old))) - set(_STRICT.findall(_plain(new))) and not _MOST.search(new):
        return True
    least_old, least_new = dict(_LEAST.findall(old)), dict(_LEAST.findall(new))
    if any(float(least_new.get(flag, 0)) < float(value) for flag, value in least_old.items()):
        return True
    most_old, most_new = dict(_MOST.findall(old)), dict(_MOST.findall(new))
    return any(float(most_new.get(flag, "inf")) > float(value) for flag, value in most_old.items())


def _plain(text: str) -> str:
    return re.sub(r"--max-warnings[= ]\d+", "", text)
