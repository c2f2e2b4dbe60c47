"""Holds which probe a piece of evidence names, and that no piece can name one that does harm."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remand.domain.evidence.probes import (
    MAX_PROBES,
    CommandProbe,
    CommitProbe,
    CountProbe,
    EvidenceProbe,
    FileProbe,
    TaskProbe,
    UnreadableProbe,
    UrlProbe,
    parse_probes,
)
from tests.support.strategies import json_values


def probe(stated: object, **item: Any) -> EvidenceProbe:
    """The probe of one piece of evidence."""
    (found,) = parse_probes([{"type": "log", "data": "x", **item, "probe": stated}])
    return found


@pytest.mark.parametrize(
    ("stated", "expected"),
    [
        ("src/mail.py:31", FileProbe(index=0, path="src/mail.py", line=31)),
        ({"file": "src/mail.py"}, FileProbe(index=0, path="src/mail.py")),
        ({"file": "./src/mail.py", "line": 3, "text": "raise"}, FileProbe(index=0, path="src/mail.py", line=3, text="raise")),
        ({"file": "a.py", "absent": True}, FileProbe(index=0, path="a.py", is_absent=True)),
        ({"file": "a.py", "commit": "c0ffee00"}, FileProbe(index=0, path="a.py", commit="c0ffee00")),
        ({"count": "src/**/*.py", "is": 3}, CountProbe(index=0, pattern="src/**/*.py", expected=3)),
        (
            {"count": "src", "at_least": 2, "containing": "TODO"},
            CountProbe(index=0, pattern="src", at_least=2, containing="TODO"),
        ),
        ({"commit": "c0ffee00"}, CommitProbe(index=0, name="c0ffee00")),
        ({"task": "#42", "status": "Open"}, TaskProbe(index=0, name="#42", status="open")),
        (
            {"command": ["pytest", "-q"], "exit": 1, "text": "failed"},
            CommandProbe(index=0, command=("pytest", "-q"), exit_status=1, text="failed"),
        ),
        ({"command": ["ls"], "exit": 0}, CommandProbe(index=0, command=("ls",), exit_status=0)),
        ({"url": "https://example.org/x", "code": 503}, UrlProbe(index=0, url="https://example.org/x", code=503)),
        ({"url": "http://localhost:1", "code": 0}, UrlProbe(index=0, url="http://localhost:1", code=0)),
        ({"url": "https://example.org", "text": "down"}, UrlProbe(index=0, url="https://example.org", text="down")),
    ],
    ids=str,
)  # fmt: skip
def test_a_probe_is_read_as_it_is_written(stated: object, expected: EvidenceProbe) -> None:
    assert probe(stated) == expected


@pytest.mark.parametrize(
    "stated",
    [
        "",
        "no place at all",
        3,
        [],
        {},
        {"what": "ever"},
        {"file": ""},
        {"file": 7},
        {"file": None},
        {"file": "a.py", "line": -1},
        {"file": "a.py", "line": "3"},
        {"file": "a.py", "line": True},
        {"file": "a.py", "line": 1 << 70},
        {"file": "a.py", "text": 5},
        {"file": "/etc/passwd"},
        {"file": "/etc/passwd", "absent": True},
        {"file": "../../etc/passwd"},
        {"file": "src/../../x", "absent": True},
        {"file": "a\x00b"},
        {"file": "a\nb"},
        {"file": "half \ud800"},
        {"file": "x" * 100_000},
        {"count": "src"},
        {"count": "src", "is": -1},
        {"count": "src", "is": 1.5},
        {"count": "src", "at_least": 1 << 70},
        {"count": 4, "is": 4},
        {"count": "src", "is": 1, "containing": ["x"]},
        {"count": "*" * 100_000, "is": 1},
        {"commit": ""},
        {"commit": None},
        {"commit": "HEAD"},
        {"commit": "--help"},
        {"task": 42},
        {"task": ""},
        {"task": "T-1", "status": "nearly done"},
        {"command": "rm -rf /"},
        {"command": []},
        {"command": [1]},
        {"command": ["pytest"]},
        {"command": ["pytest"], "exit": "1"},
        {"command": ["a\x00b"], "exit": 1},
        {"command": ["x"] * 101, "exit": 1},
        {"command": ["x" * 1001], "exit": 1},
        {"url": "https://example.org", "code": True},
        {"url": "https://example.org", "code": "503"},
        {"url": 5, "code": 503},
        {"url": "http://169.254.169.254/latest"},
    ],
    ids=lambda stated: re.sub(r"[^\x20-\x7e]", "?", str(stated))[:60],
)
def test_what_nobody_can_check_is_no_probe_and_says_why(stated: object) -> None:
    found = probe(stated)

    assert isinstance(found, UnreadableProbe)
    assert found.why


@pytest.mark.parametrize(
    ("item", "place"),
    [
        ({"data": "raises in src/mail.py:31 and elsewhere"}, ("src/mail.py", 31)),
        ({"data": {"a": 1}, "source": "mail.py:7"}, ("mail.py", 7)),
        ({"data": "b.py:2", "source": "a.py:1"}, ("a.py", 1)),
    ],
)
def test_a_place_in_the_text_is_found_and_may_only_corroborate(
    item: dict[str, Any], place: tuple[str, int]
) -> None:
    assert parse_probes([item]) == [FileProbe(index=0, path=place[0], line=place[1], is_stated=False)]


@pytest.mark.parametrize(
    "text", ["at 12:30", "http://host:80", "host.example:25", "10.0.0.1:22", "nothing", "a:b"]
)
def test_a_time_or_an_address_is_no_place(text: str) -> None:
    found = parse_probes([{"data": text}])

    assert all(isinstance(one, FileProbe) and not one.is_stated for one in found)


@pytest.mark.parametrize("evidence", [None, "text", 3, {}, {"a": 1}, [None, 1, "x", [], {}]])
def test_what_is_no_evidence_has_no_probes(evidence: object) -> None:
    assert parse_probes(evidence) == []


def test_only_so_many_pieces_are_looked_at() -> None:
    assert len(parse_probes([{"probe": {"commit": "c0ffee00"}}] * 1000)) == MAX_PROBES


def test_a_probe_knows_which_piece_it_is_of() -> None:
    assert [one.index for one in parse_probes([{}, {"probe": "a.py:1"}, {}, {"probe": {}}])] == [1, 3]


@given(
    st.lists(
        st.fixed_dictionaries({"probe": json_values(), "data": json_values()}) | json_values(), max_size=5
    )
)
def test_no_evidence_whatever_it_is_fails(evidence: list[Any]) -> None:
    for one in parse_probes(evidence):
        assert 0 <= one.index < len(evidence)


@pytest.mark.parametrize("unit", ["+@", "a.", "a/", "a.b:", "@", "-", "../", "::1", "a.py:1"])
def test_a_text_without_end_is_read_in_time(unit: str) -> None:
    assert len(parse_probes([{"data": unit * 100_000, "probe": unit * 100_000}] * MAX_PROBES)) <= MAX_PROBES
    parse_probes([{"data": unit * 100_000, "source": unit * 100_000}] * MAX_PROBES)
