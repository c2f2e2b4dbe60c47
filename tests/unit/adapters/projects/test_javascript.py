"""JavaScript and TypeScript projects get the gates that their own files speak for."""

import json

import pytest

from tests.unit.adapters.projects.project_trees import gates, proposed

LINKED = ". '{cache}/link.sh' && "


def package(**fields: object) -> dict[str, str]:
    return {"package.json": json.dumps(fields)}


def needing(*names: str, **fields: object) -> dict[str, str]:
    return package(devDependencies=dict.fromkeys(names, "*"), **fields)


MODERN = {
    **needing("vitest", "eslint", "typescript"),
    "package-lock.json": "{}",
    "eslint.config.js": "export default [];\n",
    "tsconfig.json": "{}",
    "src/a.ts": "",
}


def test_vitest_eslint_and_tsc_become_tests_lint_and_types() -> None:
    found = gates(MODERN)

    assert found["tests"].command == (
        *("sh", "-c"),
        f"{LINKED}exec vitest run --reporter=default --reporter=junit --outputFile.junit='{{report}}'",
    )
    assert found["lint"].command[-1] == f"{LINKED}exec eslint -f json ."
    assert found["types"].command[-1] == f"{LINKED}exec tsc --noEmit --pretty false"
    assert [gate.parser for gate in found.values()] == ["junit", "eslint", "tsc"]


@pytest.mark.parametrize("lock", ["package-lock.json", "pnpm-lock.yaml", "yarn.lock", ""])
def test_packages_are_made_from_the_lock_file_apart_from_the_checkout(lock: str) -> None:
    files = needing("vitest") | ({lock: ""} if lock else {})
    prepare = gates(files)["tests"].prepare

    assert prepare is not None
    assert prepare.key == tuple(filter(None, ("package.json", lock)))
    assert prepare.command == ("python3", "{scripts}/node_packages.py", "{cache}")


@pytest.mark.parametrize("name", [".yarnrc.yml", "pnpm-workspace.yaml", ".npmrc"])
def test_a_package_managers_settings_count_for_what_is_installed(name: str) -> None:
    prepare = gates({**MODERN, name: ""})["tests"].prepare

    assert prepare is not None
    assert prepare.key == ("package.json", "package-lock.json", name)


@pytest.mark.parametrize(
    "files",
    [
        needing("vitest", workspaces=["packages/*"]),
        needing("vitest") | {"pnpm-workspace.yaml": "packages:\n  - packages/*\n"},
    ],
    ids=["npm", "pnpm"],
)
def test_a_workspaces_members_count_for_what_is_installed(files: dict[str, str]) -> None:
    members = {"packages/a/package.json": "{}", "packages/a/test/fixtures/x/package.json": "{}"}
    prepare = gates(files | members)["tests"].prepare

    assert prepare is not None
    assert "packages/a/package.json" in prepare.key
    assert "packages/a/test/fixtures/x/package.json" not in prepare.key


def test_jest_is_counted_where_it_can_write_a_report() -> None:
    counted = gates(needing("jest", "jest-junit"))["tests"]
    plain = gates(needing("jest"))["tests"]

    assert counted.parser == "junit"
    assert "JEST_JUNIT_OUTPUT_FILE='{report}' jest --ci --reporters=jest-junit" in counted.command[-1]
    assert plain.parser == "junit"
    assert "--reporters='{cache}/reporters/node_modules/jest-junit'" in plain.command[-1]
    assert plain.prepare is not None
    assert plain.prepare.command[-2:] == ("--with", "jest-junit")


def test_every_gate_of_a_project_shares_one_prepare_step() -> None:
    found = gates({**needing("jest", "typescript"), "tsconfig.json": "{}"})

    assert found["tests"].prepare == found["types"].prepare


@pytest.mark.parametrize(
    ("scripts", "line", "parser"),
    [
        (
            {"test": "npm run tests-only", "tests-only": "nyc tape 'test/**/*.js'"},
            "exec tape 'test/**/*.js'",
            "tap",
        ),
        (
            {"test": "npm run lint && npm run unit", "lint": "eslint .", "unit": "tape a.js"},
            "exec tape a.js",
            "tap",
        ),
        (
            {"test": "c8 --100 node --test"},
            "exec node --test --test-reporter=junit --test-reporter-destination='{report}'",
            "junit",
        ),
        (
            {"test": "nyc npm run spec", "spec": "mocha spec -R spec"},
            "exec mocha spec --no-diff --reporter=xunit -O output='{report}'",
            "junit",
        ),
        (
            {"test": "xo && tsc --noEmit && NODE_OPTIONS='--import=tsx' ava"},
            "NODE_OPTIONS='--import=tsx' ava --tap",
            "tap",
        ),
        (
            {"test": "npm run build && mocha", "build": "rollup -c"},
            "rollup -c && exec mocha --no-diff --reporter=xunit -O output='{report}'",
            "junit",
        ),
        (
            {"pretest": "npm run build", "test": "mocha", "build": "rollup -c"},
            "rollup -c && exec mocha --no-diff --reporter=xunit -O output='{report}'",
            "junit",
        ),
        (
            {"test": "xo && node --import=tsx/esm --test test/*.ts && del-cli dist && tsc && tsd"},
            "exec node --import=tsx/esm --test --test-reporter=junit --test-reporter-destination='{report}' test/*.ts",
            "junit",
        ),
        (
            {"test": "A=b node -r esm node_modules/.bin/mocha a"},
            "A=b node -r esm node_modules/.bin/mocha a --no-diff --reporter=xunit -O output='{report}'",
            "junit",
        ),
        (
            {"test": "vitest run && yarn again && yarn flow check a", "again": "vitest run --config b.ts"},
            "exec vitest run --reporter=default --reporter=junit --outputFile.junit='{report}'",
            "junit",
        ),
        (
            {"test": "tsx --test a.test.ts"},
            "exec tsx --test --test-reporter=junit --test-reporter-destination='{report}' a.test.ts",
            "junit",
        ),
    ],
    ids=["tape", "lint first", "node", "mocha", "ava", "build", "before", "flags", "path", "several", "tsx"],
)
def test_the_runner_is_found_in_the_scripts_that_a_script_runs(
    scripts: dict[str, str], line: str, parser: str
) -> None:
    gate = gates(needing("x", scripts=scripts))["tests"]

    assert (gate.command[-1], gate.parser) == (LINKED + line, parser)


