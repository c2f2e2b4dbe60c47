"""Commands that check, and whose failure is lost."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from remand.domain.integrity.catalogue import short, suspicion
from remand.domain.integrity.commands import CommandChange, command_changes
from remand.domain.integrity.comparison import Suspicion
from remand.domain.integrity.reading.commands import Command, tools_in
from remand.domain.integrity.scene import Scene

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
_CONDITION = re.compile(
    r"^\s*-?\s*if:\s*(?!.*(?:always\(\)|cancelled\(\)|failure\(\)|\.draft\b|\b(?:matrix|runner|needs|steps)\.))\S"
)
"""A condition that leaves a check out by more than the machine, or what ran before it."""
_TEE = re.compile(r"\|\s*(?:tee|tail|head|cat|grep|sed|awk|less)\b")
_OTHERWISE = re.compile(r"(\|\||\|\s*(?=(?:tail|head|cat|grep|sed|awk|less)\b))")
_ASKS = re.compile(r"(?:-\s+|run:\s*)*if\s+!?\s*\S")
_FAILS = re.compile(
    r"\bexit\s+(?:[1-9]|\$)|\bfalse\b|\breturn\s+(?:[1-9]|\$)|=1\b|=\$\?|::error|\bfail\w*\+|[Ff]ail\w*="
)
_ABOVE, _BELOW = 14, 60
"""Lines of a step or job that are looked at around one of them."""


def ignored(scene: Scene) -> Iterator[Suspicion]:
    """New lines by which a check's failure is lost."""
    for change in command_changes(scene):
        for command in change.added:
            if _loses_failure(command, change):
                found = f"`{short(command.text)}`"
                yield suspicion("failure_ignored", change.path, command.line, found, command.text)


def _loses_failure(command: Command, change: CommandChange) -> bool:
    text = command.text
    if _BYPASSES.search(text):
        return True
    if command.tools and (
        _IGNORES.search(text.rstrip("\"',")) or _is_dashed(text, change) or _is_replaced(text)
    ):
        return not _FAILS_AFTER.search(text) and not _keeps_status(text, change)
    if command.tools and _ends_otherwise(text, change):
        return True
    if _ASKS.match(text) and command.tools:
        return not _fails_inside(command, change)
    if _SHELL_TRICKS.search(text):
        return bool(change.new_tools) and _is_unguarded(command, change)
    stand_in = _STAND_IN.search(text)
    if stand_in:
        return bool(tools_in(stand_in[1].lower()))
    if _CONDITION.search(text) and not _FORGIVES.search(text):
        return _stands_at_last_check(command, change)
    return bool(_FORGIVES.search(text)) and _stands_at_check(command, change)


def _is_replaced(text: str) -> bool:
    """True when something else may succeed in a check's place: `jest || node report.js`, `pytest | tail`."""
    check, sign, rest = _OTHERWISE.split(text, maxsplit=1) if _OTHERWISE.search(text) else (text, "", "")
    if not sign or not tools_in(check):
        return False
    return not tools_in(rest) if sign.strip() == "||" else True


def _ends_otherwise(text: str, change: CommandChange) -> bool:
    """True where another command after a check says how the line ends, and no shell stops at the first failure."""
    is_lenient = change.path.endswith("package.json") or (
        change.after is not None and change.after.language == "make"
    )
    parts = text.rstrip("\"', ").split(";")
    return is_lenient and len(parts) > 1 and bool(tools_in(";".join(parts[:-1]))) and not tools_in(parts[-1])


def _fails_inside(command: Command, change: CommandChange) -> bool:
    """True when a check that an `if` asks for is made to fail the run in one of its branches."""
    lines = change.after.lines[command.line - 1 : command.line + _BELOW] if change.after else []
    end = next((at for at, line in enumerate(lines) if re.search(r"(^|[\s;])fi\b", line)), len(lines))
    return any(_FAILS.search(line) for line in lines[: end + 1])


def _is_dashed(text: str, change: CommandChange) -> bool:
    """True for a line that starts with `-`, by which make and tox go on whatever it ends with."""
    goes_on = change.path.endswith("tox.ini") or (
        change.after is not None and change.after.language == "make"
    )
    return goes_on and re.match(r"@?-\s*\w", text) is not None


def _keeps_status(text: str, change: CommandChange) -> bool:
    """True for a pipe into `tee`, and nothing else, where a pipe fails with its first command."""
    if not _TEE.search(text) or _IGNORES.search(_TEE.sub("", text)):
        return False
    return change.after is not None and (
        "pipefail" in change.after.text or "shell: bash" in change.after.text
    )


def _is_unguarded(command: Command, change: CommandChange) -> bool:
    """True but for an `exit 0` that some branch guards."""
    line = change.after.lines[command.line - 1] if change.after and command.line else ""
    return not command.text.startswith("exit 0") or not line.startswith((" ", "\t"))


def _stands_at_check(command: Command, change: CommandChange) -> bool:
    """True when the step or job a line belongs to runs a check that the base ran, too."""
    near = _block(change.after.lines, command.line - 1) if change.after else []
    return bool(change.old_tools) and any(tools_in(line) & change.old_tools for line in near)


def _stands_at_last_check(command: Command, change: CommandChange) -> bool:
    """True when a check that the base ran is run nowhere else in the file."""
    if change.after is None:
        return False
    near = _block(change.after.lines, command.line - 1)
    inside = Counter(tool for line in near for tool in tools_in(line))
    everywhere = Counter(tool for line in change.after.lines for tool in tools_in(line))
    return any(inside[tool] and inside[tool] >= everywhere[tool] for tool in change.old_tools)


def _block(lines: list[str], at: int) -> list[str]:
    """The lines of the step, or job, around a line."""
    indent = len(lines[at]) - len(lines[at].lstrip(" -"))
    start = at
    while start > max(0, at - _ABOVE) and not _starts_block(lines[start], indent):
        start -= 1
    stop = at + 1
    while stop < min(len(lines), at + _BELOW) and not _ends_block(lines[stop], indent):
        stop += 1
    return lines[start:stop]


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _starts_block(line: str, indent: int) -> bool:
    stripped = line.strip()
    return bool(stripped) and _depth(line) < indent and (stripped.startswith("- ") or stripped.endswith(":"))


def _ends_block(line: str, indent: int) -> bool:
    return bool(line.strip()) and _depth(line) < indent
