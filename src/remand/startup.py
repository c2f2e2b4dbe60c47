"""What is loaded or made only when it is first used, so that a hook or a short command starts in milliseconds.

Whoever needs a module of the table imports it whole, as usual: `from remand.app import prompts`. It is loaded with the first of
its names that is used. `from remand.app.prompts import render_prompt` loads it at once.
"""

from __future__ import annotations

import sys
from _thread import RLock

VERSION = "0.1.0"
"""What is installed. A call is only sent to a coordinator of the same version."""
ENTRY_MODULE = "remand.interfaces.cli.entry"
AGENT_ENTRY_MODULE = "remand.interfaces.cli.agent_socket.runner"
COMMAND_LINE = (sys.executable, "-P", "-m", ENTRY_MODULE)
"""How our command line is started as a process: `-P` keeps modules of the working folder out."""
AGENT_COMMAND_LINE = (*COMMAND_LINE[:-1], AGENT_ENTRY_MODULE)
"""The same for a call in an agent's name."""
TYPE_CHECKING = False  # as in typing, which takes longer to load than all that a hook call needs

LAZY_MODULES = frozenset(
    f"remand.{name}"
    for package, names in {
        "adapters.coordinator": "background_start remote_ledger",
        "adapters.forges": "gitea github gitlab",
        "adapters.gates": "procrastinate_jobs",
        "adapters.git": "checkouts commits event_publisher mirror remote repository snapshots",
        "adapters.hosts": "checks claude codex codex_settings copilot cursor gemini installation launch openhands qwen",
        "adapters.journal": "reader solo_sessions writer",
        "adapters.parsers": "cargo go linters registry test_reports",
        "adapters.sandbox": "sandboxes",
        "adapters.server": "client openid",
        "adapters.stores": "postgres shared_data sqlite_migrations sqlite_views",
        "adapters.system": "background_runs files notice_channels scheduler_files web_pages",
        "app": "errors group_commit notices prompts rejection_facts",
        "app.events": "intake",
        "app.gates": "change_examination measurement preparation queued_work runner",
        "app.history": "undo",
        "app.inbox": "objections questions",
        "app.log": "exchange",
        "app.scheduler": "ports",
        "domain": "rejection reviewer",
        "domain.access": "confusables tool_calls",
        "domain.decisions": "director rejections",
        "domain.evidence": "shell_calls",
        "domain.feedback": "pull_request_reviews",
        "domain.text": "redaction",
        "domain.validation": "validator",
        "integrity": "result_records",
        "interfaces.cli": "argument_parser context main server_calls",
        "interfaces.cli.agent_socket": "client",
        "interfaces.cli.tasks": "verdicts",
        "interfaces.hook": "activity answers dispatch entry remote session solo solo_notes tool_guard",
        "interfaces.http": "a2a hosts server",
        "interfaces.mcp": "command_runner http server",
        "wiring": "after_call forges gates",
    }.items()
    for name in (f"{package}.{module}" for module in names.split())
)
PLAIN_PACKAGES = frozenset(
    f"remand.{package}"
    for packages in (
        "adapters adapters.coordinator adapters.forges adapters.gates adapters.git adapters.hosts",
        "adapters.journal adapters.parsers adapters.projects adapters.sandbox adapters.server",
        "adapters.stores adapters.system app app.analysis app.events app.forge app.gates app.history app.inbox",
        "app.log app.scheduler app.tasks domain domain.access domain.decisions domain.events domain.evidence",
        "domain.feedback domain.folds domain.gate domain.text domain.text_commands",
        "domain.validation integrity integrity.readers integrity.rules interfaces interfaces.cli",
        "interfaces.cli.agent_socket interfaces.cli.tasks interfaces.cli.terminal interfaces.demo interfaces.hook interfaces.http",
        "interfaces.http.pages interfaces.library interfaces.mcp ledger testing wiring",
    )
    for package in packages.split()
)
"""The packages whose `__init__` is a docstring alone: they are made without reading it, which is half of what a short call loads."""
MSGSPEC_PARTS = ("msgspec.inspect", "msgspec.toml", "msgspec.yaml", "textwrap")  # for what we never ask of it
UNLOADED = "unloaded"
_lock = RLock()
"""One for all modules: two threads that load modules which import each other must not wait for one another."""

