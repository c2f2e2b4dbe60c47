"""What a task's page makes of a diff."""

from typing import Any

import pytest

from remand.domain import commands as c
from remand.domain.access.tokens import Caller, TokenRole
from remand.interfaces.http.pages.page import PageAddress, PageQuery
from remand.interfaces.http.pages.task import MAX_ENTRIES, LineFinding, _entries, parse_diff, read_prompt
from remand.interfaces.http.problems import HttpProblem
from tests.support.builders import FakeLedger

DIFF = """diff --git a/src/limits.py b/src/limits.py
index 111..222 100644
--- a/src/limits.py
+++ b/src/limits.py
@@ -3,3 +3,4 @@ def allow
 first
-second
+other
+third
 last
diff --git a/docs/gone.md b/docs/gone.md
deleted file mode 100644
--- a/docs/gone.md
+++ /dev/null
@@ -1 +0,0 @@
--- a line that looks like a header
"""


def test_findings_stand_beside_the_lines_that_they_name() -> None:
    at_line, of_file = LineFinding("Lead", "wrong", True), LineFinding("lint", "style", False)

    code, gone = parse_diff(DIFF, {("src/limits.py", 5): [at_line], ("src/limits.py", 99): [of_file]})

    assert [(line.kind, line.old, line.new, line.text) for line in code.lines[1:]] == [
        ("same", 3, 3, "first"),
        ("cut", 4, 0, "second"),
        ("add", 0, 4, "other"),
        ("add", 0, 5, "third"),
        ("same", 5, 6, "last"),
    ]
    assert [line.text for line in code.lines if line.findings == (at_line,)] == ["third"]
    assert code.findings == (of_file,)
    assert (gone.path, gone.added, gone.removed) == ("docs/gone.md", 0, 1)
    assert gone.lines[-1].text == "-- a line that looks like a header"


def test_of_a_long_story_the_newest_is_shown() -> None:
    (added,) = FakeLedger().ask(c.AddTask(title="x")).events

    assert len(list(_entries("T-1", [added] * 3 * MAX_ENTRIES, lambda *_: ()))) == MAX_ENTRIES


def test_no_agent_reads_a_prompt_where_no_receipt_is_recorded() -> None:
    nothing: Any = None
    for role in (TokenRole.AGENT, TokenRole.HOST):
        with pytest.raises(HttpProblem, match="remand task prompt"):
            read_prompt(PageQuery(nothing, nothing, Caller(member="x", role=role), PageAddress("/")))
