"""Holds that a line reads back as its event, and that no line from anywhere does harm."""

import json
from collections.abc import Callable
from hashlib import sha256
from typing import Any, TypeVar

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from remand.domain.events.catalogue import NATIVE, Unknown
from remand.domain.events.event import Event, Meta
from remand.domain.events.reviews import Finding, LockoutSet, ReviewRejected
from remand.domain.events.tasks import TaskAdded, TaskReleased
from remand.ledger import codec
from remand.ledger.problems import BadLine
from remand.testing.builders import H1, NOW, T1, Session, task_added, task_claimed
from tests.support.builders import an_event
from tests.support.strategies import native_events, records

T = TypeVar("T")
DATA = {"title": "Mend", "description": "", "status": "pending", "priority": "low", "category": ""}
LINE = b'{"ts":"2026-01-01T00:00:00Z","event":"task.sing","meta":{"session":"s"},"x":1}'


def stamped(event: Event) -> tuple[Event, bytes]:
    session = Session()
    return session.write(event, at=NOW), session.lines[-1]


def written(event: Event) -> bytes:
    return stamped(event)[1]


def read(line: bytes) -> Event | None:
    """The event, or None when the line is refused with a reason."""
    try:
        return codec.decode_line(line)
    except BadLine as bad:
        if not str(bad):
            raise AssertionError("a line is refused without a reason") from bad
        return None


def forged(name: str = "task.sing", *, ts: str = NOW, meta: dict[str, Any], **fields: Any) -> bytes:
    """A line as one writes it who knows the format, with the right hash whatever stands in it."""

    def line(event_id: str) -> bytes:
        whole = {"event": name, "ts": ts, "meta": {"id": event_id, **meta}, **fields}
        return json.dumps(whole, separators=(",", ":"), ensure_ascii=False).encode()

    return line(sha256(line("")).hexdigest()[:32])


def deep(depth: int, action: Callable[[], T]) -> T:
    return action() if depth == 0 else deep(depth - 1, action)


# Writing and reading.


@pytest.mark.parametrize("kind", NATIVE, ids=lambda kind: str(kind.__struct_config__.tag))
@settings(max_examples=10)
@given(data=st.data())
def test_every_event_reads_back_from_its_line(kind: type[Event], data: st.DataObject) -> None:
    event = data.draw(records(kind))
    if isinstance(event, TaskAdded):
        event = task_added(T1, event.data.title)

    event, line = stamped(event)

    assert (
        codec.decode_line(line) == codec.decode_trusted_line(line) == codec.decode_stored_line(line) == event
    )
    turned = json.dumps(dict(reversed(json.loads(line).items())), ensure_ascii=False).encode()
    assert codec.decode_stored_line(turned) == event
    assert all(codec.decode_stored_line(line, one) == event for one in NATIVE)
    assert codec.stored_id(line) == event.meta.id
    assert {one for one in NATIVE if list(codec.lines_of_kind([line], one))} == {kind}
    assert {one for one in NATIVE if codec.may_have_kinds([line], (one,))} == {kind}
    assert codec.stored_id(turned) in ("", event.meta.id)
    assert all(codec.may_have_kinds([turned], (one,)) for one in NATIVE)
    assert all(list(codec.lines_of_kind([turned], one)) for one in NATIVE)


@given(native_events())
def test_an_events_id_is_the_hash_of_the_rest_of_its_line(event: Event) -> None:
    event, line = stamped(event)
    rest = line.replace(event.meta.id.encode(), b"", 1)

    assert event.meta.id == sha256(rest).hexdigest()[:32] == codec.content_hash(line)


def test_a_line_is_a_superset_of_what_got_tools_write() -> None:
    line = json.loads(written(task_added(T1, "Mend")))

    assert (line["event"], line["ts"], line["id"], line["type"]) == ("node.create", NOW, f"task:{T1}", "TASK")
    assert {"title", "status", "priority", "category", "description"} <= set(line["data"])
    assert {"branch", "session", "id", "seq", "actor"} <= set(line["meta"])


def test_a_line_holds_no_newline_whatever_its_texts_hold() -> None:
    assert b"\n" not in written(task_added(T1, "one\ntwo\r\nthree"))


def test_two_events_alike_at_different_places_have_different_ids() -> None:
    session = Session()

    one, two = (session.write(task_added(), at=NOW) for _ in range(2))

    assert one.meta.id != two.meta.id
    assert two.meta.prev == one.meta.id


