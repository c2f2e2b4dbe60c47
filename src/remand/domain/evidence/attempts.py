"""Whether an agent's recorded runs support its claimed attempts."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from remand.domain.evidence.shell_calls import (
    COMMON_WORDS,
    HELP_OPTIONS,
    KNOWN_PROGRAMS,
    SUBCOMMANDS,
    UNAMBIGUOUS,
    WITH_SUBCOMMANDS,
    ShellCall,
    parse_calls,
    program_name,
)
from remand.domain.instant import Instant
from remand.domain.record import Record


class ToolUse(Record, kw_only=True):
    """One use of a tool. Its texts are redacted and truncated; the hash is that of the whole output."""

    ts: Instant
    host: str = ""
    session: str = ""
    """The host's own session."""
    agent: str = ""
    task_id: str = ""
    tool: str = ""
    tool_use_id: str = ""
    command: str = ""
    """The command line; empty if the tool is not a shell."""
    paths: tuple[str, ...] = ()
    """The files, patterns or URLs that a tool other than a shell was used on."""
    exit_status: int | None = None
    """None if the host does not report it."""
    output_sha256: str = ""
    output_size: int = 0
    excerpt: str = ""
    """The start and end of the output."""
    duration_ms: int | None = None
    transcript: str = ""
    """The host's own transcript of the session."""
    prev: str = ""
    """The hash of the previous line, which makes changes evident."""


MAX_ATTEMPT = 2000
_CJK = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_TOKEN = re.compile(rf"(?:--?)?(?:[^\W{_CJK}]|[./~*$@])(?:[^\W{_CJK}]|[./~*$@:#+=%?&\-\[\]])*")
_QUOTE = re.compile(r"`([^`\n]{1,300})`|\"([^\"\n]{3,300})\"|(?<!\w)'([^'\n]{3,200})'(?!\w)")
_SAME = str.maketrans("“”„«»「」『』‘’‚`´", '"""""""""\'\'\'``')
_URL = re.compile(r"[a-z][a-z0-9+.-]*://")
_ADDRESS = re.compile(r"(?=[^:]*[a-z])[\w.-]+:\d{2,5}(?:/\S*)?|\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?(?:/\S*)?")
_FILE = re.compile(
    r"[^:]*[\w\]*-]\.(?:py|pyi|ipynb|js|jsx|mjs|cjs|ts|tsx|vue|svelte|go|rs|java|kt|kts|scala|rb|php|pl|lua|c|h|cc|cpp|hpp"
    r"|cs|fs|swift|m|mm|dart|ex|exs|erl|hs|ml|clj|sql|sh|bash|zsh|ps1|bat|toml|yaml|yml|json|jsonl|xml|html|htm|css|scss"
    r"|less|md|rst|txt|log|csv|tsv|parquet|lock|cfg|ini|conf|env|properties|gradle|tf|tfvars|proto|graphql|db|sqlite"
    r"|dockerfile|mk|cmake|zip|gz|tar|whl|jar|pem|crt|key|png|jpg|svg|pdf|docx?|xlsx?)"
)
_LINE = re.compile(r"(?<=[\w\]*])(?::\d+)+$")
_NAME = re.compile(
    r"[a-zà-ÿ][A-Z]|_|[A-Za-z]\.[A-Za-z]|[A-Za-z]\d|\d[A-Za-z]|^--\w|[A-Z]{4}|[A-Z]{2,}[a-rt-z]|[@#=]"
)
_BREAK = re.compile(r"[:;,()→]|->|=>| - | – ")
_WORD = re.compile(rf"[^\W{_CJK}]+|[{_CJK}]+")
_FIGURE = re.compile(r"\d+(?:[.,]\d+)*")
_EXIT = re.compile(
    r"(?:\bexit(?:ed|s)?|\brc|\breturn ?code|\bexit-?code)\W{0,3}(?:(?:code|status|with|mit|avec|con)\W{1,3}){0,2}(\d{1,3})\b"
)
_GENERIC = frozenset({"http", "https", "json", "yaml", "html", "todo", "ascii"})


class AttemptMentions(NamedTuple):
    """A parsed attempt. All texts are folded: case, spaces and kinds of quotes are ignored."""

    text: str
    commands: tuple[ShellCall, ...] = ()
    """Commands written in quotes."""
    programs: frozenset[str] = frozenset()
    """Named programs, unless their names are everyday words."""
    orders: tuple[tuple[str, ...], ...] = ()
    """What programs were told to do: the words after their names, as in `compose up`."""
    places: tuple[str, ...] = ()
    """Paths, test ids and URLs."""
    names: frozenset[str] = frozenset()
    """Identifiers, options, codes, and numbers of three digits or more."""
    words: frozenset[str] = frozenset()
    stated: frozenset[str] = frozenset()
    """Phrases expected in the output: quoted texts, numbers with their word."""
    phrases: frozenset[str] = frozenset()
    """Pairs of words and parts of sentences that may appear in the output."""
    exit_status: int | None = None


