"""Finds and reads modules of ours for the import system, with half the system calls that Python's own way takes.

More than a hundred are loaded by a command. Whatever is not as usual is left to Python: a module that is not where its name
says, a compiled file that is missing or not that of the source, an archive, code that is compiled in another way.
"""

from __future__ import annotations

import _imp
import marshal
import os
import sys

from remand.startup import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.machinery import BuiltinImporter, ModuleSpec, SourceFileLoader
    from importlib.util import MAGIC_NUMBER
    from types import CodeType

    def fix_co_filename(code: CodeType, path: str) -> None:
        """Says in all of the code where its source is."""
else:
    from _frozen_importlib import BuiltinImporter
    from _frozen_importlib_external import MAGIC_NUMBER, SourceFileLoader
    from _imp import _fix_co_filename as fix_co_filename

    ModuleSpec = type(__spec__)

FOLDER = os.path.dirname(__file__)
PREFIX = "remand."
_SUFFIX = f".{sys.implementation.cache_tag}.pyc"
_MAX_CODE = 1 << 20
_EXTENSIONS = tuple(_imp.extension_suffixes())
_listed: dict[str, frozenset[str]] = {}
"""The names in the folders that were looked into."""


class OwnLoader(SourceFileLoader):
    """Loads a module from its compiled file."""

    def get_code(self, fullname: str) -> CodeType | None:
        """The code of the compiled file, where it is that of the source."""
        try:
            source = os.stat(self.path)
            compiled = os.open(_compiled_file(self.path), os.O_RDONLY | os.O_CLOEXEC)
            try:
                data = os.read(compiled, _MAX_CODE)
            finally:
                os.close(compiled)
        except OSError:
            return super().get_code(fullname)
        made_from = int(source.st_mtime) & 0xFFFFFFFF, source.st_size & 0xFFFFFFFF
        head = MAGIC_NUMBER + b"".join(part.to_bytes(4, "little") for part in (0, *made_from))
        if data[:16] != head or len(data) == _MAX_CODE:
            return super().get_code(fullname)
        code: CodeType = marshal.loads(memoryview(data)[16:])  # noqa: S302 - as Python itself does
        fix_co_filename(code, self.path)  # it may have been compiled in another place
        return code


class OwnFinder:
    """Finds modules by their names."""

    @staticmethod
    def find_spec(name: str, _path: object = None, _target: object = None) -> ModuleSpec | None:
        """Where a module of ours is; None for any other."""
        if not name.startswith(PREFIX):
            return None
        path = f"{FOLDER}/{name.removeprefix(PREFIX).replace('.', '/')}"
        folder, _, own = path.rpartition("/")
        beside = _names_in(folder)
        inside = _names_in(path) if own in beside else frozenset()
        is_package = any(one.startswith("__init__.") for one in inside)
        names, stem = (inside, "__init__") if is_package else (beside, own)
        if f"{stem}.py" not in names or any(f"{stem}{suffix}" in names for suffix in _EXTENSIONS):
            return None
        file = f"{path}/__init__.py" if is_package else f"{path}.py"
        spec = ModuleSpec(name, OwnLoader(name, file), origin=file, is_package=is_package)
        spec.has_location = True
        spec.cached = _compiled_file(file)
        if is_package:
            spec.submodule_search_locations = [path]
        return spec


def _names_in(folder: str) -> frozenset[str]:
    """The names in a folder, read once: what comes later is left to Python."""
    if folder not in _listed:
        try:
            _listed[folder] = frozenset(os.listdir(folder))
        except OSError:
            return frozenset()
    return _listed[folder]


def _compiled_file(path: str) -> str:
    folder, _, file = path.rpartition("/")
    return f"{folder}/__pycache__/{file.removesuffix('.py')}{_SUFFIX}"


def install() -> None:
    """Has the import system ask here before it looks itself, yet after any finder that was added to it, so that pytest still
    explains the asserts of `remand.testing`; `remand` calls this when it is imported.
    """
    is_usual = (
        isinstance(__spec__.loader, SourceFileLoader) and not sys.flags.optimize and not sys.pycache_prefix
    )
    if is_usual and OwnFinder not in sys.meta_path and BuiltinImporter in sys.meta_path:
        sys.meta_path.insert(sys.meta_path.index(BuiltinImporter), OwnFinder)
