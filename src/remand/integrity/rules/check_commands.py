"""Commands that run checks: removed, narrowed, or with their failure ignored."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from itertools import takewhile

from remand.integrity.changeset import ChangedFile, Changeset
from remand.integrity.readers.cases import without_common, word_similarity
from remand.integrity.readers.command_lines import (
    ShellCommand,
    check_tools_in,
    collecting_commands,
    has_commands,
    read_commands,
    without_tools,
)
from remand.integrity.suspicions import Suspicion, quote_names, shorten, suspicion

_DATA = re.compile(r"(^|/)(fixtures|testdata)/")
_SCRIPT = re.compile(r"([\w:-]+): ")
_KEYS = frozenset(
    ("args", "rev", "repo", "id", "env", "with", "name", "uses", "if", "run", "entry", "files", "exclude")
)
"""Keys of a pipeline or of hooks, which are not names of scripts."""
_EXPRESSION = re.compile(r"\$\{\{.*?\}\}")
"""An expression that a pipeline fills in: its `||` is not the shell's."""


class CommandChange:
    """The commands of one file, base and head; read once for several rules."""

    def __init__(self, view: ChangedFile) -> None:
        self.before, self.after = view.before, view.after
        self.path = view.path
        old, new = (read_commands(side) if side else () for side in (view.before, view.after))
        self.added_commands = without_common(new, old)
        self.removed_commands = without_common(old, new)
        self.command_counts = Counter(name for command in new for name in check_names(command))
        """How many commands of the head there are by each name."""
        self.old_tools = frozenset(tool for command in old for tool in command.tools)
        self.new_tools = frozenset(tool for command in new for tool in command.tools)


def command_changes(changeset: Changeset) -> Iterator[CommandChange]:
    """Every changed file that has commands."""
    for view in changeset.views:
        sides = (view.before, view.after)
        if not _DATA.search(view.path) and any(side is not None and has_commands(side) for side in sides):
            yield CommandChange(view)


def check_names(command: ShellCommand) -> set[str]:
    """The checks that a command runs; for a package script, also the script's name."""
    names = {name for _, name in command.tools}
    script = _SCRIPT.match(command.text)
    return names | ({script[1]} if script and script[1] not in _KEYS else set())