def test_an_event_of_a_newer_version_is_kept_whole_and_unread() -> None:
    line = forged("task.sing", meta={"session": "s", "seq": 3}, task_id=T1, song={"key": "C"})

    event = codec.decode_line(line)

    assert isinstance(event, Unknown)
    assert (event.name, event.fields) == ("task.sing", {"task_id": T1, "song": {"key": "C"}})
    assert (event.meta.session, event.meta.seq) == ("s", 3)
    assert codec.decode_stored_line(line) == event


@pytest.mark.parametrize(
    ("name", "fields", "kind"),
    [
        ("task.release", {"task_id": T1, "handoff_id": H1, "agent": "Alice"}, TaskReleased),
        ("node.create", {"id": f"task:{T1}", "type": "TASK", "data": DATA}, TaskAdded),
        ("node.create", {"id": f"task:{T1}", "type": "TASK", "data": {**DATA, "mood": "fine"}}, TaskAdded),
    ],
    ids=["release", "create", "create with more data"],
)
def test_a_field_of_a_newer_version_does_not_hide_the_event(
    name: str, fields: dict[str, Any], kind: type[Event]
) -> None:
    line = forged(name, meta={"session": "s", "seq": 3}, **fields, mood="fine")

    assert type(codec.decode_line(line)) is kind
    assert codec.decode_stored_line(line) == codec.decode_line(line)


def test_a_node_of_another_type_is_no_task() -> None:
    line = forged(
        "node.create", meta={"session": "s", "seq": 1}, id="task:T-1", type="GOAL", data={"title": "x"}
    )

    assert isinstance(codec.decode_line(line), Unknown)


# Events that are too long.


@pytest.mark.parametrize(
    "text", ["x" * 300_000, "🏚" * 100_000, "\x01" * 60_000], ids=["long", "wide", "escaped"]
)
def test_a_text_that_is_too_long_is_cut_and_its_hash_kept(text: str) -> None:
    event, line = stamped(task_added(T1, "Mend", description=text))

    assert len(line) <= codec.MAX_EVENT
    assert codec.decode_line(line) == event
    assert isinstance(event, TaskAdded)
    assert event.data.title == "Mend"
    assert event.data.description.startswith(text[:4096])
    assert sha256(text.encode()).hexdigest() in event.data.description
    assert str(len(text)) in event.data.description


def test_the_longest_texts_are_cut_first() -> None:
    findings = (Finding(text="a" * 200_000), Finding(text="b" * 100_000), Finding(text="c" * 4000))

    event, line = stamped(ReviewRejected(task_id=T1, reviewer="Lead", commit="", findings=findings))

    assert len(line) <= codec.MAX_EVENT
    assert isinstance(event, ReviewRejected)
    assert len(event.findings[0].text) < 10_000
    assert event.findings[1:] == findings[1:]


def test_what_fits_is_not_cut() -> None:
    text = "x" * (codec.MAX_EVENT - 1000)

    event, _ = stamped(task_added(T1, "Mend", description=text))

    assert isinstance(event, TaskAdded)
    assert event.data.description == text


# Lines that are none.


def changed(old: bytes, new: bytes) -> bytes:
    assert old in LINE
    return LINE.replace(old, new)


