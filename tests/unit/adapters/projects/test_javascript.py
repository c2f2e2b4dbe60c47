"""JavaScript and TypeScript projects get the gates that their own files speak for."""

import json

import pytest

from tests.unit.adapters.projects.project_trees import gates, proposed

LINKED = (
    "mkdir -p node_modules && ln -sfn '{cache}'/node_modules/* '{cache}'/node_modules/.[!.]* node_modules/ && "
    'PATH="$PWD/node_modules/.bin:$PATH" && '
)


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
        f"{LINKED}exec vitest run --reporter=junit --outputFile='{{report}}'",
    )
    assert found["lint"].command[-1] == f"{LINKED}exec eslint -f json ."
    assert found["types"].command[-1] == f"{LINKED}exec tsc --noEmit --pretty false"
    assert [gate.parser for gate in found.values()] == ["junit", "eslint", "tsc"]


@pytest.mark.parametrize(
    ("lock", "tool"),
    [
        ("package-lock.json", "npm ci"),
        ("pnpm-lock.yaml", "pnpm install"),
        ("yarn.lock", "yarn install"),
        ("", "npm install"),
    ],
)
def test_packages_are_made_from_the_lock_file_apart_from_the_checkout(lock: str, tool: str) -> None:
    files = needing("vitest") | ({lock: ""} if lock else {})
    prepare = gates(files)["tests"].prepare

    assert prepare is not None
    assert prepare.key == tuple(filter(None, ("package.json", lock)))
    assert f"cd '{{cache}}' && {tool}" in prepare.command[-1]
    assert "--ignore-scripts" in prepare.command[-1]


@pytest.mark.parametrize("files", [{".yarnrc.yml": ""}, {"pnpm-workspace.yaml": ""}], ids=["yarn", "pnpm"])
def test_what_cannot_be_prepared_so_is_left_to_the_main_worktree(files: dict[str, str]) -> None:
    found = proposed({**MODERN, **files}, "node_modules/.bin")

    assert found.path == ("node_modules/.bin",)
    assert found.gates[0].gate.command[0] == "vitest"
    assert found.gates[0].gate.prepare is None


def test_a_workspace_is_left_to_the_main_worktree() -> None:
    assert proposed(needing("vitest", workspaces=["packages/*"]), "node_modules/.bin").path == (
        "node_modules/.bin",
    )


def test_jest_is_counted_where_it_can_write_a_report() -> None:
    counted = gates(needing("jest", "jest-junit"))["tests"]
    plain = gates(needing("jest"))["tests"]

    assert counted.parser == "junit"
    assert "JEST_JUNIT_OUTPUT_FILE='{report}' jest --ci --reporters=jest-junit" in counted.command[-1]
    assert plain.parser == "junit"
    assert "--reporters='{cache}/reporters/node_modules/jest-junit'" in plain.command[-1]
    assert plain.prepare is not None
    assert "--prefix '{cache}/reporters' jest-junit" in plain.prepare.command[-1]
    assert gates(needing("jest", workspaces=["a"]))["tests"].parser == "exit"


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
            "exec mocha spec --reporter=xunit --reporter-option=output='{report}'",
            "junit",
        ),
        (
            {"test": "xo && tsc --noEmit && NODE_OPTIONS='--import=tsx' ava"},
            "NODE_OPTIONS='--import=tsx' ava --tap",
            "tap",
        ),
        (
            {"test": "npm run build && mocha", "build": "rollup -c"},
            "rollup -c && exec mocha --reporter=xunit --reporter-option=output='{report}'",
            "junit",
        ),
    ],
    ids=["tape", "lint first", "node", "mocha", "ava", "build"],
)
def test_the_runner_is_found_in_the_scripts_that_a_script_runs(
    scripts: dict[str, str], line: str, parser: str
) -> None:
    gate = gates(needing("x", scripts=scripts))["tests"]

    assert (gate.command[-1], gate.parser) == (LINKED + line, parser)


def test_eslint_looks_at_the_files_that_the_projects_own_script_names() -> None:
    files = {**needing("eslint", scripts={"lint": "eslint --fix --ext js,ts ."}), ".eslintrc": "{}"}

    assert gates(files)["lint"].command[-1] == f"{LINKED}exec eslint -f json --ext js,ts ."


def test_mocha_writes_a_report_of_its_own() -> None:
    gate = gates(needing("mocha"))["tests"]

    assert gate.parser == "junit"
    assert "--reporter-option=output='{report}'" in gate.command[-1]


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
