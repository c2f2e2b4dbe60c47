"""The base classes of all values: frozen, and cheap to declare and to encode as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, dataclass_transform

import msgspec
from msgspec.structs import replace

from remand.startup import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import NamedTuple as NamedTuple  # noqa: PLC0414 - so that mypy takes it for the one of `typing`
else:
    from _collections import _tuplegetter

    class _NamedTupleMeta(type):
        """Makes named tuples of classes, as `typing.NamedTuple` does, but compiles no annotation, and no constructor before it is used.

        That takes a fifth of a millisecond a class, and dozens are on the way of every hook call.
        """

        def __new__(cls, name, bases, namespace):
            if not bases:
                return super().__new__(cls, name, bases, namespace)
            fields = tuple(namespace.get("__annotations__", ()))
            defaults = {field: namespace[field] for field in fields if field in namespace}
            namespace |= {field: _tuplegetter(number, None) for number, field in enumerate(fields)}
            namespace |= {"__slots__": (), "_fields": fields, "__match_args__": fields}
            return type(name, (_NamedTupleMethods,), namespace | {"_field_defaults": defaults})

    class _NamedTupleMethods(tuple):
        """What every named tuple has."""

        __slots__ = ()

        def __new__(cls, *given, **named):
            """Makes the first value, and the constructor that makes all others."""
            owner = next(one for one in cls.__mro__ if "_fields" in one.__dict__)
            names = ", ".join(owner._fields)
            code = f"lambda _cls, {names}: _make(_cls, ({names},))"
            made = eval(code, {"_make": tuple.__new__})  # noqa: S307 - as `namedtuple` does, of names in our own source
            made.__defaults__ = tuple(owner._field_defaults.values())
            made.__name__, made.__qualname__ = "__new__", f"{owner.__qualname__}.__new__"
            owner.__new__ = made
            return made(cls, *given, **named)

        def __repr__(self):
            values = ", ".join(f"{field}={value!r}" for field, value in zip(self._fields, self, strict=True))
            return f"{type(self).__name__}({values})"

        def __getnewargs__(self):
            return tuple(self)

        @classmethod
        def _make(cls, values):
            return cls(*values)

        def _replace(self, /, **changes):
            return type(self)(**(self._asdict() | changes))

        def _asdict(self):
            return dict(zip(self._fields, self, strict=True))

    class NamedTuple(metaclass=_NamedTupleMeta):
        """The base of named tuples."""


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class Record(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A value without identity: equal when its fields are equal."""


R = TypeVar("R", bound=Record)


def update_parts(record: R, part_of: Mapping[str, str], changes: dict[str, Any]) -> R:
    """A composed record with changed fields, each in the part that contains it."""
    if part_of.keys().isdisjoint(changes):
        return replace(record, **changes)
    if len(changes) == 1:
        part = part_of[next(iter(changes))]
        return replace(record, **{part: replace(getattr(record, part), **changes)})
    own: dict[str, Any] = {}
    inner: dict[str, dict[str, Any]] = {}
    for name, value in changes.items():
        found = part_of.get(name)
        (own if found is None else inner.setdefault(found, {}))[name] = value
    for name, values in inner.items():
        own[name] = replace(getattr(record, name), **values)
    return replace(record, **own)
