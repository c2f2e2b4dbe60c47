"""JavaScript and TypeScript: vitest, jest, mocha, node's own tests, eslint, tsc."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from remand.adapters.projects.project import Project, proposal
from remand.domain.gate.gate import GatePreparation, GateProposal, GateProposals

_ESLINT_FILE = re.compile(r"eslint\.config\.[cm]?[jt]s|\.eslintrc(?:\.(?:js|cjs|json|ya?ml))?")
_LINKED = (
    "mkdir -p node_modules && ln -sfn '{cache}'/node_modules/* '{cache}'/node_modules/.[!.]* node_modules/ && "
    'PATH="$PWD/node_modules/.bin:$PATH" && '
)
"""Links each package into a folder of the checkout's own, as tools write to `node_modules/.cache`."""
_REPORTERS = "{cache}/reporters"
_QUIET = "--ignore-scripts --no-audit --no-fund"
_INSTALL = {
    "package-lock.json": f"npm ci {_QUIET}",
    "npm-shrinkwrap.json": f"npm ci {_QUIET}",
    "pnpm-lock.yaml": "pnpm install --frozen-lockfile --ignore-scripts",
    "yarn.lock": "yarn install --frozen-lockfile --ignore-scripts",
}
_UNLOCKED = f"npm install --no-package-lock {_QUIET}"
_NO_TEST = "no test specified"
_FOLLOWED = re.compile(
    r"(?:npm run(?:-script)?|npm|yarn(?: run)?|pnpm(?: run)?)\s+([\w:.-]+)(?:\s+--(?:\s+.*)?)?"
)
_MAX_DEPTH = 5
_NEEDS_SHELL = re.compile(r"[*?\['\"\\$`]")
_VARIABLES = re.compile(r"(?:cross-env\s+)?((?:[A-Z_][A-Z0-9_]*=(?:'[^']*'|\"[^\"]*\"|\S*)\s+)*)")
_RUNNER = re.compile(r"(?:^|\s)(?:npx\s+)?(vitest|jest|mocha|tape|ava|tap|node\s+--test)(?=\s|$)")
_WRAPPER = re.compile(r"(?:npx\s+)?(?:nyc|c8)\s")
_WRAPPED_SCRIPT = re.compile(r"(?:npm run(?:-script)?|yarn|pnpm)\s+[\w:.-]+$")
_NO_BUILD = re.compile(
    r"(?:npx\s+)?(?:eslint|standard|xo|prettier|biome|tsd|tstyche|attw|publint|aud|npm audit|eclint|dtslint|echo)\b|tsc\b.*(?:--noEmit|tsconfig)"
)
_REPORTED = {
    "vitest": ("junit", "run --reporter=junit --outputFile='{report}'"),
    "jest": ("junit", "--ci --reporters=jest-junit"),
    "mocha": ("junit", "--reporter=xunit --reporter-option=output='{report}'"),
    "tape": ("tap", ""),
    "ava": ("tap", "--tap"),
    "tap": ("tap", "--reporter=tap --disable-coverage"),
    "node --test": ("junit", "--test-reporter=junit --test-reporter-destination='{report}'"),
}
"""By runner: the parser of what it reports, and the words that make it report so."""
_OWN_REPORT = re.compile(
    r"\s(?:run(?=\s|$)|--coverage\S*|--watch\S*|(?:-R|--reporters?|--test-reporter|-f|--format)(?:=|\s+)\S+|--fix|--cache|--verbose)"
)


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
        return self.shell(" ".join((program, *map(_quote_word, words))))

    def shell(self, line: str, before: str = "") -> tuple[str, ...]:
        """A line for a shell, in which the packages' programs are found, after others that have to succeed."""
        linked = _LINKED if self.prepare else ""
        builds = f"{before} && " if before else ""
        is_set = line.split("=", maxsplit=1)[0].isupper() and "=" in line.split(maxsplit=1)[0]
        start = "" if is_set else "exec "
        return ("sh", "-c", f"{linked}{builds}{start}{line}".strip())


class _TestScript(NamedTuple):
    """The part of a package's test script that runs the tests."""

    runner: str
    variables: str
    words: str
    builds: str
    """What comes before it, without linters."""


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
    found = _test_script(package, script)
    if found is None:
        depended = next((name for name in ("vitest", "jest", "mocha", "ava") if package.needs(name)), "")
        found = _TestScript(depended, "", "", "") if depended else None
        why = f"package.json depends on {depended}"
    else:
        why = f'package.json has a script "test" that runs {found.runner}'
    if found is not None:
        return _reported_tests(found, why, package, modules)
    if not script or _NO_TEST in script:
        return None
    command = modules.shell("npm test --silent") if modules.prepare else ("npm", "test", "--silent")
    why = 'package.json has a script "test"'
    return proposal("tests", command, "exit", why, require={"max_errors": 0.0}, prepare=modules.prepare)


