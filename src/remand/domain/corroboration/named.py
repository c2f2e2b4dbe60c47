"""What an attempt names: commands, programs, places, other names, and what it says came of it."""

from __future__ import annotations

import re
import unicodedata
from itertools import pairwise
from typing import NamedTuple

from remand.domain.corroboration.calls import Call, calls_in, program_name
from remand.domain.corroboration.programs import KNOWN, SUBCOMMANDS, TELLING, WITH_SUBCOMMANDS

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


class Named(NamedTuple):
    """An attempt taken apart. All texts are folded: case, spaces and kinds of quotes do not count."""

    text: str
    commands: tuple[Call, ...] = ()
    """What is written as a command, in quotes."""
    programs: frozenset[str] = frozenset()
    """Programs that are named, as far as their names are no everyday words."""
    orders: tuple[tuple[str, ...], ...] = ()
    """What programs are said to have been told to do: the words that follow their names, as in `compose up`."""
    places: tuple[str, ...] = ()
    """Paths, test ids and addresses."""
    names: frozenset[str] = frozenset()
    """Identifiers, options, codes, figures of three digits and more."""
    words: frozenset[str] = frozenset()
    stated: frozenset[str] = frozenset()
    """Phrases that should stand in the output: quoted texts, figures with their word."""
    phrases: frozenset[str] = frozenset()
    """Pairs of words, and parts of sentences, that may stand in the output."""
    exit_status: int | None = None


def folded(text: str) -> str:
    """A text in which case, spaces and kinds of quotes do not count."""
    return " ".join(unicodedata.normalize("NFKC", text).translate(_SAME).casefold().split())


def named_in(attempt: str) -> Named:
    """Takes an attempt apart."""
    plain = unicodedata.normalize("NFKC", attempt[:MAX_ATTEMPT]).translate(_SAME)
    quoted = [next(filter(None, found)) for found in _QUOTE.findall(plain)]
    commands = [call for text in quoted for call in _commands(text)]
    texts = [text for text in quoted if not _commands(text)]
    tokens = [found.rstrip(".,:;!?%&=-+") for found in _TOKEN.findall(plain)]
    sorter = _Sorter(tuple(filter(None, tokens)))
    text = folded(plain)
    stated = _EXIT.search(text)
    return Named(
        text=text,
        commands=tuple(commands),
        programs=frozenset(sorter.programs),
        orders=tuple(map(tuple, sorter.orders)),
        places=tuple(dict.fromkeys(sorter.places)),
        names=frozenset(sorter.names),
        words=frozenset(_WORD.findall(text)),
        stated=_pairs(text, are_figures=True) | {folded(part) for part in texts if len(part) > 3},
        phrases=_pairs(text, are_figures=False) | _parts(text),
        exit_status=int(stated[1]) if stated and int(stated[1]) < 256 else None,
    )


def _commands(text: str) -> list[Call]:
    """The calls in a quoted text, when it is a command: a known program, or words that only a command has."""
    text = text.strip().removeprefix("$ ").strip()
    words = text.split()
    if not words:
        return []
    name = program_name(words[0])
    is_known = name in KNOWN and (len(words) > 1 or name in TELLING) and not words[0].endswith(":")
    is_called = words[0].startswith("./") or (len(words) > 1 and words[1].startswith("-") and name.isalnum())
    return calls_in(text) if is_known or is_called else []


class _Sorter:
    """Sorts the tokens of an attempt."""

    def __init__(self, tokens: tuple[str, ...]) -> None:
        self.programs: list[str] = []
        self.orders: list[list[str]] = []
        self.places: list[str] = []
        self.names: list[str] = []
        self._before = ""
        self._is_called = False
        """True as long as what is read may belong to a call: behind a program, and its words."""
        for token in tokens:
            self._take(token, token.casefold())

    def _take(self, token: str, lower: str) -> None:
        program = program_name(lower)
        if lower in SUBCOMMANDS and self._before:
            self._order(lower)
        elif program in TELLING and "::" not in token and not _LINE.search(token):
            self.programs.append(program)
            self._before, self._is_called = program, True
        else:
            self._before = program if program in WITH_SUBCOMMANDS else ""
            self._take_argument(token, lower)

    def _order(self, lower: str) -> None:
        """Takes a word that tells the program before it what to do."""
        if self._before in WITH_SUBCOMMANDS:
            self.programs.append(self._before)
            self.orders.append([lower])
            self._before = "…"
        elif self._before == "…":
            self.orders[-1].append(lower)
        self._is_called = True

    def _take_argument(self, token: str, lower: str) -> None:
        if _is_place(lower) or (self._is_called and "/" in lower):
            self.places.append(place(lower))
        elif lower.startswith("--"):
            self.names.append(lower)
        elif not lower.startswith("-"):
            self._is_called = False
            self._take_name(token, lower)

    def _take_name(self, token: str, lower: str) -> None:
        if _LINE.search(lower):
            self.names.append(place(_LINE.sub("", lower)))
        elif _NAME.search(token) and lower not in _GENERIC:
            self.names.append(lower)
        elif _FIGURE.fullmatch(lower) and sum(char.isdigit() for char in lower) >= 3:
            self.names.append(lower.replace(",", ""))


def _is_place(lower: str) -> bool:
    if _URL.match(lower) or "::" in lower:
        return True
    if _LINE.search(lower) and _FILE.fullmatch(_LINE.sub("", lower)):
        return False
    if _ADDRESS.fullmatch(lower) or _FILE.fullmatch(lower):
        return True
    is_rooted = lower.startswith(("./", "../", "~/", "/")) or lower.endswith("/")
    return (is_rooted and any(char.isalpha() for char in lower)) or lower.count("/") > 1


def place(text: str) -> str:
    """A path, test id or address without what does not tell it from others: scheme, `./`, slashes at the ends."""
    bare = _URL.sub("", text.casefold()).removeprefix("www.")
    bare = bare.partition("@")[2] if _URL.match(text.casefold()) and "@" in bare.partition("/")[0] else bare
    while bare.startswith("./"):
        bare = bare[2:]
    return bare.strip("/")


def _pairs(text: str, *, are_figures: bool) -> frozenset[str]:
    """Two words that stand together in an output only when it is about the same."""
    is_telling = _is_figure if are_figures else _is_phrase
    found = (f"{one} {other}" for one, other in pairwise(_WORD.findall(text)) if is_telling(one, other))
    return frozenset(pair for pair in found if pair in text)


def _parts(text: str) -> frozenset[str]:
    """Parts of the sentence that are long enough to be the words of a tool."""
    parts = (part.strip(" .!?'\"`") for part in _BREAK.split(text))
    return frozenset(part for part in parts if len(part) > 11 and " " in part)


def _is_figure(one: str, other: str) -> bool:
    return one.isdigit() != other.isdigit() and len(one) + len(other) > 4


def _is_phrase(one: str, other: str) -> bool:
    is_long = len(one) > 3 and len(other) > 3 and len(one) + len(other) > 10
    return is_long and not one.isdigit() and not other.isdigit()
