"""Finds and reads modules of ours for the import system, with half the system calls that Python's own way takes.

More than a hundred are loaded by a command. Whatever is not as usual is left to Python: a module that is not where its name
says, a package with code of its own, a compiled file that is missing or not that of the source, an archive, code that is
compiled in another way.
"""

from __future__ import annotations

import marshal
import os
import sys

from remand.startup import PLAIN_PACKAGES, TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.machinery import BuiltinImporter, ModuleSpec, SourceFileLoader
    from importlib.util import MAGIC_NUMBER
    from types import CodeType, ModuleType

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
_MAX_CODE = 96 << 10
"""What is longer is left to Python. From 128 KiB on, the C library maps new pages for each file that is read."""


class OwnLoader(SourceFileLoader):
    """Loads a module from its compiled file."""

    def __init__(self, fullname: str, path: str, source: os.stat_result) -> None:
        super().__init__(fullname, path)
        self._source = source

    def get_code(self, fullname: str) -> CodeType | None:
        """The code of the compiled file, where it is that of the source."""
        try:
            compiled = os.open(_compiled_file(self.path), os.O_RDONLY | os.O_CLOEXEC)
            try:
                data = os.read(compiled, _MAX_CODE)
            finally:
                os.close(compiled)
        except OSError:
            return super().get_code(fullname)
        made_from = int(self._source.st_mtime) & 0xFFFFFFFF, self._source.st_size & 0xFFFFFFFF
        head = MAGIC_NUMBER + b"".join(part.to_bytes(4, "little") for part in (0, *made_from))
        if data[:16] != head or len(data) == _MAX_CODE:
            return super().get_code(fullname)
        code: CodeType = marshal.loads(memoryview(data)[16:])  # noqa: S302 - as Python itself does
        fix_co_filename(code, self.path)  # it may have been compiled in another place
        return code


class PackageLoader(SourceFileLoader):
    """Makes a package of which only the modules matter."""

    def exec_module(self, module: ModuleType) -> None:
        """Leaves the package as it is."""


class OwnFinder:
    """Finds modules by their names."""

    @staticmethod
    def find_spec(name: str, _path: object = None, _target: object = None) -> ModuleSpec | None:
        """Where a module of ours is; None for any other, and for a package that has code of its own."""
        if not name.startswith(PREFIX):
            return None
        path = f"{FOLDER}/{name.removeprefix(PREFIX).replace('.', '/')}"
        if name in PLAIN_PACKAGES:
            file = f"{path}/__init__.py"
            spec = ModuleSpec(name, PackageLoader(name, file), origin=file, is_package=True)
            spec.submodule_search_locations = [path]
        else:
            file = f"{path}.py"
            try:
                source = os.stat(file)
            except OSError:
                return None
            spec = ModuleSpec(name, OwnLoader(name, file, source), origin=file)
        spec.has_location = True
        spec.cached = _compiled_file(file)
        return spec


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