def fold_text(text: str) -> str:
    """A text with case, spaces and kinds of quotes normalised."""
    return " ".join(unicodedata.normalize("NFKC", text).translate(_SAME).casefold().split())


def parse_attempt(attempt: str) -> AttemptMentions:
    plain = unicodedata.normalize("NFKC", attempt[:MAX_ATTEMPT]).translate(_SAME)
    quoted = [next(filter(None, found)) for found in _QUOTE.findall(plain)]
    commands = [call for text in quoted for call in _parse_commands(text)]
    texts = [text for text in quoted if not _parse_commands(text)]
    tokens = [found.rstrip(".,:;!?%&=-+") for found in _TOKEN.findall(plain)]
    sorter = _TokenSorter(tuple(filter(None, tokens)))
    text = fold_text(plain)
    stated = _EXIT.search(text)
    return AttemptMentions(
        text=text,
        commands=tuple(commands),
        programs=frozenset(sorter.programs),
        orders=tuple(map(tuple, sorter.orders)),
        places=tuple(dict.fromkeys(sorter.places)),
        names=frozenset(sorter.names),
        words=frozenset(_WORD.findall(text)),
        stated=_word_pairs(text, are_figures=True) | {fold_text(part) for part in texts if len(part) > 3},
        phrases=_word_pairs(text, are_figures=False) | _sentence_parts(text),
        exit_status=int(stated[1]) if stated and int(stated[1]) < 256 else None,
    )


def _parse_commands(text: str) -> list[ShellCall]:
    """The calls in a quoted text if it is a command: a known program, or words that only a command contains."""
    text = text.strip().removeprefix("$ ").strip()
    words = text.split()
    if not words:
        return []
    name = program_name(words[0])
    is_known = (
        name in KNOWN_PROGRAMS and (len(words) > 1 or name in UNAMBIGUOUS) and not words[0].endswith(":")
    )
    is_called = words[0].startswith("./") or (len(words) > 1 and words[1].startswith("-") and name.isalnum())
    return parse_calls(text) if is_known or is_called else []


class _TokenSorter:
    def __init__(self, tokens: tuple[str, ...]) -> None:
        self.programs: list[str] = []
        self.orders: list[list[str]] = []
        self.places: list[str] = []
        self.names: list[str] = []
        self._before = ""
        self._is_called = False
        """True while what is read may belong to a call: behind a program, and its words."""
        for token in tokens:
            lower = token.casefold()
            program = program_name(lower)
            if lower in SUBCOMMANDS and self._before:
                self._order(lower)
            elif program in UNAMBIGUOUS and "::" not in token and not _LINE.search(token):
                self.programs.append(program)
                self._before, self._is_called = program, True
            else:
                self._before = program if program in WITH_SUBCOMMANDS else ""
                if _is_place(lower) or (self._is_called and "/" in lower):
                    self.places.append(normalise_place(lower))
                elif lower.startswith("--"):
                    self.names.append(lower)
                elif not lower.startswith("-"):
                    self._is_called = False
                    if _LINE.search(lower):
                        self.names.append(normalise_place(_LINE.sub("", lower)))
                    elif _NAME.search(token) and lower not in _GENERIC:
                        self.names.append(lower)
                    elif _FIGURE.fullmatch(lower) and sum(char.isdigit() for char in lower) >= 3:
                        self.names.append(lower.replace(",", ""))

    def _order(self, lower: str) -> None:
        """Handles a word that tells the preceding program what to do."""
        if self._before in WITH_SUBCOMMANDS:
            self.programs.append(self._before)
            self.orders.append([lower])
            self._before = "…"
        elif self._before == "…":
            self.orders[-1].append(lower)
        self._is_called = True


def _is_place(lower: str) -> bool:
    if _URL.match(lower) or "::" in lower:
        return True
    if _LINE.search(lower) and _FILE.fullmatch(_LINE.sub("", lower)):
        return False
    if _ADDRESS.fullmatch(lower) or _FILE.fullmatch(lower):
        return True
    is_rooted = lower.startswith(("./", "../", "~/", "/")) or lower.endswith("/")
    return (is_rooted and any(char.isalpha() for char in lower)) or lower.count("/") > 1


