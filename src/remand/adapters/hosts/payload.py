"""The JSON on a hook's way in and out, without loading the json module, which costs a Python start again."""

from __future__ import annotations

from _json import encode_basestring_ascii, make_scanner

from remand.adapters.hosts.hook import Answer

MAX_PAYLOAD = 32 << 20
MAX_TEXT = 4 << 20
MAX_IDENTIFIER = 200
MAX_ANSWER = 9_000
"""Claude Code cuts a hook's text at 10,000 UTF-16 units, and other hosts cut later."""
TAIL = 1_200
CUT = "\n[… cut …]\n"
WITHOUT_REASON = "Remand does not allow this. `remand task show` tells more."

KINDS = {dict: "an object", list: "a list", str: "a string", bool: "a truth value", type(None): "null"}


class _Dialect:
    """What the scanner asks about: JSON without NaN and infinities."""

    strict = False
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int

    def __init__(self) -> None:
        self.memo: dict[str, str] = {}

    @staticmethod
    def parse_constant(name: str) -> None:
        """Reads NaN and the infinities as nothing."""


class Payload:
    """A JSON object of a host's. Whatever it holds, a field of the wrong kind reads as an absent one."""

    __slots__ = ("_fields", "is_broken")

    def __init__(self, fields: dict[str, object], is_broken: str = "") -> None:
        self._fields = fields
        self.is_broken = is_broken

    def has(self, name: str) -> bool:
        """Whether the field is there and not null."""
        return self._fields.get(name) is not None

    def first(self, *names: str) -> object:
        """The first of several spellings of a field that is there."""
        for name in names:
            value = self._fields.get(name)
            if value is not None:
                return value
        return None

    def text(self, *names: str) -> str:
        """A text, without the halves of characters that JSON lets through; cut when it is huge."""
        value = self.first(*names)
        return _whole(value[:MAX_TEXT]) if isinstance(value, str) else ""

    def identifier(self, *names: str) -> str:
        """A name that may stand in a file name or a log line; empty when it is anything else."""
        value = self.first(*names)
        if not isinstance(value, str) or not 0 < len(value) <= MAX_IDENTIFIER:
            return ""
        is_plain = value.isascii() and value.isprintable() and not set(value) & set(" /\\")
        return value if is_plain and value.strip(".") else ""

    def path(self, *names: str) -> str:
        """A path that the system would take."""
        value = self.text(*names)
        return value if len(value) < 4096 and "\0" not in value else ""

    def flag(self, *names: str) -> bool:
        """A truth value; anything but true is false."""
        return self.first(*names) is True

    def number(self, *names: str) -> float | None:
        """A number that is neither infinite nor absurd."""
        value = self.first(*names)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        return float(value) if abs(value) < 1e15 else None

    def part(self, *names: str) -> Payload:
        """An object inside; an empty one when it is none. One that is given as a string of JSON is read."""
        value = self.first(*names)
        if isinstance(value, str) and value.lstrip()[:1] == "{":
            return parse(value.encode("utf-8", "replace"))
        return Payload(value if isinstance(value, dict) else {})

    def parts(self, *names: str) -> list[Payload]:
        """The objects of a list."""
        value = self.first(*names)
        return [Payload(one) for one in value if isinstance(one, dict)] if isinstance(value, list) else []

    def each(self) -> list[Payload]:
        """The objects inside, whatever their names."""
        return [Payload(one) for one in self._fields.values() if isinstance(one, dict)]

    def texts(self, *names: str) -> list[str]:
        """The strings of a list, or the one string there is."""
        value = self.first(*names)
        given = value if isinstance(value, list) else [value]
        return [_whole(one[:MAX_TEXT]) for one in given if isinstance(one, str)]


def parse(data: bytes) -> Payload:
    """Reads what a host has sent. Never raises: what cannot be read is a broken, empty payload."""
    if len(data) > MAX_PAYLOAD:
        return Payload({}, f"the payload is {len(data)} bytes long, at most {MAX_PAYLOAD} are read")
    text = data.decode("utf-8", "replace").lstrip("\ufeff \t\r\n")
    if not text:
        return Payload({}, "the payload is empty")
    try:
        value, end = make_scanner(_Dialect())(text, 0)  # type: ignore[arg-type]  # any such object will do
    except (ValueError, StopIteration, RecursionError, MemoryError, SystemError) as error:
        # A scanner that finds a fault asks for json's own error; where json is not loaded, a SystemError comes.
        return Payload({}, f"the payload is not JSON: {type(error).__name__} {str(error)[:100]}".rstrip())
    if text[end:].strip(" \t\r\n\0"):
        return Payload({}, f"the payload goes on after its end, at character {end}")
    if not isinstance(value, dict):
        return Payload({}, f"the payload is {KINDS.get(type(value), 'a number')}, not an object")
    return Payload(value)


def _whole(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8") if not text.isascii() else text


def compose(fields: dict[str, object]) -> str:
    """JSON of plain values, in ASCII, so that no encoding can spoil it."""
    return (
        "{" + ", ".join(f"{encode_basestring_ascii(key)}: {_value(one)}" for key, one in fields.items()) + "}"
    )


def _value(value: object) -> str:
    if isinstance(value, dict):
        return compose(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int | float):
        return repr(value)
    return encode_basestring_ascii(_whole(str(value)))


def wording(answer: Answer) -> str:
    """The text of an answer, as long as hosts allow. A no is never without one: hosts take that for a yes."""
    text = answer.text if answer.text.strip() else ""
    return shortened(text) or (WITHOUT_REASON if answer.is_no else "")


def shortened(text: str, limit: int = MAX_ANSWER) -> str:
    """A text that no host cuts: the middle of a longer one is left out, its last lines are kept."""
    if _units(text) <= limit:
        return text
    head, tail = text[: limit - TAIL - len(CUT)], text[-TAIL:]
    while _units(head) + _units(tail) + len(CUT) > limit:
        head, tail = head[: len(head) * 9 // 10], tail[len(tail) // 10 :]
    return head + CUT + tail


def _units(text: str) -> int:
    """The length as hosts written in JavaScript count it."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "replace")) // 2
