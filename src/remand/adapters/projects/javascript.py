"""JavaScript and TypeScript: vitest, jest, mocha, node's own tests, eslint, tsc."""

from __future__ import annotations

import re
import shlex
from typing import Any

import msgspec

from remand.adapters.projects.project import Project, proposal
from remand.domain.gate.gate import GatePreparation, GateProposal, GateProposals

_ESLINT_FILE = re.compile(r"eslint\.config\.[cm]?[jt]s|\.eslintrc(?:\.(?:js|cjs|json|ya?ml))?")
_LINKED = "ln -sfn '{cache}/node_modules' node_modules && exec "
_QUIET = "--ignore-scripts --no-audit --no-fund"
_INSTALL = {
    "package-lock.json": f"npm ci {_QUIET}",
    "npm-shrinkwrap.json": f"npm ci {_QUIET}",
    "pnpm-lock.yaml": "pnpm install --frozen-lockfile --ignore-scripts",
    "yarn.lock": "yarn install --frozen-lockfile --ignore-scripts",
}
_UNLOCKED = f"npm install --no-package-lock {_QUIET}"
_NO_TEST = "no test specified"
_NODE_TEST = re.compile(r"node --test(?:\s+([^&|;<>$`\n]*))?")
_NODE_START = ("node", "--test", "--test-reporter=junit")


class _Package(msgspec.Struct, rename="camel"):
    dependencies: dict[str, Any] = {}
    dev_dependencies: dict[str, Any] = {}
    scripts: dict[str, Any] = {}
    workspaces: Any = None
    eslint_config: Any = None

    def needs(self, name: str) -> bool:
        """Whether it depends on a package."""
        return name in self.dependencies or name in self.dev_dependencies

    def script(self, name: str) -> str:
        """A script's command; empty when it has none."""
        return str(self.scripts.get(name, ""))


class _Modules:
    """Where a project's packages are: made from its lock file and linked in, or found in the main worktree."""

    def __init__(self, project: Project, package: _Package) -> None:
        self.prepare = _prepare(project, package)
        is_found = self.prepare is None and project.has_folder("node_modules/.bin")
        self.path = ("node_modules/.bin",) if is_found else ()

    def command(self, program: str, *words: str) -> tuple[str, ...]:
        """A program of the project's packages, with its arguments."""
        if self.prepare is None:
            return (program, *words)
        return self.shell("", program, *words)

    def shell(self, variables: str, program: str, *words: str) -> tuple[str, ...]:
        """As `command`, through a shell, which can set variables."""
        arguments = " ".join(_quote_word(word) for word in words)
        start = "env " + variables if variables else ""
        linked, program = (_LINKED, f"node_modules/.bin/{program}") if self.prepare else ("exec ", program)
        return ("sh", "-c", f"{linked}{start}{program} {arguments}".strip())


def propose(project: Project) -> GateProposals:
    """Gates for the tools that the package at the root has configured or depends on."""
    package = _package(project.text("package.json"))
    if package is None:
        return GateProposals()
    modules = _Modules(project, package)
    found = [
        made
        for made in (
            _tests(package, modules),
            _lint(project, package, modules),
            _types(project, package, modules),
        )
        if made is not None
    ]
    return GateProposals(gates=tuple(found), path=modules.path if found else ())


def _tests(package: _Package, modules: _Modules) -> GateProposal | None:
    script = package.script("test")
    reported = {
        "vitest": modules.command("vitest", "run", "--reporter=junit", "--outputFile={report}"),
        "jest-junit": modules.shell(
            "JEST_JUNIT_OUTPUT_FILE='{report}' ", "jest", "--ci", "--reporters=jest-junit"
        ),
        "mocha": modules.command("mocha", "--reporter=xunit", "--reporter-option=output={report}"),
    }
    for needed, command in reported.items():
        if package.needs(needed):
            why = f"package.json depends on {needed}"
            return proposal(
                "tests", command, "junit", why, require={"max_failures": 0.0}, prepare=modules.prepare
            )
    if node := _NODE_TEST.fullmatch(script):
        return _node_tests(node[1] or "", modules)
    if package.needs("jest"):
        why = "package.json depends on jest; with jest-junit its tests could be counted"
        return _exit_status_tests(modules.command("jest", "--ci"), why, modules)
    if script and _NO_TEST not in script:
        return _exit_status_tests(("npm", "test", "--silent"), 'package.json has a script "test"', modules)
    return None


def _node_tests(words: str, modules: _Modules) -> GateProposal:
    """Node's own tests; patterns of files among the words are the shell's to resolve, as in the script."""
    if modules.prepare is None and not any(sign in words for sign in "*?['\"\\"):
        command = (*_NODE_START, "--test-reporter-destination={report}", *words.split())
    else:
        linked = _LINKED if modules.prepare else "exec "
        line = f"{linked}{' '.join(_NODE_START)} --test-reporter-destination='{{report}}' {words}"
        command = ("sh", "-c", line.strip())
    why = 'package.json has a script "test" that runs node --test'
    return proposal("tests", command, "junit", why, require={"max_failures": 0.0}, prepare=modules.prepare)


def _exit_status_tests(command: tuple[str, ...], why: str, modules: _Modules) -> GateProposal:
    """Tests of which nothing but the exit status is known."""
    if modules.prepare is not None and command[0] == "npm":
        command = ("sh", "-c", _LINKED + " ".join(command))
    return proposal("tests", command, "exit", why, require={"max_errors": 0.0}, prepare=modules.prepare)


def _lint(project: Project, package: _Package, modules: _Modules) -> GateProposal | None:
    own = project.paths_matching(_ESLINT_FILE)
    if not package.needs("eslint") or not (own or package.eslint_config):
        return None
    why = f"{own[0] if own else 'package.json'} configures eslint"
    command = modules.command("eslint", "-f", "json", ".")
    return proposal("lint", command, "eslint", why, require={"max_errors": 0.0}, prepare=modules.prepare)


def _types(project: Project, package: _Package, modules: _Modules) -> GateProposal | None:
    if not package.needs("typescript") or "tsconfig.json" not in project.paths:
        return None
    has_parts = '"references"' in project.text("tsconfig.json")
    how = ("--build",) if has_parts else ("--noEmit",)
    command = modules.command("tsc", *how, "--pretty", "false")
    why = "tsconfig.json is there"
    return proposal("types", command, "tsc", why, require={"max_errors": 0.0}, prepare=modules.prepare)


def _prepare(project: Project, package: _Package) -> GatePreparation | None:
    """How to fetch the packages. A workspace of several packages, and Yarn without node_modules, are left to the user."""
    has_packages = bool(package.dependencies or package.dev_dependencies)
    is_special = package.workspaces is not None or ".yarnrc.yml" in project.paths
    if not has_packages or is_special or "pnpm-workspace.yaml" in project.paths:
        return None
    lock = project.first(*_INSTALL)
    key = ("package.json", lock) if lock else ("package.json",)
    files = " ".join((*key, *([".npmrc"] if ".npmrc" in project.paths else [])))
    install = _INSTALL.get(lock, _UNLOCKED)
    return GatePreparation(
        command=("sh", "-c", f"cp {files} '{{cache}}' && cd '{{cache}}' && {install}"), key=key
    )


def _package(text: str) -> _Package | None:
    try:
        return msgspec.json.decode(text, type=_Package) if text else None
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return None


def _quote_word(word: str) -> str:
    """A word for a shell; placeholders are filled in later, with paths that may hold blanks."""
    return f"'{word}'" if "{" in word else shlex.quote(word)