def normalise_place(text: str) -> str:
    """A path, test id or URL without its scheme, `./`, and outer slashes."""
    bare = _URL.sub("", text.casefold()).removeprefix("www.")
    bare = bare.partition("@")[2] if _URL.match(text.casefold()) and "@" in bare.partition("/")[0] else bare
    while bare.startswith("./"):
        bare = bare[2:]
    return bare.strip("/")


def _word_pairs(text: str, *, are_figures: bool) -> frozenset[str]:
    """Pairs of adjacent words that appear together in an output only if it is about the same thing."""
    is_telling = _is_figure if are_figures else _is_phrase
    found = (f"{one} {other}" for one, other in pairwise(_WORD.findall(text)) if is_telling(one, other))
    return frozenset(pair for pair in found if pair in text)


def _sentence_parts(text: str) -> frozenset[str]:
    """Parts of the sentence that are long enough to be a tool's words."""
    parts = (part.strip(" .!?'\"`") for part in _BREAK.split(text))
    return frozenset(part for part in parts if len(part) > 11 and " " in part)


def _is_figure(one: str, other: str) -> bool:
    return one.isdigit() != other.isdigit() and len(one) + len(other) > 4


def _is_phrase(one: str, other: str) -> bool:
    is_long = len(one) > 3 and len(other) > 3 and len(one) + len(other) > 10
    return is_long and not one.isdigit() and not other.isdigit()


MIN_COPIED_WORDS = 4
"""A text with this many consecutive words of another counts as copied."""
NOT_STARTED_STATUSES = (126, 127)
_MARKS = "'\"`()[]{}.,:;!?"
_PARTS = re.compile(r"[\s'\"`()\[\]{},;=|<>]+")


class RecordedCall(NamedTuple):
    """One call of a run, with the features by which it is recognised."""

    run: ToolUse
    call: ShellCall
    words: frozenset[str]
    code: frozenset[str]
    output: str
    command: str


def read_calls(runs: Sequence[ToolUse]) -> list[RecordedCall]:
    """The calls of all runs, prepared for comparison with attempts."""
    return [ran for run in runs for ran in _read_use(run)]


def find_supporting_use(attempt: str, calls: Sequence[RecordedCall]) -> ToolUse | None:
    """The run that supports an attempt; None if there is none.

    Every command written in the attempt must have been run, and the places it names must occur. A program's name alone
    counts only for an attempt that says nothing more. Calls that merely print, write to a file or call this system do
    not count.
    """
    named = parse_attempt(attempt)
    calls = [_without_copied_code(ran, named) for ran in calls if not _is_about_itself(ran, named)]
    if not all(any(_is_same_call(wanted, ran) for ran in calls) for wanted in named.commands):
        return None
    if not _are_places_met(named.places, calls) or not _are_names_met(named, calls):
        return None
    return next((ran.run for ran in reversed(calls) if _fits(named, ran)), None)


def _read_use(run: ToolUse) -> list[RecordedCall]:
    if run.command:
        calls = parse_calls(run.command)
    else:
        calls = [ShellCall((run.tool.casefold(),), tuple(path.casefold() for path in run.paths))]
    output, command = fold_text(run.excerpt), fold_text(run.command)
    return [
        RecordedCall(
            run, call, frozenset(map(normalise_place, call.words)), _code_words(call.code), output, command
        )
        for call in calls
    ]


def _is_about_itself(ran: RecordedCall, named: AttemptMentions) -> bool:
    """True for a call that only asks a program for its help or version, unless the attempt says so."""
    asked = HELP_OPTIONS.intersection(ran.call.words)
    return bool(asked) and not asked & named.names


def _without_copied_code(ran: RecordedCall, named: AttemptMentions) -> RecordedCall:
    """A call without its code if that merely copies the attempt's text."""
    is_copy = bool(ran.code) and _is_copy(ran.call.code, named.text)
    return ran._replace(code=frozenset()) if is_copy else ran


def _code_words(code: str) -> frozenset[str]:
    return frozenset(normalise_place(part.strip(".:")) for part in _PARTS.split(code) if part)


def _is_copy(text: str, attempt: str) -> bool:
    """True if a text has several consecutive words of the attempt: it was written down, not carried out."""
    words = _split_words(fold_text(text))
    attempt_words = f" {' '.join(_split_words(attempt))} "
    rows = (" ".join(words[at : at + MIN_COPIED_WORDS]) for at in range(len(words) - MIN_COPIED_WORDS + 1))
    return any(f" {row} " in attempt_words for row in rows)


def _split_words(text: str) -> list[str]:
    return [word for part in text.split() if (word := part.strip(_MARKS))]