@pytest.mark.parametrize(
    ("text", "line", "parser"),
    [
        (
            "import test from 'node:test'",
            "exec node -C dev --test-reporter=junit --test-reporter-destination='{report}' test",
            "junit",
        ),
        ('const test = require("tape")', "exec node -C dev test", "tap"),
    ],
    ids=["node:test", "tape"],
)
def test_a_file_of_tests_that_node_runs_by_itself_is_counted(text: str, line: str, parser: str) -> None:
    files = needing("x", scripts={"test": "c8 node -C dev test"}) | {"test/index.js": text}
    gate = gates(files)["tests"]

    assert (gate.command[-1], gate.parser) == (LINKED + line, parser)


def test_a_second_runner_is_named_as_one_that_does_not_count() -> None:
    found = proposed(needing("x", scripts={"test": "jest && jest --env edge"})).gates[0]

    assert "`jest --env edge`, which is not part of this gate" in found.why


def test_xo_and_biome_become_lint() -> None:
    xo = gates(needing("xo", scripts={"test": "xo && ava"}))["lint"]
    biome = {**needing("@biomejs/biome", scripts={"lint": "biome check src"}), "biome.json": "{}"}

    assert (xo.command[-1], xo.parser) == (f"{LINKED}exec xo --reporter=json .", "eslint")
    assert gates(biome)["lint"].command[-1] == f"{LINKED}exec biome check src"


def test_eslint_looks_at_the_files_that_the_projects_own_script_names() -> None:
    files = {**needing("eslint", scripts={"lint": "eslint --fix --ext js,ts ."}), ".eslintrc": "{}"}

    assert gates(files)["lint"].command[-1] == f"{LINKED}exec eslint -f json --ext js,ts ."


def test_mocha_writes_a_report_of_its_own() -> None:
    gate = gates(needing("mocha"))["tests"]

    assert gate.parser == "junit"
    assert "-O output='{report}'" in gate.command[-1]


def test_nodes_own_tests_are_run_as_the_script_does() -> None:
    start = ("node", "--test", "--test-reporter=junit")

    assert gates(package(scripts={"test": "node --test"}))["tests"].command == (
        *start,
        "--test-reporter-destination={report}",
    )
    assert gates(package(scripts={"test": "node --test test/"}))["tests"].command[-1] == "test/"
    assert gates(package(scripts={"test": "node --test test/*.js"}))["tests"].command == (
        *("sh", "-c"),
        f"exec {' '.join(start)} --test-reporter-destination='{{report}}' test/*.js",
    )


def test_of_any_other_test_script_the_exit_status_is_known() -> None:
    gate = gates(package(scripts={"test": "node --test && ./more.sh"}))["tests"]

    assert (gate.command, gate.parser) == (("npm", "test", "--silent"), "exit")


@pytest.mark.parametrize(
    "files",
    [
        package(scripts={"test": 'echo "Error: no test specified" && exit 1'}),
        needing("eslint"),
        {**package(), "eslint.config.js": ""},
        {**package(), "tsconfig.json": "{}"},
        needing("typescript"),
        {"package.json": "{"},
        {"package.json": "[" * 50_000},
        {"package.json": '{"dependencies": 3}'},
        {"web/package.json": "{}"},
    ],
    ids=["no tests", "no config", "no eslint", "no tsc", "no project", "broken", "deep", "odd", "elsewhere"],
)
def test_what_is_not_set_up_is_not_proposed(files: dict[str, str]) -> None:
    assert gates(files) == {}


def test_a_project_of_several_parts_is_built_by_tsc() -> None:
    files = {**needing("typescript"), "tsconfig.json": '{"files": [], "references": [{"path": "a"}]}'}

    assert "tsc --build --pretty false" in gates(files)["types"].command[-1]
