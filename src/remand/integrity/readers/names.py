"""The names that files define, and what becomes of them from one side of a comparison to the other."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from difflib import SequenceMatcher

from remand.integrity.readers.cases import word_similarity
from remand.integrity.readers.python_tree import all_nodes, node_words, parameter_names, without_docstring
from remand.integrity.readers.source import SourceFile
from remand.integrity.readers.tokens import NAME, BracketedCode

_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_DEFINED = re.compile(
    r"\b(?:def|class|fn|func|function|struct|enum|trait|interface|type|const|let|var|static|void|fun)\s+"
    r"(?:\([^)\n]{0,200}\)\s*)?(\w{3,})"
)
_METHOD = re.compile(
    r"^[ \t]+(?:(?:public|private|protected|internal|static|async|get|set|final|override)[ \t]+)*(?:[\w<>\[\]?]+[ \t]+)?(\w{3,})[ \t]*\([^;\n]{0,500}\)[ \t]*[{:]",
    re.MULTILINE,
)
_CONSTANT = re.compile(r"^([A-Za-z_]\w{2,})[ \t]*(?::[^=\n]{1,200})?=", re.MULTILINE)
_OPTION = re.compile(r"[\"'`](--?[a-z][\w-]{2,}|/[\w/{}:<>.-]{2,})[\"'`]")
_COMMAND = re.compile(r"\b(?:add_parser|add_command|subcommand|command)\(\s*[\"'`](\w[\w-]{2,})[\"'`]")
_KEYWORDS = frozenset(("if", "for", "while", "switch", "catch", "return", "function", "elif", "else", "with"))
_NAME = re.compile(r"[A-Za-z_]\w*")
SIMILAR_BODIES = 0.75
KEPT_SHARE = 0.5
"""The share of a removed body that may still be in the product."""
MAX_BODY_PAIRS = 20_000
MAX_WORDS = 1_000_000
"""Limit of tokens read for the functions of a file, counting nested functions again."""


def defined_names(sources: Iterable[SourceFile]) -> frozenset[str]:
    """The names of functions, classes, constants, modules, options and routes in some files."""
    found: set[str] = set()
    for source in sources:
        for pattern in (_DEFINED, _METHOD, _CONSTANT, _OPTION):
            found.update(pattern.findall(source.text))
        found.update(f"'{name}'" for name in _COMMAND.findall(source.text))
        found.update(_field_names(source.code))
        found.add(source.path.rpartition("/")[2].partition(".")[0])
    return frozenset(found - _KEYWORDS)


_QUOTED = re.compile(
    r"[\"'`]([A-Za-z]\w*(?:[._]\w+)+|[A-Z][a-z]+(?:[A-Z][a-z]+)+)[\"'`]|\b([A-Z]\w*Warning)\b"
)
"""A name that the product knows as a text, and the class of a warning."""
MAX_LINES = 6_000
"""Lines of a file, both sides together, up to which its removed lines are looked for."""


def dropped_texts(pairs: Iterable[tuple[SourceFile | None, SourceFile | None]]) -> frozenset[str]:
    """The warnings in lines that were removed, and the names in quotes in those with no others in their place.

    The changed files of the product do not mention them any more.
    """
    found: set[str] = set()
    known = ""
    for before, after in pairs:
        known += after.text if after else ""
        lines = after.lines if after else []
        if before is None:
            continue
        asked = set(_names_in_quotes(before.lines)) - set(_names_in_quotes(lines))
        if not asked or len(before.lines) + len(lines) > MAX_LINES:
            continue
        blocks = SequenceMatcher(None, before.lines, lines).get_opcodes()
        found |= asked & {
            name
            for sign, start, stop, _, _ in blocks
            for name in _names_in_quotes(before.lines[start:stop] if sign in ("delete", "replace") else ())
            if sign == "delete" or name.endswith("Warning")
        }
    return frozenset(name for name in found if name not in known)


def _names_in_quotes(lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        yield from (quoted or warning for quoted, warning in _QUOTED.findall(line))


def _field_names(code: BracketedCode) -> Iterator[str]:
    """The members of types, if their names have several words and so differ from variables."""
    for node in code.nodes_of("property_signature", "field_declaration"):
        name = node.child("name")
        if name is not None and len(name_words(code.text(name.start))) > 1:
            yield code.text(name.start)


def renamed_names(gone: frozenset[str], before: list[SourceFile], after: list[SourceFile]) -> frozenset[str]:
    """The names whose body exists under another name."""
    old = [(name, bag) for source in before for name, bag in function_bodies(source) if name in gone]
    kept = {name for source in before for name, _ in function_bodies(source)}
    new = [bag for source in after for name, bag in function_bodies(source) if name not in kept]
    if len(old) * len(new) > MAX_BODY_PAIRS:
        return frozenset()
    return frozenset(
        name
        for name, bag in old
        if len(bag) >= 4 and any(word_similarity(bag, other) >= SIMILAR_BODIES for other in new)
    )


def dropped_parameters(before: list[SourceFile], after: list[SourceFile]) -> frozenset[str]:
    """Parameters that functions no longer take and whose names the product no longer uses."""
    new = {name: parameters for source in after for name, parameters in _signatures(source)}
    known = frozenset(word for source in after for word in _NAME.findall(source.text))
    return frozenset(
        parameter
        for source in before
        for name, parameters in _signatures(source)
        if name in new and len(new[name]) < len(parameters)
        for parameter in parameters - known
        if len(parameter) > 3
    )


def _signatures(source: SourceFile) -> list[tuple[str, frozenset[str]]]:
    """The functions of a file with the names in their parameters."""
    if source.tree is not None:
        return [(name, parameter_names(node)) for name, node in source.functions]
    code = source.code
    found = []
    for place, token in enumerate(code.tokens):
        if token.kind == NAME and code.text(place + 1) == "(" and token.text not in _KEYWORDS:
            closing = code.closing_place(place + 1)
            if code.text(closing + 1) in ("{", ":", "->"):
                inside = range(place + 2, closing)
                found.append((token.text, frozenset(code.text(at) for at in inside if code.kind(at) == NAME)))
    return found


def removed_names(gone: frozenset[str], before: list[SourceFile], after: list[SourceFile]) -> frozenset[str]:
    """The names whose bodies were removed, too, and are not inlined elsewhere."""
    known = frozenset(word for source in after for word in _NAME.findall(source.text))
    return frozenset(
        name
        for source in before
        for name, bag in function_bodies(source)
        if name in gone
        and _identifiers(bag)
        and len(_identifiers(bag) & known) <= KEPT_SHARE * len(_identifiers(bag))
    )


def _identifiers(bag: frozenset[str]) -> frozenset[str]:
    return frozenset(word for word in bag if len(word) > 3 and _NAME.fullmatch(word))


def function_bodies(source: SourceFile) -> list[tuple[str, frozenset[str]]]:
    """The functions of a file with the words of their bodies."""
    if source.tree is not None:
        return [
            (name.rpartition(".")[2], node_words(all_nodes(without_docstring(node.body))))
            for name, node in source.functions
        ]
    code = source.code
    found: list[tuple[str, frozenset[str]]] = []
    left = MAX_WORDS
    for place, token in enumerate(code.tokens):
        if token.kind == NAME and code.text(place + 1) == "(" and token.text not in _KEYWORDS:
            block = code.closing_place(place + 1) + 1
            if code.text(block) == "{" and left > 0:
                left -= code.closing_place(block) - block
                found.append((token.text, code.words(block, code.closing_place(block))))
    return found


def name_words(name: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(name)]


SHORT = 4
"""Up to this length, a word is often part of another."""


def word_pattern(word: str) -> str:
    """A pattern for a word inside a literal; a short word that is no number must be between quotes or other signs."""
    is_short = len(word) < SHORT and not word.isdigit() and (not word or word.isalnum())
    return rf"\b{re.escape(word)}\b" if is_short else re.escape(word)


MIN_MESSAGE = 12
"""From this length on, a text that the product no longer has is no longer expected of it."""


def is_vanished_text(literal: str, before: list[SourceFile], after: list[SourceFile]) -> bool:
    """True for a message that the product had and no longer has."""
    text = literal.strip("'\"`")
    is_gone = not any(text in source.text for source in after)
    return len(text) >= MIN_MESSAGE and is_gone and any(text in source.text for source in before)