if TYPE_CHECKING:
    import re
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any

    lazy_pattern = re.compile
else:
    ModuleSpec, ModuleType = type(__spec__), type(sys)

    class lazy_pattern:  # noqa: N801 - called as `re.compile` is
        """A regular expression that is compiled when it is first used: most of those that a call loads are not."""

        def __init__(self, *given):
            self._given = given

        def __getattr__(self, name):
            return self.__dict__.setdefault(name, getattr(__import__("re").compile(*self._given), name))


class LazyModule(ModuleType):
    """A module that was imported, and is loaded when something of it is used."""

    def __getattribute__(self, name: str) -> object:
        """A name of the module. Names with two underscores are the import system's, which reads them before that."""
        if not name.startswith("__"):
            _load(self)
        return ModuleType.__getattribute__(self, name)  # no `super()`: once loaded, it is of another class

    def __setattr__(self, name: str, value: object) -> None:
        """Replaces a name of the module, which loading it later would undo."""
        if not name.startswith("__"):
            _load(self)
        ModuleType.__setattr__(self, name, value)


class LazyFinder:
    """Finds the modules of the table for the import system, and loads none of them."""

    @staticmethod
    def find_spec(name: str, _path: object = None, _target: object = None) -> ModuleSpec | None:
        """What stands for a module of the table until it is used."""
        loader: Any = LazyFinder  # the class has all that is asked of a loader
        is_lazy = name in LAZY_MODULES or name in MSGSPEC_PARTS
        return ModuleSpec(name, loader, loader_state=UNLOADED) if is_lazy else None

    @staticmethod
    def create_module(spec: ModuleSpec) -> ModuleType:
        return LazyModule(spec.name)

    @staticmethod
    def exec_module(module: ModuleType) -> None:
        """Leaves the module as it is."""


def _load(module: LazyModule) -> None:
    with _lock:
        before = module.__spec__
        if before is None or before.loader_state is not UNLOADED:
            return  # it is loaded, or this thread is loading it
        path = sys.modules[before.parent].__path__ if before.parent else None
        finders = (finder for finder in sys.meta_path if finder is not LazyFinder)
        spec = next(filter(None, (finder.find_spec(before.name, path) for finder in finders)), None)
        if spec is None or spec.loader is None:
            raise ModuleNotFoundError(f"No module named {before.name!r}", name=before.name)
        module.__spec__, module.__loader__, module.__file__ = spec, spec.loader, spec.origin
        try:
            spec.loader.exec_module(module)
            module.__class__ = ModuleType  # type: ignore[assignment] # a plain module from now on
        finally:
            if type(module) is LazyModule:
                module.__spec__ = before  # it failed: whoever uses it next gets the same error


def install() -> None:
    """Has the import system ask the table first; `remand` calls this when it is imported."""
    if LazyFinder not in sys.meta_path:
        sys.meta_path.insert(0, LazyFinder)


def load_msgspec() -> None:
    """Loads msgspec without what it takes about as long to load as Python itself, and what no record of ours needs.

    It does without `typing_extensions` where that is not installed, which has nothing that `typing` lacks on the Pythons we
    run on; and of `uuid` and `decimal` it takes the classes alone, to know values of that type. Whoever else imports them
    gets the real ones.
    """
    if "msgspec" in sys.modules:
        return
    stand_ins: dict[str, Any] = {"typing_extensions": None}  # how Python is told that there is none
    for name, parts in (("uuid", ("UUID", "SafeUUID")), ("decimal", ("Decimal",))):
        stand_ins[name] = ModuleType(name)
        vars(stand_ins[name]).update((part, type(part, (), {"unknown": None})) for part in parts)
    missing = [name for name in stand_ins if name not in sys.modules]
    sys.modules.update((name, stand_ins[name]) for name in missing)
    try:
        __import__("msgspec")
    finally:
        for name in missing:
            del sys.modules[name]
