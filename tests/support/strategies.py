"""Random events and rejections for Hypothesis."""

from __future__ import annotations

from enum import Enum
from typing import Any, get_args, get_origin, get_type_hints

from hypothesis import strategies as st
from msgspec.structs import replace

from remand.domain.events.catalogue import NATIVE, Unknown
from remand.domain.events.event import Event, Meta
from remand.domain.ids import task_node_id
from remand.domain.reasons import RejectionReason
from remand.domain.record import Record
from remand.domain.rejection import FIELDS
from remand.testing.builders import H1, H2, LATER, MUCH_LATER, NOW, SHA, T1, T2, T3, TREE
from tests.support.builders import OTHER_SHA, V1, V2
from tests.support.rejection_records import LAZY, a_rejection

_TEXTS = {
    "task_id": [T1],
    "handoff_id": [H1, H2, ""],
    "agent": ["Alice", "Bob", "", "\x1e\x1f"],
    "target_agent": ["Alice", "Bob", ""],
    "commit": [SHA, OTHER_SHA, ""],
    "tree": [TREE, "other", ""],
    "lease_expires_at": [LATER, NOW, "", "never"],
    "lapses_at": [LATER, NOW, "", "never"],
    "status": ["done", "cancelled", "completed", "blocked", "deferred", "odd", ""],
    "priority": ["high", "odd"],
    "id": [task_node_id(T1)],
    "src": [task_node_id(T1), task_node_id(T2), "odd"],
    "tgt": [task_node_id(T1), task_node_id(T3), "odd"],
    "type": ["DEPENDS_ON", "BLOCKS", "SIMILAR", "TASK"],
    "review_id": [V1, V2, ""],
    "reviewer": ["Lead", "Tess", "Alice", ""],
    "source": ["", "forge:1", "Alice", "Bob"],
    "target": ["Alice", "Bob", ""],
    "inherited_from": ["", T2],
    "kind": ["reviews", "deadlock", "gates", ""],
    "escalation_id": [f"E-{number}" for number in range(1, 10)],
    "option": ["fix", "reopen", "unlock:Alice", "wontfix", "accept", ""],
    "deadline": [LATER, NOW, "", "never"],
}
"""Likely values by the name of a field. A question's id follows from the number of the event that opened it."""
_OTHER_TEXTS = [
    "",
    "something",
    "#1",
    "\x00\u2028\u0085\N{RIGHT-TO-LEFT OVERRIDE}",
    "🏚" * 10,
    '","meta":{"id":"',
]


def _values(name: str, hint: Any) -> st.SearchStrategy[Any]:
    plain = {
        str: st.sampled_from(_TEXTS.get(name, _OTHER_TEXTS)),
        int: st.integers(-1, 3),
        bool: st.booleans(),
        float: st.just(1.0),
        dict[str, float]: st.dictionaries(st.sampled_from(["tests", "odd"]), st.just(1.0), max_size=1),
    }
    if hint in plain:
        return plain[hint]
    if isinstance(hint, type) and issubclass(hint, Record):
        return records(hint)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return st.sampled_from(hint)
    origin, inner = get_origin(hint), get_args(hint)
    if origin is tuple and inner[-1] is not Ellipsis:
        return st.tuples(*(_values(name, one) for one in inner))
    if origin is tuple:
        item = st.sampled_from([T1, T2, "odd"]) if inner[0] is str else _values(name, inner[0])
        return st.lists(item, max_size=3).map(tuple)
    if origin is dict:
        return st.dictionaries(
            st.sampled_from(["meta", "id", "a"]), st.integers() | st.text("ab"), max_size=2
        )
    if origin is list:
        return st.lists(st.booleans() | st.none(), max_size=2)
    return st.none() | _values(name, inner[0])


def records(kind: type[Record]) -> st.SearchStrategy[Any]:
    """Records of a kind, their fields filled in; an event among them without time and origin."""
    hints = get_type_hints(kind)
    fields = {
        name: _values(name, hints[name]) for name in kind.__struct_fields__ if name not in ("ts", "meta")
    }
    return st.builds(kind, **fields)


def native_events() -> st.SearchStrategy[Event]:
    """Events of any kind of ours."""
    return st.one_of(*(records(kind) for kind in NATIVE))


def with_origin(event: Event, seq: int, at: str = NOW) -> Event:
    """The event as number so-and-so of somebody's session; numbers below 1 are those of GoT tools."""
    return replace(event, ts=at, meta=Meta(id=f"{seq}", seq=seq, actor="Eve"))


def any_events() -> st.SearchStrategy[Event]:
    """Events of any kind, from anywhere."""
    return st.builds(
        with_origin,
        native_events() | st.just(Unknown(kind="odd")),
        st.integers(-3, 9),
        st.sampled_from([NOW, LATER, MUCH_LATER]),
    )


_LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-9, 1 << 40)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from([*_OTHER_TEXTS[:-1], T1, f"task:{T2}", "#42", "src/a.py:3", "2 hours", "nothing"])
    | st.text(max_size=20)
)


def json_values(max_leaves: int = 8) -> st.SearchStrategy[Any]:
    """Anything JSON can say."""
    return st.recursive(
        _LEAVES,
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["type", "data", "source", "probe", "file", "line", "title", "dependencies"]),
                inner,
                max_size=3,
            )
        ),
        max_leaves=max_leaves,
    )


def rejection_records() -> st.SearchStrategy[dict[str, Any]]:
    """Rejections as agents may file them: earned ones, lazy ones, and both with nonsense in some fields."""
    earned = st.sampled_from(RejectionReason).map(a_rejection)
    spoilt = st.dictionaries(st.sampled_from(FIELDS), json_values(), max_size=4)
    sound = st.just(LAZY) | earned
    return st.builds(lambda base, change: {**base, **change}, sound | st.just({}), st.just({}) | spoilt)