_IGNORES = re.compile(
    r"\|\|\s*(?:/bin/)?(?:true|:|exit\s+0|echo|printf|return\s+0|\{\s*(?:echo|true|:))|;\s*(?:/bin/)?(?:true|exit\s+0|:)\s*[\"']?\s*,?$"
    r"|--exit-zero|--passWithNoTests|--pass-with-no-tests|--no-fail-on|--suppress-tests|--allow-empty|--warn-only"
    r"|--exit-code[= ]0|--quiet-exit|--continue-on-collection-errors|--no-error-on-unmatched|--nowarn|\|\s*tee\b|(?<![&>|])&\s*$"
    r"|--collect-only|--co\b|--setup-plan|\bPYTHONOPTIMIZE=|\bpython[\d.]* -O+\b|success_codes"
)
_FAILS_AFTER = re.compile(r"\|\|.*(?:\bexit\s+(?:[1-9]|\$)|\bfalse\b|\breturn\s+(?:[1-9]|\$)|=1\b|=\$\?)")
_SHELL_TRICKS = re.compile(
    r"^\s*(?:set \+e\b|set \+o (?:errexit|pipefail)|trap\b.*\bexit 0|exit 0$|MAKEFLAGS\s*\+?=.*-i|\.IGNORE\s*:|SHELL\s*:?=.*/true)"
)
_TOOL_STUB = re.compile(
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
_LOOKS_FOR = re.compile(r"\b(?:which|command -v|type -p)\s+[\w./-]+")
"""Asks where a tool is, and runs nothing."""
_IS_CONDITION = re.compile(r"\s*-?\s*if:")
_IS_BLOCK = re.compile(r"\s*-?\s*if:\s*[|>][+-]?\s*$")
"""A condition that stands on the lines below."""
_CONDITION = re.compile(
    r"^\s*-?\s*if:\s*(?!.*(?:always\(\)|cancelled\(\)|failure\(\)|\.draft\b|\b(?:matrix|runner|needs|steps)\.))\S"
)
"""A condition that skips a check for other reasons than the machine or an earlier step."""
_TEE = re.compile(r"\|\s*(?:tee|tail|head|cat|grep|sed|awk|less)\b")
_FALLBACK = re.compile(r"(\|\||\|\s*(?=(?:tail|head|cat|grep|sed|awk|less)\b))")
_ASKS = re.compile(r"(?:-\s+|run:\s*)*if\s+!?\s*\S")
_FAILS = re.compile(
    r"\bexit\s+(?:[1-9]|\$)|\bfalse\b|\breturn\s+(?:[1-9]|\$)|=1\b|=\$\?|::error|\bfail\w*\+|[Ff]ail\w*="
)
_ABOVE, _BELOW = 14, 60
"""How many lines of a step or job are read around one of them."""


def find_ignored_failures(changeset: Changeset) -> Iterator[Suspicion]:
    """New lines that drop a check's failure."""
    for change in command_changes(changeset):
        for command in change.added_commands:
            if _loses_failure(command, change):
                found = f"`{shorten(command.text)}`"
                yield suspicion("failure_ignored", change.path, command.line, found, command.text)


def _loses_failure(command: ShellCommand, change: CommandChange) -> bool:
    text = (
        _EXPRESSION.sub("x", command.text)
        if "run:" in command.text or "${{" in command.text
        else command.text
    )
    if _IS_CONDITION.match(command.text) or _FORGIVES.search(command.text):
        text = command.text
    if _IS_BLOCK.match(text) and change.after is not None:
        text = f"if: {' '.join(_nested_lines(change.after.lines, command.line))}"
    if _BYPASSES.search(text):
        return True
    if _LOOKS_FOR.search(text) and not check_tools_in(_LOOKS_FOR.sub("", text)):
        return False
    if command.tools and (
        _IGNORES.search(text.rstrip("\"',")) or _has_ignoring_dash(text, change) or _is_failure_replaced(text)
    ):
        return not _FAILS_AFTER.search(text) and not _keeps_status(text, change)
    if command.tools and _ends_in_other_command(text, change):
        return True
    if _ASKS.match(text) and command.tools:
        return not _fails_inside(command, change)
    if _SHELL_TRICKS.search(text):
        return bool(change.new_tools) and _is_unguarded(command, change)
    stand_in = _TOOL_STUB.search(text)
    if stand_in:
        return bool(check_tools_in(stand_in[1].lower()))
    if _CONDITION.search(text) and not _FORGIVES.search(text):
        return not _excludes_new_action(text, change) and _is_at_last_check(command, change)
    return bool(_FORGIVES.search(text)) and _is_at_check(command, change)


def _nested_lines(lines: list[str], at: int) -> list[str]:
    """The lines below one that are indented more."""
    indent = _indentation(lines[at - 1])
    inside = takewhile(lambda line: not line.strip() or _indentation(line) > indent, lines[at:])
    return [line.strip() for line in inside if line.strip()]


_OTHER_ACTION = re.compile(r"\bif:\s*(?:\$\{\{\s*)?github\.event\.action\s*!=\s*'(\w+)'\s*(?:\}\})?\s*$")


def _excludes_new_action(text: str, change: CommandChange) -> bool:
    """True for a condition that is false only on an action for which the base ran nothing."""
    action = _OTHER_ACTION.search(text)
    usual = ("opened", "synchronize", "reopened")
    return (
        action is not None
        and action[1] not in usual
        and (change.before is None or not re.search(rf"\b{action[1]}\b", change.before.text))
    )


def _is_failure_replaced(text: str) -> bool:
    """True if something else may succeed in a check's place: `jest || node report.js`, `pytest | tail`."""
    check, sign, rest = _FALLBACK.split(text, maxsplit=1) if _FALLBACK.search(text) else (text, "", "")
    if not sign or not check_tools_in(check):
        return False
    return not check_tools_in(rest) if sign.strip() == "||" else True


def _ends_in_other_command(text: str, change: CommandChange) -> bool:
    """True if a command after a check decides the line's status, and no shell stops at the first failure."""
    is_lenient = change.path.endswith("package.json") or (
        change.after is not None and change.after.language == "make"
    )
    parts = text.rstrip("\"', ").split(";")
    return (
        is_lenient
        and len(parts) > 1
        and bool(check_tools_in(";".join(parts[:-1])))
        and not check_tools_in(parts[-1])
    )


def _fails_inside(command: ShellCommand, change: CommandChange) -> bool:
    """True if one of the branches of an `if` on a check makes the run fail."""
    lines = change.after.lines[command.line - 1 : command.line + _BELOW] if change.after else []
    end = next((at for at, line in enumerate(lines) if re.search(r"(^|[\s;])fi\b", line)), len(lines))
    return any(_FAILS.search(line) for line in lines[: end + 1])


def _has_ignoring_dash(text: str, change: CommandChange) -> bool:
    """True for a line that starts with `-`, which makes make and tox ignore its status."""
    takes_dash = change.path.endswith("tox.ini") or (
        change.after is not None and change.after.language == "make"
    )
    return takes_dash and re.match(r"@?-\s*\w", text) is not None


def _keeps_status(text: str, change: CommandChange) -> bool:
    """True for a pipe only into `tee`, if a pipe fails with its first command."""
    if not _TEE.search(text) or _IGNORES.search(_TEE.sub("", text)):
        return False
    return change.after is not None and (
        "pipefail" in change.after.text or "shell: bash" in change.after.text
    )


def _is_unguarded(command: ShellCommand, change: CommandChange) -> bool:
    """True except for an `exit 0` inside a branch."""
    line = change.after.lines[command.line - 1] if change.after and command.line else ""
    return not command.text.startswith("exit 0") or not line.startswith((" ", "\t"))


def _is_at_check(command: ShellCommand, change: CommandChange) -> bool:
    """True if a line's step or job runs a check that the base also ran."""
    near = _step_lines(change.after.lines, command.line - 1) if change.after else []
    return bool(change.old_tools) and any(check_tools_in(line) & change.old_tools for line in near)


def _is_at_last_check(command: ShellCommand, change: CommandChange) -> bool:
    """True if a check that the base ran is run nowhere else in the file."""
    if change.after is None:
        return False
    near = _step_lines(change.after.lines, command.line - 1)
    inside = Counter(tool for line in near for tool in check_tools_in(line))
    everywhere = Counter(tool for line in change.after.lines for tool in check_tools_in(line))
    return any(inside[tool] and inside[tool] >= everywhere[tool] for tool in change.old_tools)


def _step_lines(lines: list[str], at: int) -> list[str]:
    """The lines of the step, or job, around a line."""
    indent = len(lines[at]) - len(lines[at].lstrip(" -"))
    start = at
    while start > max(0, at - _ABOVE) and not _starts_block(lines[start], indent):
        start -= 1
    stop = at + 1
    while stop < min(len(lines), at + _BELOW) and not _ends_block(lines[stop], indent):
        stop += 1
    return lines[start:stop]


def _indentation(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _starts_block(line: str, indent: int) -> bool:
    stripped = line.strip()
    return (
        bool(stripped)
        and _indentation(line) < indent
        and (stripped.startswith("- ") or stripped.endswith(":"))
    )


def _ends_block(line: str, indent: int) -> bool:
    return bool(line.strip()) and _indentation(line) < indent


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
"""The files and folders that a command names."""


def find_narrowed_checks(changeset: Changeset) -> Iterator[Suspicion]:
    """Checks replaced by one that covers or requires less."""
    for change in command_changes(changeset):
        for command in change.added_commands:
            code = _command_code(command, change)
            if code:
                yield suspicion(code, change.path, command.line, f"`{shorten(command.text)}`", command.text)


def _command_code(command: ShellCommand, change: CommandChange) -> str:
    """The code of the suspicion for a new command; empty if there is none."""
    if _ADDOPTS.search(command.text):
        return "tests_left_out"
    names = check_names(command)
    kin = [item for item in change.removed_commands if names & check_names(item)]
    old = max(kin, key=lambda item: _likeness(item, command), default=None)
    if old is None:
        return ""
    if set(_LEAVES_OUT.findall(command.text)) - set(_LEAVES_OUT.findall(old.text)):
        return "tests_left_out"
    is_single = all(change.command_counts[name] == 1 for name in check_names(command))
    is_build = re.match(r"(build|dev|start|watch|serve|release|docs?|prepare)[:\w-]*: ", command.text)
    if is_single and not (is_build and not command.tools) and _looks_at_less(old.text, command.text):
        return "tests_left_out"
    return "threshold_lowered" if _asks_less(old.text, command.text) else ""


def _likeness(one: ShellCommand, other: ShellCommand) -> float:
    return word_similarity(frozenset(one.text.split()), frozenset(other.text.split()))


def _looks_at_less(old: str, new: str) -> bool:
    """True if a runner gets part of its earlier paths, or paths where it had none."""
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
    """True if a flag that made the check stricter is gone or allows more."""
    if set(_STRICT.findall(old)) - set(_STRICT.findall(new)) or set(_LENIENT.findall(new)) - set(
        _LENIENT.findall(old)
    ):
        return True
    least_old, least_new = dict(_LEAST.findall(old)), dict(_LEAST.findall(new))
    if any(float(least_new.get(flag, 0)) < float(value) for flag, value in least_old.items()):
        return True
    most_old, most_new = dict(_MOST.findall(old)), dict(_MOST.findall(new))
    return any(float(most_new.get(flag, "inf")) > float(value) for flag, value in most_old.items())


_SAME_TOOLS = (
    frozenset(("ruff", "ruff-check", "ruff-format", "black --check", "isort --check", "flake8")),
    frozenset(("pre-commit run", "prek run")),
    frozenset(("mypy", "pyright", "basedpyright", "ty", "pyrefly")),
)


def _is_still_run(tool: tuple[str, str], new: set[tuple[str, str]]) -> bool:
    """True if a check runs under another name, or by the tool that replaced it."""
    names = {name for category, name in new if category == tool[0]}
    if tool[1] == "cargo build" and any(name == "cargo test" for _, name in new):
        return True  # It builds what it tests.
    return any(tool[1] in family and family & names for family in _SAME_TOOLS) or any(
        name.startswith(f"{tool[1]}-") for name in names
    )


def find_removed_checks(changeset: Changeset) -> Iterator[Suspicion]:
    """Checks that commands ran on the base and none runs now."""
    changes = list(command_changes(changeset))
    had = {
        part
        for change in changes
        for command in change.removed_commands
        if check_names(command)
        for part in collecting_commands(command.text)
    }
    if any(
        collecting_commands(command.text) - had for change in changes for command in change.added_commands
    ):
        return
    old = {tool for change in changes for tool in change.old_tools}
    new = {tool for change in changes for tool in change.new_tools}
    gained = {category for category, _ in new - old}
    lost = {tool for tool in old - new if tool[0] not in gained and not _is_still_run(tool, new)}
    for change in changes:
        here = sorted(name for category, name in change.old_tools if (category, name) in lost)
        if here:
            found = f"{quote_names(here)} is not run any more"
            yield suspicion("check_removed", change.path, 0, found, "\n".join(here))
