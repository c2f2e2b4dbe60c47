"""The bases of every value in the system: frozen, and cheap to declare, to read and to write as JSON."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Mapping
from typing import Any, TypeVar, dataclass_transform

import msgspec
from msgspec.structs import replace

from remand.startup import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import NamedTuple as NamedTuple  # noqa: PLC0414 - so that mypy takes it for the one of `typing`
else:

    class _NamedTupleMeta(type):
        """Makes named tuples of classes, as `typing.NamedTuple` does, but without compiling their annotations.

        That takes a fifth of a millisecond a class, and dozens are on the way of every hook call.
        """

        def __new__(cls, name, bases, namespace):
            if not bases:
                return super().__new__(cls, name, bases, namespace)
            annotations = namespace.get("__annotations__", {})
            defaults = [namespace.pop(field) for field in annotations if field in namespace]
            made = namedtuple(name, annotations, defaults=defaults, module=namespace["__module__"])  # noqa: PYI024 - a typed one is slow to make
            for attribute, value in namespace.items():
                if attribute not in ("__module__", "__dict__", "__weakref__"):
                    setattr(made, attribute, value)
            return made

    class NamedTuple(metaclass=_NamedTupleMeta):
        """The base of named tuples."""


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class Record(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A value without identity: equal when its fields are equal."""


R = TypeVar("R", bound=Record)


def update_parts(record: R, part_of: Mapping[str, str], changes: dict[str, Any]) -> R:
    """A record composed of others with changed fields, each in the part that has it."""
    if part_of.keys().isdisjoint(changes):
        return replace(record, **changes)
    own: dict[str, Any] = {}
    inner: dict[str, dict[str, Any]] = {}
    for name, value in changes.items():
        part = part_of.get(name)
        if part is None:
            own[name] = value
        elif part in inner:
            inner[part][name] = value
        else:
            inner[part] = {name: value}
    for part, values in inner.items():
        own[part] = replace(getattr(record, part), **values)
    return replace(record, **own)
