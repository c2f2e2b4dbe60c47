"""By what a function of JavaScript, TypeScript, Go or Rust chooses its special answers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cached_property

from remand.domain.text.words import word_set
from remand.integrity.braced_answers import ADDING, CHANGES, NAME_KINDS, SIGNS, BracedAnswers
from remand.integrity.readers.tokens import NUMBER, STRING, Node

_SUMS = frozenset(("+", "-", "*", "%", "^", "&", "|", "<<", ">>"))
_MEASURES = frozenset(("len", "count", "reduce", "fold", "sum", "charcodeat", "codepointat"))
_PATTERNS = word_set("""
test match matchAll search exec is_match find MatchString FindString FindStringSubmatch startsWith endsWith charAt at
starts_with ends_with strip_prefix strip_suffix HasPrefix HasSuffix Contains ContainsRune ContainsAny Index IndexByte
IndexRune LastIndex includes indexOf lastIndexOf contains slice substring substr split_at nth first last char_indices
""")
"""What asks for a part of a text, or for its form."""
_SWITCHES = frozenset(("switch_statement", "expression_switch_statement", "match_expression"))
_DIGESTS = ("hash", "sum32", "sum64", "checksum", "digest", "crc", "sha1", "sha256", "md5", "fnv", "adler")
_CHOICES = word_set("""
if_statement if_expression ternary_expression switch_statement expression_switch_statement match_expression
switch_case expression_case while_statement
""")
_FIGURE = re.compile(r"-?\d[\d_.]+\w*|(?=.*\d)(?![A-Za-z]+[-_./]?v?\d{1,3}$).*\D.*|.*\w\s+\w.*", re.DOTALL)
_VALUE = re.compile(r"""-?\d[\w.]*|"[^"]*"|'[^']*'|true|false""")
_COUNTS = re.compile(r"fetch_(?:add|sub)|Add|Inc|Dec|replace|set|with")
MIN_LETTERS = MIN_VALUES = 2


