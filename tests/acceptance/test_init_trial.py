"""`remand init` ends with what the proposed gates measure, and leaves out those that do not work."""

import shutil
import tomllib

import pytest

from tests.integration.machine import Machine, Repository

pytestmark = pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")

PACKAGE = '{"type": "module", "scripts": {"test": "%s"}}\n'
TEST = 'import { test } from "node:test";\n\ntest("one", () => {});\ntest("two", () => {});\n'


def project(machine: Machine, script: str, name: str = "repo", tests: str = TEST) -> Repository:
    repository = machine.repository(name, config=None)
    (repository.path / "package.json").write_text(PACKAGE % script)
    (repository.path / "a.test.js").write_text(tests)
    repository.git("add", "-A")
    repository.git("commit", "-q", "-m", "a project")
    return repository


def test_what_the_gates_measure_is_shown(machine: Machine) -> None:
    repository = project(machine, "node --test")

    shown = repository.people("init").out
    assert "Measured on HEAD:\n  Tests    2 passed" in shown
    assert "tests" in tomllib.loads((repository.path / "remand.toml").read_text())["gates"]


def test_a_gate_that_does_not_work_is_left_out_with_its_cause(machine: Machine) -> None:
    repository = project(machine, "node ./nowhere.js")

    (trial,) = repository.ok("init")["baseline"]
    text = (repository.path / "remand.toml").read_text()
    assert "Cannot find module" in trial["fault"]
    assert tomllib.loads(text)["gates"] == {}
    assert '# [gates.tests]\n# command = ["npm", "test", "--silent"]' in text
    assert "Left out, as it does not work yet: It fails here already" in text


def test_a_script_reads_how_each_gate_stands(machine: Machine) -> None:
    def baseline(script: str, *more: str) -> list[dict[str, object]]:
        repository = project(machine, script, *more)
        found: list[dict[str, object]] = repository.ok("init")["baseline"]
        return found

    (right,) = baseline("node --test")
    (failing,) = baseline(
        "node --test", "failing", TEST + 'test("three", () => { throw new Error("no"); });\n'
    )
    (broken,) = baseline("node ./nowhere.js", "broken")

    assert (right["status"], right["fix"], str(right["line"])[:8]) == ("passed", None, "2 passed")
    assert (failing["status"], "the base has these" in str(failing["line"])) == ("failed", True)
    assert (broken["status"], "commented out in remand.toml" in str(broken["line"])) == ("errored", True)


def test_the_trial_can_be_left_out(machine: Machine) -> None:
    repository = project(machine, "node ./nowhere.js")

    assert repository.ok("init", "--no-trial")["baseline"] == []
    assert "tests" in tomllib.loads((repository.path / "remand.toml").read_text())["gates"]


BROKEN = """
[gates.tests]
command = ["python3", "-m", "no_such_module"]
parser = "exit"

[gates.lint]
command = ["{cache}/bin/lint"]
parser = "exit"
prepare = {command = ["sh", "-c", "echo 'error: no such registry' >&2; exit 3"]}

[gates.types]
command = ["{cache}/bin/types"]
parser = "exit"
prepare = {command = ["true"]}
"""


def test_doctor_tries_prepare_steps_programs_and_modules_and_names_the_line_to_change(
    machine: Machine,
) -> None:
    repository = machine.repository(config=BROKEN)

    said = repository.call("doctor")
    found = {check["name"]: check for check in said.data["checks"]}
    assert said.code == 1
    assert found["gate tests"]["detail"] == "`python3` has no module `no_such_module`"
    assert "[gates.tests] of remand.toml" in found["gate tests"]["fix"]
    assert "error: no such registry" in found["gate lint"]["detail"]
    assert found["gate lint"]["fix"] == "Change `prepare` in [gates.lint] of remand.toml on the base branch."
    assert found["gate types"]["detail"] == "program `{cache}/bin/types` was not found"
    shown = repository.people("doctor").out
    assert "attacks by an agent were blocked\n" in shown
    assert "attacks by an agent were blocked:" in repository.people("doctor", "--verbose").out


def test_a_gate_that_was_left_out_is_tried_again_by_the_next_init(machine: Machine) -> None:
    repository = project(machine, "node ./nowhere.js")
    repository.ok("init")
    (repository.path / "nowhere.js").write_text("")
    repository.git("add", "-A")
    repository.git("commit", "-q", "-m", "now it works")

    (trial,) = repository.ok("init")["baseline"]

    assert trial["fault"] is None
    text = (repository.path / "remand.toml").read_text()
    assert [*tomllib.loads(text)["gates"]] == ["tests"]
    assert "Left out" not in text
    assert repository.ok("init")["baseline"] == []


def test_a_lock_file_that_cannot_be_installed_is_done_without_and_that_is_said(machine: Machine) -> None:
    repository = project(machine, "node --test")
    package = (
        '{"type": "module", "scripts": {"test": "node --test"}, "devDependencies": {"left": "file:./left"}}\n'
    )
    (repository.path / "package.json").write_text(package)
    (repository.path / "package-lock.json").write_text('{"lockfileVersion": 3, "packages": {}}\n')
    (repository.path / "left").mkdir()
    (repository.path / "left" / "package.json").write_text('{"name": "left", "version": "1.0.0"}\n')
    repository.git("add", "-A")
    repository.git("commit", "-q", "-m", "a lock file that does not fit")

    (trial,) = repository.ok("init")["baseline"]

    assert (trial["fault"], trial["figures"]["tests"]) == (None, 2)
    text = (repository.path / "remand.toml").read_text()
    assert "without the lock file, which cannot be installed here" in text
    assert '"--no-lock"' in text
