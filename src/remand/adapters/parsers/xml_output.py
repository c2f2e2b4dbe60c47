"""A tool's XML, read piece by piece so that neither its size nor its declarations can do harm."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from xml.etree.ElementTree import ParseError, TreeBuilder

from defusedxml.common import DTDForbidden  # type: ignore[import-untyped]  # it comes without types
from defusedxml.ElementTree import DefusedXMLParser, iterparse  # type: ignore[import-untyped]  # as above

from remand.domain.gate.gate import UnreadableReport

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element


MAX_DEPTH = 100


class _Parser(DefusedXMLParser):  # type: ignore[misc]  # its base comes without types
    """Allows a document to name its type, and not to declare anything: no entities, no default attributes."""

    def __init__(self) -> None:
        super().__init__(target=TreeBuilder(), forbid_dtd=True)

    def defused_start_doctype_decl(self, *declared: Any) -> None:
        """Refuses declarations inside the document."""
        if declared[-1]:
            raise DTDForbidden(*declared[:3])


def walk_elements(content: bytes, whole: str) -> Iterator[tuple[str, Element]]:
    """Yields ("start", element) and ("end", element) in order, of elements named `whole` the end alone, complete.

    Nothing is kept of an element once its end was yielded.
    """
    stack: list[Element] = []
    inside = 0
    try:
        for event, element in iterparse(io.BytesIO(content), ("start", "end"), _Parser()):
            if event == "start":
                stack.append(element)
                if len(stack) > MAX_DEPTH:
                    raise UnreadableReport(f"the XML is nested more than {MAX_DEPTH} deep")
                inside += bool(inside or element.tag == whole)
                if not inside:
                    yield event, element
                continue
            stack.pop()
            inside -= bool(inside)
            if not inside:
                yield event, element
                element.clear()
                if stack:
                    stack[-1].remove(element)
    except (ParseError, ValueError, LookupError) as wrong:
        raise UnreadableReport(f"this is not readable XML: {str(wrong)[:200]}") from None