def _reported_tests(found: _TestScript, why: str, package: _Package, modules: _Modules) -> GateProposal:
    """Tests of a runner that tells how many there are."""
    parser, report = _REPORTED[found.runner]
    prepare, variables = modules.prepare, found.variables
    if found.runner == "jest":
        if not package.needs("jest-junit") and prepare is None:
            why += "; with jest-junit its tests could be counted"
            command = modules.shell(f"{variables}jest{found.words} --ci".strip(), found.builds)
            return proposal("tests", command, "exit", why, require={"max_errors": 0.0})
        variables = f"JEST_JUNIT_OUTPUT_FILE='{{report}}' {variables}"
        if prepare is not None and not package.needs("jest-junit"):
            report = report.replace("jest-junit", f"'{_REPORTERS}/node_modules/jest-junit'")
            install = f"npm install {_QUIET} --prefix '{_REPORTERS}' jest-junit"
            line = f"{prepare.command[-1]} && {install}"
            prepare = GatePreparation(command=(*prepare.command[:-1], line), key=prepare.key)
            modules.prepare = prepare  # for the other gates, too, so that everything is installed once
    runner, words = found.runner, found.words
    line = (
        f"{variables}{runner} {report}{words}"
        if runner == "node --test"
        else f"{variables}{runner}{words} {report}"
    )
    plain = line.strip().replace("'{report}'", "{report}")
    is_plain = (
        modules.prepare is None and not variables and not found.builds and not _NEEDS_SHELL.search(plain)
    )
    command = tuple(plain.split()) if is_plain else modules.shell(line.strip(), found.builds)
    return proposal("tests", command, parser, why, require={"max_failures": 0.0}, prepare=prepare)


def _test_script(package: _Package, script: str) -> _TestScript | None:
    """The runner in a script, and in the scripts that it runs; None when it is none that reports."""
    parts = list(_script_parts(package, script, _MAX_DEPTH))
    for place, part in enumerate(parts):
        variables = _VARIABLES.match(part)
        rest = part[variables.end() :] if variables else part
        runner = _RUNNER.search(rest)
        if runner and (runner.start() == 0 or _WRAPPER.match(rest) or rest.startswith("npx ")):
            # What comes after it and is no check of another gate would not be run.
            if not all(_NO_BUILD.search(after) for after in parts[place + 1 :]):
                return None
            words = _OWN_REPORT.sub("", re.split(r"\s\|\s", rest[runner.end() :])[0])
            builds = " && ".join(before for before in parts[:place] if not _NO_BUILD.search(before))
            name = " ".join(runner[1].split())
            return _TestScript(name, variables[1] if variables else "", words.rstrip(), builds)
    return None


def _script_parts(package: _Package, script: str, depth: int) -> Iterator[str]:
    """The commands of a script in their order, those of the scripts that it runs in their place."""
    for part in filter(None, (part.strip() for part in script.split("&&"))):
        wrapped = _WRAPPED_SCRIPT.search(part) if _WRAPPER.match(part) else None
        named = _FOLLOWED.fullmatch(wrapped[0] if wrapped else part)
        inner = package.script(named[1]) if named else ""
        if inner and depth:
            yield from _script_parts(package, inner, depth - 1)
        else:
            yield part


def _lint(project: Project, package: _Package, modules: _Modules) -> GateProposal | None:
    own = project.paths_matching(_ESLINT_FILE)
    if not package.needs("eslint") or not (own or package.eslint_config):
        return None
    why = f"{own[0] if own else 'package.json'} configures eslint"
    parts = [part for script in package.scripts.values() for part in str(script).split("&&")]
    used = next((part.strip() for part in parts if part.strip().startswith("eslint ")), "eslint .")
    words = _OWN_REPORT.sub("", used).removeprefix("eslint").split()
    if any(set(word) & set("$`|;<>") for word in words):
        words = ["."]
    line = " ".join(("eslint", "-f", "json", *words))
    has_pattern = _NEEDS_SHELL.search(line)
    command = modules.shell(line) if modules.prepare or has_pattern else tuple(line.split())
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