HOSTILE = {
    "NaN": (changed(b'"x":1', b'"x":NaN'), "NaN"),
    "infinity": (changed(b'"x":1', b'"x":Infinity'), "Infinity"),
    "minus infinity": (changed(b'"x":1', b'"x":-Infinity'), "Infinity"),
    "1e400": (changed(b'"x":1', b'"x":1e400'), "too large"),
    "duplicate key": (changed(b'"x":1', b'"x":1,"x":2'), "twice"),
    "duplicate key inside": (changed(b'"x":1', b'"x":{"a":1,"a":2}'), "twice"),
    "two events in one": (changed(b'"x":1', b'"event":"task.dance"'), "twice"),
    "depth 100,000": (changed(b'"x":1', b'"x":' + b"[" * 100_000 + b"]" * 100_000), "deep"),
    "objects 40,000 deep": (changed(b'"x":1', b'"x":' + b'{"a":' * 40_000 + b"1" + b"}" * 40_000), "deep"),
    "5,000 digits": (changed(b'"x":1', b'"x":' + b"7" * 5000), "number"),
    "lone surrogate": (changed(b'"x":1', b'"x":"\\ud800"'), "surrogate"),
    "lone surrogate in a key": (changed(b'"x":1', b'"\\udfff":1'), "surrogate"),
    "byte order mark": (b"\xef\xbb\xbf" + LINE, "byte order mark"),
    "invalid UTF-8": (changed(b'"x":1', b'"x":"\xff\xfe"'), "UTF-8"),
    "overlong UTF-8": (changed(b'"x":1', b'"x":"\xc0\xaf"'), "UTF-8"),
    "encoded surrogate": (changed(b'"x":1', b'"x":"\xed\xa0\x80"'), "UTF-8"),
    "UTF-16": (LINE.decode().encode("utf-16-le"), "NUL"),
    "NUL": (LINE + b"\x00\x00\x00", "NUL"),
    "NUL in a text": (changed(b'"x":1', b'"x":"a\x00b"'), "NUL"),
    "only NUL": (b"\x00" * 100, "NUL"),
    "number": (b"42", "not a JSON object"),
    "text": (b'"event"', "not a JSON object"),
    "null": (b"null", "not a JSON object"),
    "list": (b"[1, 2]", "not a JSON object"),
    "empty line": (b"", "not JSON"),
    "blank line": (b" \t ", "not JSON"),
    "trailing comma": (changed(b'"x":1', b'"x":1,'), "not JSON"),
    "comment": (LINE + b" // done", "not JSON"),
    "single quotes": (LINE.replace(b'"', b"'"), "not JSON"),
    "torn": (LINE[:-5], "not JSON"),
    "two objects": (LINE + LINE, "not JSON"),
    "raw control character": (changed(b'"x":1', b'"x":"a\x01b"'), "not JSON"),
    "conflict marker ours": (b"<<<<<<< HEAD", "conflict marker"),
    "conflict marker base": (b"||||||| 1a2b3c4", "conflict marker"),
    "conflict marker middle": (b"=======", "conflict marker"),
    "conflict marker theirs": (b">>>>>>> topic", "conflict marker"),
    "too long": (changed(b'"x":1', b'"x":"' + b"x" * 300_000 + b'"'), "bytes long"),
    "no event": (b'{"ts":"2026-01-01T00:00:00Z"}', "not an event"),
    "no time": (b'{"event":"task.sing"}', "not an event"),
    "number for a name": (changed(b'"task.sing"', b"7"), "not an event"),
    "list for a time": (changed(b'"2026-01-01T00:00:00Z"', b"[]"), "not an event"),
    "text for meta": (changed(b'{"session":"s"}', b'"s"'), "not an event"),
    "null for meta": (changed(b'{"session":"s"}', b"null"), "not an event"),
    "no such time": (changed(b"2026-01-01", b"2026-02-30"), "time"),
    "time beyond the calendar": (changed(b"2026-01-01T00:00:00Z", b"0001-01-01T00:00:00+23:59"), "time"),
}


@pytest.mark.parametrize(("line", "message"), HOSTILE.values(), ids=HOSTILE.keys())
def test_a_line_that_is_no_event_is_refused_with_its_reason(line: bytes, message: str) -> None:
    with pytest.raises(BadLine, match=message):
        codec.decode_line(line)


NATIVE_META = {"session": "s", "seq": 1}
RELEASE = {"task_id": T1, "handoff_id": H1, "agent": "Alice"}
FORGED = {
    "true for the number": (forged(meta={"session": "s", "seq": True}), "seq"),
    "huge number": (forged(meta={"session": "s", "seq": 1 << 40}), "number"),
    "number past 64 bits": (forged(meta={"session": "s", "seq": 1 << 64}), "number"),
    "number of 30 digits": (
        forged("task.release", meta={"session": "s", "seq": 10**30}, **RELEASE),
        "number",
    ),
    "no session": (forged(meta={"seq": 1}), "session"),
    "empty session": (forged(meta={"session": "", "seq": 1}), "session"),
    "number for the session": (forged(meta={"session": 5, "seq": 1}), "session"),
    "session with a newline": (forged(meta={"session": "a\nroot /", "seq": 1}), "session"),
    "session with a space": (forged(meta={"session": "a b", "seq": 1}), "session"),
    "long session": (forged(meta={"session": "a" * 1000, "seq": 1}), "session"),
    "null for the predecessor": (forged(meta={**NATIVE_META, "prev": None}), "prev"),
    "list for the actor": (forged(meta={**NATIVE_META, "actor": []}), "actor"),
    "number for the task": (forged("task.release", meta=NATIVE_META, **{**RELEASE, "task_id": 5}), "task_id"),
    "missing field": (forged("task.release", meta=NATIVE_META, task_id=T1), "handoff_id"),
    "true for a number": (forged("task.submit", meta=NATIVE_META, **RELEASE, commit="c", pr=True), "pr"),
    "text for a list": (forged("task.defer", meta=NATIVE_META, task_id=T1, waits_for="T-2"), "waits_for"),
    "list for an object": (
        forged("node.create", meta=NATIVE_META, id=f"task:{T1}", type="TASK", data=[]),
        "data",
    ),
    "another form of time": (forged(ts="2026-01-01T00:00:00Z", meta=NATIVE_META), "time"),
    "a week date": (forged(ts="2026-W46-7T09:00:00.000000Z", meta=NATIVE_META), "time"),
    "spaces between": (forged(meta=NATIVE_META).replace(b",", b", "), "changed"),
}


