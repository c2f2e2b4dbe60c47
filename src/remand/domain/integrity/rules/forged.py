"""Code that writes the reports gates read, or that is hidden in data."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from remand.domain.integrity.catalogue import short, suspicion
from remand.domain.integrity.comparison import Suspicion
from remand.domain.integrity.reading.python_tree import called, resolved, shown
from remand.domain.integrity.reading.source import Source
from remand.domain.integrity.scene import Scene

MAX_TEXT = 2_000
_ASKS_REPORT = re.compile(
    r"junit-?_?xml|xmlpath|--junit|--cov-report|--report\b|JEST_JUNIT|lcov\.info|coverage\.xml|--outputFile"
)
_IS_REPORT = re.compile(
    r"<testsuites?\b|<testcase\b|<coverage\b[^>]*line-rate|<!DOCTYPE coverage|^TAP version|SF:.*\nDA:"
)
_DECODES = frozenset(
    (
        *("base64.b64decode", "bytes.fromhex", "codecs.decode", "zlib.decompress"),
        *("marshal.loads", "base64.b85decode"),
    )
)
_SCRIPT_EVAL = re.compile(
    r"\b(?:eval|Function|execScript)\s*\(\s*(?:atob|Buffer\.from|unescape|decodeURIComponent)\b|new Function\(\s*atob"
)


def reports(scene: Scene) -> Iterator[Suspicion]:
    """Reports made by tests or found by looking at the runner's arguments."""
    for view in scene.views:
        if view.after is None or not view.after.is_code or view.after.language in ("shell", "make"):
            continue
        had = {text for _, text in _reports(view.before)} if view.before else set()
        for line, text in _reports(view.after):
            if text not in had:
                yield suspicion("report_forged", view.path, line, f"`{short(text)}`")


def _reports(source: Source) -> Iterator[tuple[int, str]]:
    if source.tree is not None:
        yield from _python(source)
        return
    if source.is_test and re.search(r"writeFile|createWriteStream|appendFile", source.text):
        for token in source.tokens:
            if token.kind == "string" and (
                _IS_REPORT.search(token.text[:MAX_TEXT]) or _ASKS_REPORT.search(token.text[:MAX_TEXT])
            ):
                yield token.line, token.text


def _python(source: Source) -> Iterator[tuple[int, str]]:
    reads_arguments = "sys.argv" in source.text or ".option." in source.text or "getoption" in source.text
    writes = re.search(r"\bopen\(|write_text|write_bytes|\.write\(", source.text) is not None
    if not writes:
        return
    for attribute in source.every(ast.Attribute):
        if attribute.attr == "xmlpath":
            yield attribute.lineno, shown(attribute)
    for node in source.every(ast.Constant):
        if isinstance(node.value, str) and (
            (_ASKS_REPORT.search(node.value[:MAX_TEXT]) and reads_arguments)
            or (_IS_REPORT.search(node.value[:MAX_TEXT]) and source.is_test)
        ):
            yield node.lineno, node.value


def obfuscated(scene: Scene) -> Iterator[Suspicion]:
    """Data that is decoded and run."""
    for view in scene.views:
        if view.after is None or not view.after.is_code:
            continue
        had = {text for _, text in _hidden(view.before)} if view.before else set()
        for line, text in _hidden(view.after):
            if text not in had:
                yield suspicion("obfuscated", view.path, line, f"`{short(text)}`")


def _hidden(source: Source) -> Iterator[tuple[int, str]]:
    if source.tree is not None:
        for node in source.every(ast.Call):
            if called(node) in ("exec", "eval", "compile", "builtins.exec") and node.args:
                inside = [part for part in ast.walk(node.args[0]) if isinstance(part, ast.Call)]
                if any(_decodes(part, source) for part in inside):
                    yield node.lineno, shown(node)
    elif source.language == "script":
        for number, line in enumerate(source.lines, 1):
            if _SCRIPT_EVAL.search(line[:MAX_TEXT]):
                yield number, line.strip()


def _decodes(call: ast.Call, source: Source) -> bool:
    return resolved(call.func, source.imports) in _DECODES or shown(call.func).endswith(".decode")
