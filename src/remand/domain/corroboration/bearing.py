"""Whether what was run bears an attempt out."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from remand.domain.corroboration.calls import Call, calls_in
from remand.domain.corroboration.named import Named, folded, named_in, place
from remand.domain.corroboration.programs import ABOUT, ORDINARY, WITH_SUBCOMMANDS
from remand.domain.tool_uses import ToolUse

COPIED = 4
"""So many words in a row in common, and a text is a copy of the other."""
NOT_STARTED = (126, 127)
_MARKS = "'\"`()[]{}.,:;!?"
_PARTS = re.compile(r"[\s'\"`()\[\]{},;=|<>]+")


class Ran(NamedTuple):
    """One call of a run, with what it can be recognised by."""

    run: ToolUse
    call: Call
    words: frozenset[str]
    code: frozenset[str]
    output: str
    command: str


def read(runs: Sequence[ToolUse]) -> list[Ran]:
    """The calls of all runs, ready to be held against attempts."""
    return [ran for run in runs for ran in _read(run)]


def borne_out_by(attempt: str, calls: Sequence[Ran]) -> ToolUse | None:
    """The run that bears an attempt out; None when what was run does not fit it.

    Every command that the attempt writes out must have been run, and the places it names must have been met.
    A program's name alone counts only for an attempt that says nothing more. What was merely printed, written
    to a file or handed to this system counts for nothing.
    """
    named = named_in(attempt)
    calls = [_as_far_as_carried_out(ran, named) for ran in calls if not _is_about_itself(ran, named)]
    if not all(any(_is_made(wanted, ran) for ran in calls) for wanted in named.commands):
        return None
    if not _are_met(named.places, calls) or not _are_known(named, calls):
        return None
    return next((ran.run for ran in reversed(calls) if _fits(named, ran)), None)


def _read(run: ToolUse) -> list[Ran]:
    if run.command:
        calls = calls_in(run.command)
    else:
        calls = [Call((run.tool.casefold(),), tuple(path.casefold() for path in run.paths))]
    output, command = folded(run.excerpt), folded(run.command)
    return [
        Ran(run, call, frozenset(map(place, call.words)), _things(call.code), output, command)
        for call in calls
    ]


def _is_about_itself(ran: Ran, named: Named) -> bool:
    """True for a call that only asks a program for its help or version, unless the attempt says so."""
    asked = ABOUT.intersection(ran.call.words)
    return bool(asked) and not asked & named.names


def _as_far_as_carried_out(ran: Ran, named: Named) -> Ran:
    """A call without its code, when that is but a copy of what the attempt says."""
    is_copy = bool(ran.code) and _is_copy(ran.call.code, named.text)
    return ran._replace(code=frozenset()) if is_copy else ran


def _things(code: str) -> frozenset[str]:
    return frozenset(place(part.strip(".:")) for part in _PARTS.split(code) if part)


def _is_copy(text: str, attempt: str) -> bool:
    """True when a text has several words in a row of the attempt's: it was not carried out, but written down."""
    words = _spaced(folded(text))
    told = f" {' '.join(_spaced(attempt))} "
    rows = (" ".join(words[at : at + COPIED]) for at in range(len(words) - COPIED + 1))
    return any(f" {row} " in told for row in rows)


def _spaced(text: str) -> list[str]:
    return [word for part in text.split() if (word := part.strip(_MARKS))]


def _is_made(wanted: Call, ran: Ran) -> bool:
    """True when a call is the one that is written: program, words and long options; short options may differ."""
    needed = {place(word) for word in wanted.words if not word.startswith("-") or word.startswith("--")}
    is_same = wanted.programs[-1] in ran.call.programs
    return is_same and all(any(_is_same_place(word, own) for own in ran.words) for word in needed)


def _are_met(places: Sequence[str], calls: Sequence[Ran]) -> bool:
    """True when both of two places, or two of three, were met in a command or in an output."""
    met = sum(any(_has_place(wanted, ran) or wanted in ran.output for ran in calls) for wanted in places)
    return met >= (len(places) if len(places) < 3 else -(-2 * len(places) // 3))


def _are_known(named: Named, calls: Sequence[Ran]) -> bool:
    """True when half of the identifiers were met, where an attempt has nothing else to be recognised by."""
    if named.places or named.commands or named.programs:
        return True
    wanted = [name for name in named.names if not name.isdigit()]
    met = sum(any(name in _parts(ran) | ran.code or name in ran.output for ran in calls) for name in wanted)
    return 2 * met >= len(wanted)


def _has_place(wanted: str, ran: Ran) -> bool:
    return any(_is_same_place(wanted, own) for own in ran.words | ran.code)


def _is_same_place(wanted: str, own: str) -> bool:
    """True for the same path as seen from another folder, and for a test's file where no other test is named."""
    file, _, test = wanted.partition("::")
    own_file, _, own_test = own.partition("::")
    is_another = bool(test and own_test) and test != own_test
    return wanted == own or (not is_another and _ends_alike(file, own_file))


def _ends_alike(one: str, other: str) -> bool:
    return bool(one and other) and (f"/{one}".endswith(f"/{other}") or f"/{other}".endswith(f"/{one}"))


def _fits(named: Named, ran: Ran) -> bool:
    """True when one call can be what the attempt speaks of."""
    status = ran.run.exit_status
    if named.exit_status is not None and status is not None and status != named.exit_status:
        return False
    if named.programs and not named.programs & set(ran.call.programs):
        return False
    if named.orders and not any(set(order) <= set(ran.call.words) for order in named.orders):
        return False
    has_come = _has_come(named, ran)
    if status in NOT_STARTED and not has_come:
        return False
    return _is_anchored(named, ran, has_come=has_come)


def _is_anchored(named: Named, ran: Ran, *, has_come: bool) -> bool:
    """True when the call itself, and not only its output, is what the attempt names."""
    if any(_is_made(wanted, ran) for wanted in named.commands):
        return True
    is_called = bool(named.programs & set(ran.call.programs))
    if named.places:
        is_there = any(_is_same_place(wanted, own) for wanted in named.places for own in ran.words)
        is_carried_out = has_come and any(wanted in ran.code for wanted in named.places)
        is_told = is_called and any(wanted in ran.output for wanted in named.places)
        return is_there or is_carried_out or is_told
    if named.names & _parts(ran):
        return True
    if is_called:
        has_failed = ran.run.exit_status not in (0, None)
        is_ordered = bool(named.orders) and (has_failed or not named.names)
        is_all = not (named.names or named.stated) and ran.call.programs[-1] not in WITH_SUBCOMMANDS
        return has_come or is_ordered or is_all or _shares_word(named, ran)
    return has_come and ran.call.programs[-1] in named.words and _shares_word(named, ran)


def _parts(ran: Ran) -> frozenset[str]:
    """The words of a call, and the parts of those that have several."""
    parts = (part for word in ran.words for part in re.split(r"[:=/@#,]+", word))
    return ran.words | frozenset(parts)


def _shares_word(named: Named, ran: Ran) -> bool:
    """True when the attempt has one of the call's own words, which is none of those that stand in many calls."""
    return any(len(word) > 3 and word in named.words and word not in ORDINARY for word in ran.words)


def _has_come(named: Named, ran: Ran) -> bool:
    """True when something that the attempt tells stands in the output, and did not stand in the command."""
    told = named.stated | named.phrases | {name for name in named.names if not name.startswith("-")}
    return any(_stands(phrase, ran.output) and not _stands(phrase, ran.command) for phrase in told)


def _stands(phrase: str, text: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(phrase)}(?!\w)", text) is not None if phrase in text else False