@pytest.mark.parametrize(("line", "message"), FORGED.values(), ids=FORGED.keys())
def test_a_line_in_our_form_is_refused_with_what_is_wrong_in_it(line: bytes, message: str) -> None:
    with pytest.raises(BadLine, match=message):
        codec.decode_line(line)


@pytest.mark.parametrize("ts", ["2026-01-01T00:00:00Z", "2026-13-01T00:00:00.000000Z", "~"])
def test_a_line_that_is_written_as_ours_needs_a_time_of_our_form(ts: str) -> None:
    meta = Meta(id="", session="20261115-080000-0000000a", seq=1)
    _, line = codec.encode_event(LockoutSet(ts=ts, task_id=T1, agent="Alice"), meta)

    with pytest.raises(BadLine, match="time"):
        codec.decode_line(line)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (b'"agent":"Alice"', b'"agent":"Alice","agent":"Bob"', "twice"),
        (b'"seq":1', b'"seq":1,"seq":2', "twice"),
        (b'"agent":"Alice"', b'"agent":"Alice","mood":NaN', "NaN"),
        (b'"agent":"Alice"', b'"agent":"Alice","mood":1e999', "too large"),
        (b'"agent":"Alice"', b'"agent":"Alice","mood":"\\ud800"', "surrogate"),
        (b'"agent":"Alice"', b'"agent":"Alice","mood":' + b"[" * 100 + b"]" * 100, "deep"),
    ],
    ids=["field twice", "number twice", "NaN", "1e999", "half a pair", "deep"],
)
def test_a_line_in_our_form_holds_nothing_that_readers_take_differently(
    old: bytes, new: bytes, message: str
) -> None:
    line = forged("task.release", meta=NATIVE_META, **RELEASE)
    event_id = json.loads(line)["meta"]["id"].encode()
    changed = line.replace(event_id, b"").replace(old, new, 1)
    forgery = changed.replace(b'"id":""', b'"id":"' + sha256(changed).hexdigest()[:32].encode() + b'"', 1)

    with pytest.raises(BadLine, match=message):
        codec.decode_line(forgery)


def test_a_line_in_our_form_with_its_hash_is_an_event_whoever_wrote_it() -> None:
    assert isinstance(codec.decode_line(forged("task.release", meta=NATIVE_META, **RELEASE)), TaskReleased)
    assert isinstance(codec.decode_line(forged(meta=NATIVE_META)), Unknown)


@pytest.mark.parametrize(
    "text",
    ["\u2028", "\u2029", "\u0085", "\x7f", "🏚", "\N{RIGHT-TO-LEFT OVERRIDE}", "\ufeff", "\\", '"', "</x>"],
)
def test_odd_characters_inside_a_text_are_text(text: str) -> None:
    line = written(task_added(T1, f"a{text}b"))
    raw = json.dumps({**json.loads(LINE), "x": text}, ensure_ascii=False).encode()

    assert codec.decode_line(line).data.title == f"a{text}b"
    assert codec.decode_line(raw).fields["x"] == text


def test_keys_that_mean_something_elsewhere_are_plain_fields() -> None:
    line = changed(b'"x":1', b'"__proto__":{"a":1},"constructor":2,"__class__":3')

    assert codec.decode_line(line).fields == {"__proto__": {"a": 1}, "constructor": 2, "__class__": 3}


# Lines that were changed.


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"Alice"', b'"Mallory"'),
        (b'"seq":2', b'"seq":3'),
        (b'"attempt":1', b'"attempt":2'),
        (b'"branch":"main"', b'"branch":"evil"'),
        (b'"event":"task.claim"', b'"event":"task.steal"'),
        (b"2026-11-15T09:00:00", b"2026-11-15T09:00:01"),
    ],
)
def test_an_event_that_was_changed_is_not_believed(old: bytes, new: bytes) -> None:
    session = Session()
    session.write(task_added())
    session.write(task_claimed("Alice"), at=NOW)
    line = session.lines[-1]
    assert old in line

    with pytest.raises(BadLine, match="was changed after it was written"):
        codec.decode_line(line.replace(old, new, 1))