def _is_same_call(wanted: ShellCall, ran: RecordedCall) -> bool:
    """True if a call matches the written one: program, words and long options; short options may differ."""
    needed = {
        normalise_place(word) for word in wanted.words if not word.startswith("-") or word.startswith("--")
    }
    is_same = wanted.programs[-1] in ran.call.programs
    return is_same and all(any(_is_same_place(word, own) for own in ran.words) for word in needed)


def _are_places_met(places: Sequence[str], calls: Sequence[RecordedCall]) -> bool:
    """True if both of two places, or two of three, occur in a command or an output."""
    met = sum(any(_has_place(wanted, ran) or wanted in ran.output for ran in calls) for wanted in places)
    return met >= (len(places) if len(places) < 3 else -(-2 * len(places) // 3))


def _are_names_met(named: AttemptMentions, calls: Sequence[RecordedCall]) -> bool:
    """True if half of the identifiers occur, for an attempt without other features."""
    if named.places or named.commands or named.programs:
        return True
    wanted = [name for name in named.names if not name.isdigit()]
    met = sum(
        any(name in _word_parts(ran) | ran.code or name in ran.output for ran in calls) for name in wanted
    )
    return 2 * met >= len(wanted)


def _has_place(wanted: str, ran: RecordedCall) -> bool:
    return any(_is_same_place(wanted, own) for own in ran.words | ran.code)


def _is_same_place(wanted: str, own: str) -> bool:
    """True for the same path seen from another folder, and for a test's file if no other test is named."""
    file, _, test = wanted.partition("::")
    own_file, _, own_test = own.partition("::")
    is_another = bool(test and own_test) and test != own_test
    return wanted == own or (not is_another and _ends_alike(file, own_file))


def _ends_alike(one: str, other: str) -> bool:
    return bool(one and other) and (f"/{one}".endswith(f"/{other}") or f"/{other}".endswith(f"/{one}"))


def _fits(named: AttemptMentions, ran: RecordedCall) -> bool:
    """True if one call can be what the attempt describes."""
    status = ran.run.exit_status
    if named.exit_status is not None and status is not None and status != named.exit_status:
        return False
    if named.programs and not named.programs & set(ran.call.programs):
        return False
    if named.orders and not any(set(order) <= set(ran.call.words) for order in named.orders):
        return False
    has_come = _has_expected_output(named, ran)
    if status in NOT_STARTED_STATUSES and not has_come:
        return False
    return _is_anchored(named, ran, has_come=has_come)


def _is_anchored(named: AttemptMentions, ran: RecordedCall, *, has_come: bool) -> bool:
    """True if the call itself, not only its output, matches the attempt."""
    if any(_is_same_call(wanted, ran) for wanted in named.commands):
        return True
    is_called = bool(named.programs & set(ran.call.programs))
    if named.places:
        is_there = any(_is_same_place(wanted, own) for wanted in named.places for own in ran.words)
        is_carried_out = has_come and any(wanted in ran.code for wanted in named.places)
        is_in_output = is_called and any(wanted in ran.output for wanted in named.places)
        return is_there or is_carried_out or is_in_output
    if named.names & _word_parts(ran):
        return True
    if is_called:
        has_failed = ran.run.exit_status not in (0, None)
        is_ordered = bool(named.orders) and (has_failed or not named.names)
        is_all = not (named.names or named.stated) and ran.call.programs[-1] not in WITH_SUBCOMMANDS
        return has_come or is_ordered or is_all or _shares_word(named, ran)
    return has_come and ran.call.programs[-1] in named.words and _shares_word(named, ran)


def _word_parts(ran: RecordedCall) -> frozenset[str]:
    """The words of a call, and the parts of compound ones."""
    parts = (part for word in ran.words for part in re.split(r"[:=/@#,]+", word))
    return ran.words | frozenset(parts)


def _shares_word(named: AttemptMentions, ran: RecordedCall) -> bool:
    """True if the attempt contains a distinctive word of the call."""
    return any(len(word) > 3 and word in named.words and word not in COMMON_WORDS for word in ran.words)


def _has_expected_output(named: AttemptMentions, ran: RecordedCall) -> bool:
    """True if the output contains something that the attempt states and the command does not contain."""
    expected = named.stated | named.phrases | {name for name in named.names if not name.startswith("-")}
    return any(
        _contains_phrase(phrase, ran.output) and not _contains_phrase(phrase, ran.command)
        for phrase in expected
    )


def _contains_phrase(phrase: str, text: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(phrase)}(?!\w)", text) is not None if phrase in text else False