class KeyedAnswers(BracedAnswers):
    """A function's answers with what the special ones are asked by."""

    @property
    def is_keyed_oddly(self) -> bool:
        """True when it chooses a special answer by what was worked out of the question: its length, a digest, how often it was asked."""
        return any(
            self._is_spelt(one.node) or any(map(self._is_odd, self._keys_of(one.node, frozenset())))
            for one in self._special
        )

    @property
    def is_counted(self) -> bool:
        """True when it chooses a special answer by how often something was asked."""
        return any(
            self._mentions_counter(key, frozenset())
            for one in self._special
            for key in self._keys_of(one.node, frozenset())
        )

    @property
    def is_replayed(self) -> bool:
        """True when its answers stand in the code, and how often it was called chooses among them; not in a cycle."""
        names = self._counters | self._changed_names
        keys = [key for one in self._special for key in self._keys_of(one.node, frozenset())]
        return not self.general and any(
            (self._names_in(key) & names or self._mentions_counter(key, frozenset()))
            and all(self._code.text(at) != "%" for at in range(key.start, key.stop))
            for key in keys
        )

    def _mentions_counter(self, key: Node, seen: frozenset[str]) -> bool:
        names = self._names_in(key) - seen
        return bool(names & self._counters) or any(
            self._mentions_counter(value, seen | names)
            for name in names
            for value in self._assigned.get(name, ())
        )

    @property
    def is_keyed_by_form(self) -> bool:
        """True when it chooses special answers by parts or the form of a text, or by where it is in another."""
        return any(
            self._matched_slice(one.node) is not None
            or any(map(self._asks_form, self._keys_of(one.node, frozenset())))
            for one in self._special
        )

    def _asks_form(self, key: Node) -> bool:
        """True for a question about a part of a text: a prefix, a pattern, a letter; or about where it is in another."""
        for one in key.walk():
            if one.kind in ("subscript_expression", "index_expression") and self._depends(one.children[0]):
                return True
            called = one.child("function") if one.kind == "call_expression" else None
            if called is None or self._code.text(called.stop - 1) not in _PATTERNS:
                continue
            owner = called.children[0] if called.children else called
            if self._depends(owner) or (self._depends(one) and not self._is_table(owner)):
                return True
            if self._is_lookup(one) and self._is_text(owner):
                return True
        return False

    @property
    def identity_count(self) -> int:
        """How many special answers are chosen by one exact length, digest, sum or count, or by several exact values at once."""
        return sum(
            (bool(self.general) and self._is_joint(one.node))
            or any(self._is_identity(key) for key in self._keys_of(one.node, frozenset()))
            for one in self._special
        )

    def _is_joint(self, node: Node) -> bool:
        """True for the answer to `(90, 2, true)`, and to `a == 90 && b == 2`: to several values, with a number."""
        for above, below in node.ancestors(self._body):
            pattern = above.child("pattern") if above.kind == "match_arm" else None
            if pattern is not None and above.child("value") is below:
                parts = [
                    one for part in pattern.walk() if part.kind == "tuple_pattern" for one in part.children
                ]
                values = [self._code.node_text(one) for one in parts]
            elif below.field in ("consequence", "") and (
                asked := above.child("condition") or above.child("value")
            ):
                if "||" in {self._code.text(at) for at in range(asked.start, asked.stop)}:
                    continue
                compared = [
                    one for one in asked.walk() if one.kind == "binary_expression" and len(one.children) > 1
                ]
                values = [
                    self._code.node_text(side)
                    for one in compared
                    if self._code.text(one.children[0].stop) in ("==", "===")
                    for side in one.children[:2]
                ]
            else:
                continue
            written = [one for one in values if _VALUE.fullmatch(one)]
            if len(written) >= MIN_VALUES and any(
                one[:1].isdigit() and not SIGNS.fullmatch(one) for one in written
            ):
                return True
        return False

    def _is_identity(self, key: Node) -> bool:
        """True for `text.length === 12`, and for the length that a `switch` is about."""
        if key.field == "value" and key.parent is not None and key.parent.kind in _SWITCHES:
            return self._is_measure(key)
        return any(
            self._code.text(one.children[0].stop) in ("==", "===")
            and any(self._is_measure(side) for side in one.children[:2])
            and any(
                self._code.kind(side.start) == NUMBER and not SIGNS.fullmatch(self._code.node_text(side))
                for side in one.children[:2]
            )
            for one in key.walk()
            if one.kind == "binary_expression" and len(one.children) > 1
        )

    def gives_measures_to(self, names: frozenset[str]) -> set[str]:
        """Those of some functions that it calls with a length, a digest, a sum or a count."""
        return {
            name
            for one in self._body.walk()
            if one.kind == "call_expression"
            and (name := self._code.node_text(one.child("function"))) in names
            and (arguments := one.child("arguments")) is not None
            and self._is_measure(arguments)
        }

    def _is_measure(self, node: Node, seen: frozenset[str] = frozenset()) -> bool:
        """True for what says little of what was given, other than by plain arithmetic."""
        for one in node.walk():
            name = self._code.node_text(one) if one.kind in NAME_KINDS else ""
            values = self._assigned.get(name, ()) if name not in seen else ()
            if name in self._counters or any(self._is_measure(value, seen | {name}) for value in values):
                return True
            if one.kind in ("call_expression", "member_expression") and self._is_derived(one):
                return True
        return False

    @cached_property
    def table_keys(self) -> set[str]:
        """The texts by which special answers are looked up in tables of the file."""
        names = {
            self._code.node_text(part)
            for one in self._special
            for part in one.node.walk()
            if part.kind == "identifier"
        }
        names |= {
            one for name in names for value in self._assigned.get(name, ()) for one in self._names_in(value)
        }
        rows = (
            row
            for name in names
            if (value := self._constants.get(name)) is not None
            for row in value.walk()
            if (row.kind in ("pair", "array", "keyed_element", "tuple_expression") and len(row.children) > 1)
            or (row.kind == "arguments" and self._code.text(row.start - 1) in ("insert", "set"))
        )
        keys = [row.children[0] for row in rows if row.children]
        for value in map(self._constants.get, names):
            filled = (
                (row for row in value.walk() if row.kind == "index_expression") if value is not None else ()
            )
            keys += [row.children[-1] for row in filled]
        for one in self._special:
            keys += [part for above, _ in one.node.ancestors(self._body) for part in self._case_values(above)]
        return {
            self._code.text(key.start).strip("'\"`") for key in keys if self._code.kind(key.start) == STRING
        }

    def _case_values(self, node: Node) -> Sequence[Node]:
        """The values for which a case of a `switch` or `match` is there."""
        asked = node.child("value") if node.kind in ("expression_case", "switch_case") else None
        asked = node.child("pattern") if node.kind == "match_arm" else asked
        return [one for one in asked.walk() if not one.children] if asked is not None else ()

    def _is_text(self, node: Node) -> bool:
        """True for a text that stands in the file."""
        value = self._constants.get(self._code.node_text(node), node)
        return value.stop - value.start == 1 and self._code.kind(value.start) == STRING

    def _is_table(self, node: Node) -> bool:
        name = self._code.node_text(node)
        return name in self._constants and not self._is_text(node)

    def _is_spelt(self, node: Node) -> bool:
        """True for the answer to `[b'2', b'd']`: a text that is written letter by letter."""
        one = self._matched_slice(node)
        return (
            one is not None
            and sum(part.kind == "char_literal" for part in one.children) >= MIN_LETTERS
            and not any(part.kind in ("identifier", "captured_pattern") for part in one.walk())
        )

    def _matched_slice(self, node: Node) -> Node | None:
        """The pattern with letters for which a `match` of Rust gives an answer."""
        arm = next((above for above, _ in node.ancestors(self._body) if above.kind == "match_arm"), None)
        pattern = arm.child("pattern") if arm is not None else None
        slices = (one for one in pattern.walk() if one.kind == "slice_pattern") if pattern is not None else ()
        return next((one for one in slices if any(part.kind == "char_literal" for part in one.walk())), None)

    def _keys_of(self, node: Node, seen: frozenset[str]) -> Iterator[Node]:
        """What an answer is chosen by: the conditions around it, and the keys it is looked up by."""
        for above, below in node.ancestors(self._body):
            yield from (
                part
                for field in ("condition", "value", "initializer")
                if above.kind in _CHOICES and (part := above.child(field)) is not None and part is not below
            )
        for one in node.walk():
            if one.kind in ("subscript_expression", "index_expression"):
                yield from one.children[1:]
            elif self._is_lookup(one):
                yield from filter(None, [one.child("arguments")])
            elif one.kind == "identifier" and (name := self._code.node_text(one)) not in seen:
                for value in self._assigned.get(name, ()):
                    yield from self._keys_of(value, seen | {name})

    def _is_odd(self, key: Node, seen: frozenset[str] = frozenset()) -> bool:
        for one in key.walk():
            if one.kind in NAME_KINDS:
                name = self._code.node_text(one)
                if name in self._changed_names or name in self._counters:
                    return True
                if name not in seen and any(
                    self._is_odd(value, seen | {name}) for value in self._assigned.get(name, ())
                ):
                    return True
            elif one.kind in (
                "call_expression",
                "binary_expression",
                "member_expression",
            ) and self._is_derived(one):
                return True
        return False

    def _is_derived(self, node: Node) -> bool:
        """True for what says little of the values that it is worked out of."""
        if node.kind == "binary_expression":
            sign = self._code.text(node.children[0].stop)
            return sign in _SUMS and any(map(self._depends, node.children))
        if node.kind == "member_expression":
            return self._code.text(node.stop - 1) == "length" and self._depends(node)
        called = node.child("function")
        if called is None or self._is_lookup(node):
            return False
        named = called.child("function") if called.kind == "generic_function" else called
        name = self._code.text((named or called).stop - 1).lower()
        is_dependent = any(map(self._depends, node.children))
        return is_dependent and (name in _MEASURES or any(word in name for word in _DIGESTS))

    @cached_property
    def _counters(self) -> set[str]:
        """The file's own names that some function counts up or takes from."""
        code = self._code
        counted = {
            code.node_text(one.children[0])
            for one in code.nodes_of(*CHANGES, *ADDING)
            if one.children and code.node_text(one.children[0]) in self._constants
        }
        statics = {
            code.text(at)
            for at in range(len(code.tokens))
            if code.text(at - 1) == "static" or code.text_between(at - 2, at) == "static mut"
        }
        for at in range(len(code.tokens)):
            if code.text(at) in statics and code.text(at + 1) == "." and _COUNTS.fullmatch(code.text(at + 2)):
                counted.add(code.text(at))
            elif (
                code.text(at) == "atomic" and code.text(at + 2).startswith("Add") and code.text(at + 4) == "&"
            ):
                counted.add(code.text(at + 5))
        return counted


def is_figure(value: str) -> bool:
    """True for a number of several digits, a text with one that is no name, and a text of several words."""
    return _FIGURE.fullmatch(value) is not None
