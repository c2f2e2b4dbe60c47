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
_LINKED = ". '{cache}/link.sh' && "
"""Links the packages into a checkout's own folder; `node_packages.py` wrote the script."""
_SCRIPT = "{scripts}/node_packages.py"
_REPORTERS = "{cache}/reporters"
_LOCKS = ("package-lock.json", "npm-shrinkwrap.json", "pnpm-lock.yaml", "yarn.lock")
_SETTINGS = (".npmrc", ".yarnrc", ".yarnrc.yml", "pnpm-workspace.yaml")
_MANIFEST = re.compile(r"(?:(?!node_modules/)[^/]+/){1,3}package\.json")
_NO_MEMBER = re.compile(
    r"(?:.*/)?(?:examples?|fixtures?|__fixtures__|tests?|__tests__|templates?|docs?|website|node_modules)/.*"
)
_MAX_MEMBERS = 200
_NO_TEST = "no test specified"
_FOLLOWED = re.compile(
    r"(?:npm run(?:-script)?|npm|yarn(?: run)?|pnpm(?: run)?)\s+([\w:.-]+)(?:\s+--(?:\s+.*)?)?"
)
_MAX_DEPTH = 5
_NEEDS_SHELL = re.compile(r"[*?\['\"\\$`]")
_VARIABLES = re.compile(r"(?:cross-env\s+)?((?:[A-Z_][A-Z0-9_]*=(?:'[^']*'|\"[^\"]*\"|\S*)\s+)*)")
_NODE = r"node(?:\s+(?:--?(?:import|require|loader|conditions|experimental-loader|env-file|r|C)\s+[^\s-]\S*|-(?!-test\b)\S+))*"
_RUNNER = re.compile(
    rf"(?:^|\s)(?:npx\s+)?((?:{_NODE}\s+)?(?:\./)?node_modules/(?:\.bin/)?(?P<path>vitest|jest|mocha|tape|ava)(?:/\S+)?"
    rf"|(?P<name>vitest|jest|mocha|tape|ava|tap)|(?P<react>react-scripts)\s+test|(?P<node>(?:{_NODE}|tsx)\s+--test))(?=\s|$)"
)
_NODE_FILE = re.compile(rf"(?:^|\s)(?P<start>{_NODE})\s+(?P<file>[\w./-]+)$")
_WRAPPER = re.compile(r"(?:npx\s+)?(?:nyc|c8)\s")
_WRAPPED_SCRIPT = re.compile(r"(?:npm run(?:-script)?|yarn|pnpm)\s+[\w:.-]+$")
_NO_BUILD = re.compile(
    r"(?:npx\s+)?(?:eslint|standard|xo|prettier|biome|tsd|tstyche|attw|publint|aud|npm audit|eclint|dtslint|echo)\b|tsc\b.*(?:--noEmit|tsconfig)"
)
_NO_TESTS = re.compile(r"(?:[\w-]+:)?(?:lint|format|fmt|style|prettier|eslint|audit)(?:[:.-].*)?")
"""Scripts that neither test nor build, and may write to the checkout."""
_AFTER = re.compile(
    r"(?:(?:npx|yarn|pnpm(?:\s+exec)?)\s+)?(?:tsc|del|del-cli|rimraf|rm|size-limit|cost-of-modules|flow|type-coverage|codecov|coveralls|bundlewatch|depcheck|knip"
    r"|(?:nyc|c8)\s+(?:report|check-coverage)|rollup|tsup|webpack|vite build|esbuild|unbuild|tsdown|microbundle|madge|cspell)\b"
    r"|(?:npm|yarn|pnpm)\s+(?:run\s+)?[\w:.-]*(?:lint|size|types?|typecheck|format|build|docs?|audit|coverage)[\w:.-]*$"
)
"""Commands that may follow the tests in a script and test nothing themselves."""
_REPORTED = {
    "vitest": ("junit", "run --reporter=default --reporter=junit --outputFile.junit='{report}'"),
    "jest": ("junit", "--ci --reporters=jest-junit"),
    "mocha": ("junit", "--no-diff --reporter=xunit -O output='{report}'"),
    "tape": ("tap", ""),
    "ava": ("tap", "--tap"),
    "tap": ("tap", "--reporter=tap --disable-coverage"),
    "node --test": ("junit", "--test-reporter=junit --test-reporter-destination='{report}'"),
}
"""For each runner, the parser of its report and the arguments that make it report."""
_OWN_REPORT = re.compile(
    r"\s(?:run(?=\s|$)|--coverage\S*|--watch\S*|(?:-R|--reporters?|--test-reporter|-f|--format)(?:=|\s+)\S+|--fix|--cache|--verbose|--typecheck\S*)"
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
        """A script's command; empty if there is none."""
        return str(self.scripts.get(name, ""))


class _Modules:
    """A project's packages, installed from its lock file and linked into each checkout. Empty if it needs none."""

    def __init__(self, project: Project, package: _Package) -> None:
        self.prepare = _prepare(project, package)

    def command(self, program: str, *words: str) -> tuple[str, ...]:
        """A program from the project's packages, with its arguments."""
        if self.prepare is None:
            return (program, *words)
        return self.shell(" ".join((program, *map(_quote_word, words))))

    def shell(self, line: str, before: str = "") -> tuple[str, ...]:
        """A shell command with the packages' programs in PATH, after other commands that must succeed."""
        linked = _LINKED if self.prepare else ""
        builds = f"{before} && " if before else ""
        is_set = line.split("=", maxsplit=1)[0].isupper() and "=" in line.split(maxsplit=1)[0]
        start = "" if is_set else "exec "
        return ("sh", "-c", f"{linked}{builds}{start}{line}".strip())


class _TestScript(NamedTuple):
    """The part of a package's test script that runs the tests."""

    runner: str
    start: str
    """The words that start it."""
    variables: str
    words: str
    builds: str
    """The commands before it, without linters."""
    more: str = ""
    """A second runner after it, which is not run."""


def propose(project: Project) -> GateProposals:
    """Proposes gates for the tools that the root package configures or depends on."""
    package = _package(project.text("package.json"))
    if package is None:
        return GateProposals()
    modules = _Modules(project, package)
    proposals = [
        made
        for made in (
            _tests(project, package, modules),
            _lint(project, package, modules),
            _types(project, package, modules),
        )
        if made is not None
    ]
    return GateProposals(gates=tuple(proposals))


def _tests(project: Project, package: _Package, modules: _Modules) -> GateProposal | None:
    script = package.script("test")
    test_script = _test_script(project, package)
    if test_script is None:
        depended = next((name for name in ("vitest", "jest", "mocha", "ava") if package.needs(name)), "")
        test_script = _TestScript(depended, depended, "", "", "") if depended else None
        why = f"package.json depends on {depended}"
    else:
        why = f'package.json has a script "test" that runs {test_script.runner}'
        why += (
            f"; it also runs `{test_script.more}`, which is not part of this gate" if test_script.more else ""
        )
    if test_script is not None:
        return _reported_tests(test_script, why, package, modules)
    if not script or _NO_TEST in script:
        return None
    command = (
        modules.shell("npm test --silent --ignore-scripts=false")
        if modules.prepare
        else ("npm", "test", "--silent")
    )
    why = 'package.json has a script "test"'
    return proposal("tests", command, "exit", why, require={"max_errors": 0.0}, prepare=modules.prepare)


def _reported_tests(script: _TestScript, why: str, package: _Package, modules: _Modules) -> GateProposal:
    """A test gate with a runner that reports the number of tests."""
    parser, report = _REPORTED[script.runner]
    prepare, variables = modules.prepare, script.variables
    if script.runner == "jest":
        variables = f"JEST_JUNIT_OUTPUT_FILE='{{report}}' {variables}"
        if prepare is None:
            why += "; with jest-junit its tests could be counted"
            command = modules.shell(
                f"{script.variables}{script.start}{script.words} --ci".strip(), script.builds
            )
            return proposal("tests", command, "exit", why, require={"max_errors": 0.0})
        if not package.needs("jest-junit"):
            report = report.replace("jest-junit", f"'{_REPORTERS}/node_modules/jest-junit'")
            prepare = GatePreparation(command=(*prepare.command, "--with", "jest-junit"), key=prepare.key)
            modules.prepare = prepare  # For the other gates, too, so that everything is installed once.
    start, words = script.start, script.words
    is_node = script.runner == "node --test"
    line = f"{variables}{start} {report}{words}" if is_node else f"{variables}{start}{words} {report}"
    plain = line.strip().replace("'{report}'", "{report}")
    is_plain = (
        modules.prepare is None and not variables and not script.builds and not _NEEDS_SHELL.search(plain)
    )
    command = tuple(plain.split()) if is_plain else modules.shell(line.strip(), script.builds)
    return proposal("tests", command, parser, why, require={"max_failures": 0.0}, prepare=prepare)


def _test_script(project: Project, package: _Package) -> _TestScript | None:
    """The runner in the test script or the scripts that it calls; None if it is none that reports."""
    parts = list(_script_parts(package, "test", _MAX_DEPTH))
    for place, part in enumerate(parts):
        runner = _runner_in(project, part)
        if runner is None:
            continue
        after = [
            later for later in parts[place + 1 :] if not (_NO_BUILD.search(later) or _AFTER.match(later))
        ]
        # Commands after it may be tests of another kind, and would not run.
        if not all(_runner_in(project, later) for later in after):
            return None
        builds = " && ".join(before for before in parts[:place] if not _NO_BUILD.search(before))
        return runner._replace(builds=builds, more=after[0] if after else "")
    return None


def _runner_in(project: Project, part: str) -> _TestScript | None:
    """The runner that one command of a script starts."""
    variables = _VARIABLES.match(part)
    rest = part[variables.end() :] if variables else part
    runner = _RUNNER.search(rest)
    if runner is None and (file := _NODE_FILE.search(rest)) and (file.start() == 0 or _WRAPPER.match(rest)):
        return _file_runner(project, file, variables[1] if variables else "")
    if runner is None or not (runner.start() == 0 or _WRAPPER.match(rest) or rest.startswith("npx ")):
        return None
    words = _OWN_REPORT.sub("", re.split(r"\s\|\s", rest[runner.end() :])[0])
    name = runner["path"] or runner["name"] or ("jest" if runner["react"] else "node --test")
    start = " ".join(runner[1].split())
    return _TestScript(name, start, variables[1] if variables else "", words.rstrip(), "")


def _file_runner(project: Project, file: re.Match[str], variables: str) -> _TestScript | None:
    """A test file that `node` runs directly."""
    name = file["file"].removeprefix("./").rstrip("/")
    text = project.text(project.first(name, f"{name}.js", f"{name}/index.js"))
    if re.search(r"""["']node:test["']|require\(["']test["']\)""", text):
        return _TestScript("node --test", file["start"], variables, f" {file['file']}", "")
    if re.search(r"""["']tape["']""", text):
        return _TestScript("tape", f"{file['start']} {file['file']}", variables, "", "")
    return None


def _script_parts(package: _Package, name: str, depth: int) -> Iterator[str]:
    """The commands of a script in order, with called scripts replaced by their commands."""
    if before := package.script(f"pre{name}"):
        yield from _command_parts(package, before, depth)
    yield from _command_parts(package, package.script(name), depth)


def _command_parts(package: _Package, script: str, depth: int) -> Iterator[str]:
    for part in filter(None, (part.strip() for part in script.split("&&"))):
        wrapped = _WRAPPED_SCRIPT.search(part) if _WRAPPER.match(part) else None
        named = _FOLLOWED.fullmatch(wrapped[0] if wrapped else part)
        if named and _NO_TESTS.fullmatch(named[1]):
            continue
        if named and package.script(named[1]) and depth:
            yield from _script_parts(package, named[1], depth - 1)
        else:
            yield part


def _lint(project: Project, package: _Package, modules: _Modules) -> GateProposal | None:
    own = project.paths_matching(_ESLINT_FILE)
    if package.needs("eslint") and (own or package.eslint_config):
        why = f"{own[0] if own else 'package.json'} configures eslint"
        line = " ".join(("eslint", "-f", "json", *_linter_words(package, "eslint")))
        has_pattern = _NEEDS_SHELL.search(line)
        command = modules.shell(line) if modules.prepare or has_pattern else tuple(line.split())
        return proposal("lint", command, "eslint", why, require={"max_errors": 0.0}, prepare=modules.prepare)
    if package.needs("xo"):
        command = modules.shell(" ".join(("xo", "--reporter=json", *_linter_words(package, "xo"))))
        why = "package.json depends on xo"
        return proposal("lint", command, "eslint", why, require={"max_errors": 0.0}, prepare=modules.prepare)
    if package.needs("@biomejs/biome") and (own_file := project.first("biome.json", "biome.jsonc")):
        words = _linter_words(package, "biome")
        is_check = words[:1] in (["check"], ["lint"], ["ci"])
        command = modules.shell(" ".join(("biome", *(words if is_check else ("lint", ".")))))
        why = f"{own_file} configures biome"
        return proposal("lint", command, "exit", why, require={"max_errors": 0.0}, prepare=modules.prepare)
    return None


def _linter_words(package: _Package, tool: str) -> list[str]:
    """The paths that the project's own scripts pass to a linter; the whole project if they pass none."""
    parts = [part.strip() for script in package.scripts.values() for part in str(script).split("&&")]
    used = next((part for part in parts if part.startswith(f"{tool} ") and "--fix" not in part), "")
    used = used or next((part for part in parts if part.startswith(f"{tool} ")), "")
    words = _OWN_REPORT.sub("", used).removeprefix(tool).split()
    has_more = any(set(word) & set("$`|;<>") for word in words)
    return words if words and not has_more else ["."]


def _types(project: Project, package: _Package, modules: _Modules) -> GateProposal | None:
    if not package.needs("typescript") or "tsconfig.json" not in project.paths:
        return None
    has_parts = '"references"' in project.text("tsconfig.json")
    how = ("--build",) if has_parts else ("--noEmit",)
    command = modules.command("tsc", *how, "--pretty", "false")
    why = "tsconfig.json is there"
    return proposal("types", command, "tsc", why, require={"max_errors": 0.0}, prepare=modules.prepare)


def _prepare(project: Project, package: _Package) -> GatePreparation | None:
    """How to install the packages, including those of workspace members; None if none are needed."""
    is_workspace = package.workspaces is not None or "packages:" in project.text("pnpm-workspace.yaml")
    if not (package.dependencies or package.dev_dependencies or is_workspace):
        return None
    members = [path for path in project.paths_matching(_MANIFEST) if not _NO_MEMBER.fullmatch(path)]
    settings = [path for path in _SETTINGS if path in project.paths]
    lock = project.first(*_LOCKS) if project.uses_lock else ""
    key = (
        "package.json",
        *filter(None, [lock]),
        *settings,
        *(members[:_MAX_MEMBERS] if is_workspace else ()),
    )
    free = () if lock or not project.first(*_LOCKS) else ("--no-lock",)
    return GatePreparation(command=("python3", _SCRIPT, "{cache}", *free), key=key)


def _package(text: str) -> _Package | None:
    try:
        return msgspec.json.decode(text, type=_Package) if text else None
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return None


def _quote_word(word: str) -> str:
    """Quotes a word for a shell; placeholders are replaced later, by paths that may contain spaces."""
    return f"'{word}'" if "{" in word else shlex.quote(word)