@pytest.mark.parametrize("damage", [(b'"seq":', b'"sew":'), (b'"seq":1', b'"seq":0'), (b'"id":', b'"ie":')])
@pytest.mark.parametrize("event", [task_added(), task_claimed()], ids=lambda event: event.name)
def test_an_event_of_ours_that_was_damaged_is_not_taken_for_one_of_a_got_tool(
    event: Event, damage: tuple[bytes, bytes]
) -> None:
    with pytest.raises(BadLine):
        codec.decode_line(written(event).replace(*damage, 1))


LINES = [written(an_event(kind)) for kind in NATIVE]


@st.composite
def mutations(draw: st.DrawFn) -> tuple[bytes, bytes]:
    line = draw(st.sampled_from(LINES))
    mutated = bytearray(line)
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.integers(0, len(mutated) - 1))
        match draw(st.sampled_from(["flip", "set", "drop", "insert", "double"])):
            case "flip":
                mutated[place] ^= 1 << draw(st.integers(0, 7))
            case "set":
                mutated[place] = draw(st.sampled_from(b'"{}[],:0123456789aetn\\\x00\xff'))
            case "drop":
                del mutated[place]
            case "insert":
                mutated[place:place] = draw(st.binary(min_size=1, max_size=3))
            case _:
                mutated[place:place] = mutated[place : place + draw(st.integers(1, 20))]
    return line, bytes(mutated)


@given(mutations())
def test_a_changed_line_is_a_bad_line_or_another_event(case: tuple[bytes, bytes]) -> None:
    line, mutated = case
    event = read(mutated)

    if event is not None:
        assert mutated == line or event.meta.id != codec.decode_line(line).meta.id
        assert codec.decode_stored_line(mutated) == event


@given(st.binary(max_size=60) | st.text(max_size=60).map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_any_bytes_are_a_bad_line_or_an_event(line: bytes) -> None:
    assert read(line) is None or read(line) == codec.decode_stored_line(line)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
NAMES = [str(kind.__struct_config__.tag) for kind in NATIVE] + ["handoff.reject", "decision.create"]
FIELDS = [
    "id",
    "type",
    "data",
    "changes",
    "src",
    "tgt",
    "weight",
    "handoff_id",
    "task_id",
    "agent",
    "context",
]


@given(
    st.sampled_from(NAMES),
    st.dictionaries(st.sampled_from(FIELDS), JSON | st.sampled_from(["T-1", "task:T-2", "TASK"])),
    st.dictionaries(st.sampled_from(["session", "branch", "id", "seq"]), JSON),
)
def test_any_json_with_a_name_and_a_time_is_a_bad_line_or_an_event(
    name: str, fields: dict[str, Any], meta: dict[str, Any]
) -> None:
    line = json.dumps({"ts": "2026-01-01T00:00:00Z", "event": name, "meta": meta, **fields}).encode()
    event = read(line)

    assert event is None or codec.decode_stored_line(line) == event


@pytest.mark.parametrize("depth", [10, 50, 100, 200, 400, 800, 900, 960])
def test_a_line_that_was_read_once_is_read_again_however_deep_the_program_is(depth: int) -> None:
    line = changed(b'"x":1', b'"x":' + b"[" * depth + b"]" * depth)
    event = read(line)

    if event is not None:
        assert deep(300, lambda: codec.decode_stored_line(line)) == event


def test_a_node_that_is_no_task_is_no_task_however_it_is_read() -> None:
    line = forged(
        "node.create", meta={"session": "s", "seq": 1, "prev": ""}, id="skill:x", type="SKILL", data={}
    )

    assert isinstance(codec.decode_line(line), Unknown)
    assert isinstance(codec.decode_stored_line(line), Unknown)
    whole = written(task_added())
    other = whole.replace(b'"type":"TASK"', b'"type":"SKILL"')
    assert other != whole
    with pytest.raises(msgspec.ValidationError):
        codec.decode_trusted_line(other)


@pytest.mark.parametrize("seq", [{}, {"seq": 0}])
def test_a_line_without_a_number_is_never_recalled_as_one_of_ours(seq: dict[str, int]) -> None:
    """It may have every field of an event of ours."""
    fields = json.loads(written(task_added()))
    meta = {"session": "s", "branch": "main"}
    line = json.dumps(fields | {"meta": meta}).encode()

    found = codec.decode_stored_line(line)

    assert found == codec.decode_line(line)
    assert found.is_legacy
    assert found.meta.id
    if seq:
        numbered = json.dumps(fields | {"meta": {**fields["meta"], **seq}}).encode()
        with pytest.raises(BadLine):
            codec.decode_stored_line(numbered)
