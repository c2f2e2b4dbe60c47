"""Comments that admit it, and errors that are swallowed."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from remand.domain.integrity.catalogue import short, suspicion
from remand.domain.integrity.comparison import Suspicion
from remand.domain.integrity.paths import is_product_path
from remand.domain.integrity.reading.python_tree import last_name
from remand.domain.integrity.reading.source import Source
from remand.domain.integrity.scene import Scene

_ADMITS = re.compile(
    r"(?:make|makes|making|let|get|keep|so)\s+(?:that\s+)?(?:the\s+|this\s+|these\s+|all\s+)?(?:failing\s+|unit\s+|hidden\s+)?(?:tests?|suite|ci|build|gate|pipeline)\s+(?:happy|pass|green|quiet)"
    r"|hard-?\s?cod(?:e|ed|ing)\b.{0,40}\b(?:tests?|expected|fixture|assert)|special[- ]cas(?:e|ing).{0,30}\btests?\b"
    r"|(?:value|output|answer|result)s?\s+(?:that\s+)?(?:the\s+)?tests?\s+(?:expects?|wants?|checks?|looks? for)"
    r"|just\s+(?:to\s+)?(?:satisfy|please|pass)\s+(?:the\s+)?(?:tests?|linter|checker|gate|ci)|(?:fool|trick|bypass|cheat)\w*\s+(?:the\s+)?(?:tests?|gate|linter|ci|checker|coverage)"
    r"|(?:fake|dummy|stub)\s+(?:value|result|implementation|data)?\s*(?:for|so)\s+(?:the\s+)?tests?\b|only\s+(?:true|used|here)\s+(?:in|for)\s+(?:the\s+)?tests?\s+to\s+pass",
    re.IGNORECASE,
)


def admissions(scene: Scene) -> Iterator[Suspicion]:
    """Comments in product code by which it is there for the tests alone."""
    for view in scene.views:
        if view.after is None or not is_product_path(view.path) or not _ADMITS.search(view.after.text):
            continue
        had = {comment.text for comment in view.before.comments} if view.before else set()
        for comment in view.after.comments:
            if comment.text not in had and _ADMITS.search(comment.text):
                yield suspicion(
                    "admission", view.path, comment.line, f"`{short(comment.text)}`", comment.text
                )
                break


def swallowed(scene: Scene) -> Iterator[Suspicion]:
    """New handlers that catch everything and do nothing: for reviewers to see."""
    for view in scene.views:
        if view.after is None or not is_product_path(view.path):
            continue
        had = len(_handlers(view.before)) if view.before else 0
        found = _handlers(view.after)
        if len(found) > had:
            yield suspicion(
                "exception_swallowed",
                view.path,
                found[-1],
                f"{len(found) - had} more handlers that ignore every error",
            )


def _handlers(source: Source) -> list[int]:
    if source.tree is not None:
        handlers = source.every(ast.ExceptHandler)
        return [
            node.lineno
            for node in handlers
            if _is_broad(node) and all(isinstance(item, ast.Pass) for item in node.body)
        ]
    code = source.code
    return [
        token.line
        for place, token in enumerate(code.tokens)
        if token.text == "catch"
        and source.language == "script"
        and _is_empty(code.close(place + 1) if code.text(place + 1) == "(" else place, source)
    ]


def _is_broad(node: ast.ExceptHandler) -> bool:
    return node.type is None or last_name(node.type) in ("Exception", "BaseException")


def _is_empty(place: int, source: Source) -> bool:
    return source.code.text(place + 1) == "{" and source.code.text(place + 2) == "}"
