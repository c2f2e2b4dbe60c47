"""Own modules that are loaded when they are first used, so that a hook or a short command starts in milliseconds.

Whoever seldom needs a heavy module names it twice, side by side:

    if TYPE_CHECKING:
        from remand.wiring import notices
    else:
        notices = lazy("remand.wiring.notices")

The type checker and the import contracts read the first, Python the second; a test holds that they name the same module.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # as in typing, which takes longer to load than all that a hook call needs


class LazyModule:
    """Stands for a module until the first of its names is asked for."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> object:
        """A name of the module, which is loaded now if it was not before."""
        __import__(self._name)
        return getattr(sys.modules[self._name], attribute)


def lazy(name: str) -> LazyModule:
    """A module by its full name, loaded when something of it is first used."""
    return LazyModule(name)
