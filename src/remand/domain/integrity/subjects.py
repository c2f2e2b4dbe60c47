"""What product code defines, and what became of it: gone, or only renamed."""

from __future__ import annotations

import re
from collections.abc import Iterable

from remand.domain.integrity.reading.cases import likeness
from remand.domain.integrity.reading.python_tree import walked, without_docstring, words
from remand.domain.integrity.reading.source import Source
from remand.domain.integrity.reading.tokens import NAME

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
ALIKE = 0.75
KEPT = 0.5
"""How much of a removed body may still be found in the product."""
MAX_PAIRS = 20_000
MAX_WORDS = 1_000_000
"""Tokens that are read of the functions of a file, those inside others counted again."""


def defined(sources: Iterable[Source]) -> frozenset[str]:
    """The names of functions, classes, constants, modules, options and routes in some files."""
    found: set[str] = set()
    for source in sources:
        for pattern in (_DEFINED, _METHOD, _CONSTANT, _OPTION):
            found.update(pattern.findall(source.text))
        found.update(f"'{name}'" for name in _COMMAND.findall(source.text))
        found.add(source.path.rpartition("/")[2].partition(".")[0])
    return frozenset(found - _KEYWORDS)


def renamed(gone: frozenset[str], before: list[Source], after: list[Source]) -> frozenset[str]:
    """Those of the gone names whose body lives on under another."""
    old = [(name, bag) for source in before for name, bag in bodies(source) if name in gone]
    kept = {name for source in before for name, _ in bodies(source)}
    new = [bag for source in after for name, bag in bodies(source) if name not in kept]
    if len(old) * len(new) > MAX_PAIRS:
        return frozenset()
    return frozenset(
        name for name, bag in old if len(bag) >= 4 and any(likeness(bag, other) >= ALIKE for other in new)
    )


def dropped_parameters(before: list[Source], after: list[Source]) -> frozenset[str]:
    """The parameters that functions no longer take, and whose names the product does not know any more."""
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


def _signatures(source: Source) -> list[tuple[str, frozenset[str]]]:
    """The functions of a file with the names in their parameters."""
    if source.tree is not None:
        return [
            (
                name,
                frozenset(
                    item.arg for item in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
                ),
            )
            for name, node in source.functions
        ]
    code = source.code
    found = []
    for place, token in enumerate(code.tokens):
        if token.kind == NAME and code.text(place + 1) == "(" and token.text not in _KEYWORDS:
            closing = code.close(place + 1)
            if code.text(closing + 1) in ("{", ":", "->"):
                inside = range(place + 2, closing)
                found.append((token.text, frozenset(code.text(at) for at in inside if code.kind(at) == NAME)))
    return found


def removed(gone: frozenset[str], before: list[Source], after: list[Source]) -> frozenset[str]:
    """Those of the gone names whose bodies are gone, too, and not written out elsewhere."""
    known = frozenset(word for source in after for word in _NAME.findall(source.text))
    return frozenset(
        name
        for source in before
        for name, bag in bodies(source)
        if name in gone and _own(bag) and len(_own(bag) & known) <= KEPT * len(_own(bag))
    )


def _own(bag: frozenset[str]) -> frozenset[str]:
    return frozenset(word for word in bag if len(word) > 3 and _NAME.fullmatch(word))


def bodies(source: Source) -> list[tuple[str, frozenset[str]]]:
    """The functions of a file with the words of their bodies."""
    if source.tree is not None:
        return [
            (name.rpartition(".")[2], words(walked(without_docstring(node.body))))
            for name, node in source.functions
        ]
    code = source.code
    found: list[tuple[str, frozenset[str]]] = []
    left = MAX_WORDS
    for place, token in enumerate(code.tokens):
        if token.kind == NAME and code.text(place + 1) == "(" and token.text not in _KEYWORDS:
            block = code.close(place + 1) + 1
            if code.text(block) == "{" and left > 0:
                left -= code.close(block) - block
                found.append((token.text, code.words(block, code.close(block))))
    return found
