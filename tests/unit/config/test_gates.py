"""Holds what may be said of gates in the configuration, and that what is wrong is named with its remedy."""

import msgspec
import pytest
from msgspec.structs import replace

from remand.config import ConfigError, parse
from remand.config.gates import LOCK_FILES, MAX_GATES, parse_gate_policy
from remand.domain.gate.gate import Gate, GateMode, GatePolicy, GatePreparation

TESTS = '[gates.tests]\ncommand = ["pytest"]\n'
WHOLE = """
[gates.tests]
command = ["python", "-m", "pytest", "--junitxml={report}"]
parser = "junit"
require = {max_failures = 0, min_coverage = 80.5}
timeout = "20m"
mode = "strict"
paths = ["src/**", "tests/**"]
required = false
prepare = {command = ["uv", "sync", "--target", "{cache}"], key = ["uv.lock"], timeout = "90s"}
retries = 2
labels = ["node22", "linux", "linux"]

[gates.integrity]
protected = ["ci/**"]

[policy]
enforce = false

[sandbox]
read = ["/opt/tools"]
path = [".venv/bin"]
probes = [["pytest", "-q"], ["make"]]
hosts = ["example.org"]
"""


def the_gate(text: str) -> Gate:
    (gate,) = parse(text).gate_policy.gates or ()
    return gate


def error(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        parse(text)
    return str(caught.value)


def test_everything_that_can_be_said_of_gates_is_read() -> None:
    assert parse(WHOLE).gate_policy == GatePolicy(
        gates=(
            Gate(
                name="tests",
                command=("python", "-m", "pytest", "--junitxml={report}"),
                parser="junit",
                require={"max_failures": 0, "min_coverage": 80.5},
                timeout=1200,
                mode=GateMode.STRICT,
                paths=("src/**", "tests/**"),
                required=False,
                prepare=GatePreparation(
                    command=("uv", "sync", "--target", "{cache}"), key=("uv.lock",), timeout=90
                ),
                retries=2,
                labels=("linux", "node22"),
            ),
        ),
        integrity=True,
        protected=("ci/**",),
        enforce=False,
        read=("/opt/tools",),
        path=(".venv/bin",),
        probes=(("pytest", "-q"), ("make",)),
        hosts=("example.org",),
    )


def test_a_gate_is_a_command_and_the_rest_is_standard() -> None:
    assert the_gate(TESTS) == Gate(
        name="tests",
        command=("pytest",),
        parser="exit",
        require={},
        timeout=600,
        mode=GateMode.DELTA,
        paths=(),
        required=True,
        prepare=None,
        retries=0,
    )


def test_without_a_word_about_it_gates_are_enforced_and_watched_over() -> None:
    policy = parse(TESTS).gate_policy

    assert (policy.enforce, policy.integrity, policy.protected) == (True, True, ())


def test_gates_keep_their_order_and_the_integrity_gate_is_none_of_them() -> None:
    text = "".join(f'[gates.{name}]\ncommand = ["x"]\n' for name in ("tests", "build", "a-lint_2"))

    assert parse(f"{text}[gates.integrity]").gates == ("tests", "build", "a-lint_2")


def test_the_number_of_suppressions_is_bounded_only_where_the_project_says_so() -> None:
    assert parse(TESTS).gate_policy.max_suppressions is None
    assert parse("[gates.integrity]\nmax_suppressions = 0").gate_policy.max_suppressions == 0


def test_a_gate_can_be_switched_off() -> None:
    assert parse(f"{TESTS}enabled = false").gates == ()
    assert parse("[gates.integrity]\nenabled = false").gate_policy.integrity is False


@pytest.mark.parametrize(
    ("line", "mode"),
    [
        ("", GateMode.DELTA),
        ("mode = 'delta'", GateMode.DELTA),
        ("mode = 'ratchet'", GateMode.RATCHET),
        ("mode = 'strict'", GateMode.STRICT),
        ("ratchet = true", GateMode.RATCHET),
        ("ratchet = false", GateMode.DELTA),
    ],
)
def test_a_mode_is_named_or_a_ratchet(line: str, mode: GateMode) -> None:
    assert the_gate(TESTS + line).mode is mode


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ('["uv", "sync"]', GatePreparation(command=("uv", "sync"), key=LOCK_FILES, timeout=900)),
        ('{command = ["uv"]}', GatePreparation(command=("uv",), key=LOCK_FILES, timeout=900)),
        ('{command = ["uv"], key = []}', GatePreparation(command=("uv",), key=(), timeout=900)),
        (
            '{command = ["uv"], key = ["a.lock"], timeout = "1h"}',
            GatePreparation(command=("uv",), key=("a.lock",), timeout=3600),
        ),
    ],
)
def test_what_prepares_a_gate_is_a_command_or_a_table(value: str, expected: GatePreparation) -> None:
    assert the_gate(f"{TESTS}prepare = {value}").prepare == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("{max_errors = 0}", {"max_errors": 0}),
        ("{min_coverage = 79.5}", {"min_coverage": 79.5}),
        ("{}", {}),
    ],
)
def test_thresholds_name_a_figure_and_a_number(value: str, expected: dict[str, float]) -> None:
    assert the_gate(f"{TESTS}require = {value}").require == expected


@pytest.mark.parametrize("name", ["a", "a" * 32, "e2e", "type-check", "unit_tests"])
def test_a_gates_name_is_a_short_word(name: str) -> None:
    assert the_gate(f'[gates.{name}]\ncommand = ["x"]').name == name


@pytest.mark.parametrize("name", ["Tests", "1st", "_x", '"ä"', '"a b"', '""', "a" * 33, '"a/b"', '"a\\nb"'])
def test_another_name_is_none(name: str) -> None:
    message = error(f'[gates.{name}]\ncommand = ["x"]')

    assert "is not a gate name" in message
    assert "32 small letters" in message


def test_there_are_so_many_gates_and_no_more() -> None:
    def gates(count: int) -> str:
        return "".join(f'[gates.g{number}]\ncommand = ["x"]\n' for number in range(count))

    assert len(parse(gates(MAX_GATES)).gates or ()) == MAX_GATES
    assert f"at most {MAX_GATES}" in error(gates(MAX_GATES + 1))


@pytest.mark.parametrize(
    ("line", "key", "remedy"),
    [
        ("comand = ['x']", "comand", "did you mean `command`?"),
        ("modes = 'delta'", "modes", "did you mean `mode`?"),
        ("parser = 1", "parser", "must be text"),
        ("require = 0", "require", "max_errors = 0"),
        ("require = {errors = 0}", "require.errors", "max_ or min_"),
        ("require = {max_ = 0}", "require.max_", "max_ or min_"),
        ("require = {max_Errors = 0}", "require.max_Errors", "max_ or min_"),
        ("require = {max_errors = -1}", "require.max_errors", "at least 0"),
        ("require = {max_errors = true}", "require.max_errors", "number"),
        ("require = {max_errors = '0'}", "require.max_errors", "number"),
        ("require = {max_errors = nan}", "require.max_errors", "number"),
        ("require = {max_errors = inf}", "require.max_errors", "number"),
        ("require = {max_errors = 1e12}", "require.max_errors", "number"),
        ("timeout = 60", "timeout", '"10m"'),
        ("timeout = '0s'", "timeout", '"10m"'),
        ("timeout = '7h'", "timeout", '"6h"'),
        ("mode = 'loose'", "mode", "delta, ratchet, strict"),
        ("mode = 1", "mode", "must be text"),
        ("mode = 'strict'\nratchet = true", "ratchet", "keep one"),
        ("ratchet = 'yes'", "ratchet", "true or false"),
        ("paths = 'src'", "paths", "list"),
        ("paths = [1]", "paths", "list"),
        ("paths = ['']", "paths", "repository's root"),
        ("paths = ['/etc/**']", "paths", "repository's root"),
        ("paths = ['src/../../x']", "paths", "repository's root"),
        ('paths = ["a\\u0000b"]', "paths", "repository's root"),
        ("required = 1", "required", "true or false"),
        ("enabled = 'no'", "enabled", "true or false"),
        ("prepare = 'uv sync'", "prepare.command", "list"),
        ("prepare = []", "prepare", "leave it out"),
        ("prepare = ['']", "prepare", "leave it out"),
        ("prepare = {}", "prepare", "leave it out"),
        ("prepare = {comand = ['x']}", "prepare.comand", "did you mean `command`?"),
        ("prepare = {command = ['x'], key = 'a'}", "prepare.key", "list"),
        ("prepare = {command = ['x'], key = ['/a']}", "prepare.key", "repository's root"),
        ("prepare = ['x', '{home}']", "prepare.command", "{report} and {cache}"),
        ("prepare = {command = ['x'], timeout = 1}", "prepare.timeout", '"10m"'),
        ("prepare = {command = ['x'], timeout = '2d'}", "prepare.timeout", '"6h"'),
        ("retries = -1", "retries", "at least 0"),
        ("retries = 6", "retries", "at most 5"),
        ("retries = true", "retries", "whole number"),
        ("labels = 'linux'", "labels", "list"),
        ("labels = ['Linux, x64']", "labels", "small letters"),
        ("labels = ['a','b','c','d','e','f','g','h','i']", "labels", "at most 8"),
    ],
)
def test_a_wrong_value_of_a_gate_is_named_with_its_remedy(line: str, key: str, remedy: str) -> None:
    message = error(TESTS + line)

    assert message.startswith("remand.toml")
    assert f"`gates.tests.{key}`" in message
    assert remedy in message


@pytest.mark.parametrize("value", ["", "command = []", "command = ['']", "command = [' ']"])
def test_a_gate_without_a_command_is_none(value: str) -> None:
    message = error(f"[gates.tests]\n{value}")

    assert "`gates.tests.command`" in message
    assert '["make", "test"]' in message


@pytest.mark.parametrize(
    ("command", "remedy"),
    [
        ('["x", "{reports}"]', "{report} and {cache}"),
        ('["x", "--out={cache}/a"]', "`prepare` step"),
        ('["x", "a\\u0000b"]', "NUL"),
    ],
)
def test_a_command_holds_nothing_that_nothing_fills(command: str, remedy: str) -> None:
    message = error(f"[gates.tests]\ncommand = {command}")

    assert "`gates.tests.command`" in message
    assert remedy in message


def test_a_command_may_hold_braces_of_its_own() -> None:
    words = ("sh", "-c", "echo ${HOME} {1..3} {} {A} {report}")

    assert the_gate(f"[gates.tests]\ncommand = {list(words)}").command == words


def test_a_command_is_a_list_of_words() -> None:
    assert "`gates.tests.command`" in error("[gates.tests]\ncommand = 'pytest -q'")


@pytest.mark.parametrize(
    ("text", "key", "remedy"),
    [
        ("gates = []", "gates", "[gates]"),
        ("[gates]\ntests = 'pytest'", "gates.tests", "[gates.tests]"),
        ("[gates]\nintegrity = true", "gates.integrity", "[gates.integrity]"),
        ("[gates.integrity]\nenable = true", "gates.integrity.enable", "did you mean `enabled`?"),
        ("[gates.integrity]\ncommand = ['x']", "gates.integrity.command", "enabled, protected"),
        ("[gates.integrity]\nenabled = 1", "gates.integrity.enabled", "true or false"),
        ("[gates.integrity]\nmax_suppressions = -1", "gates.integrity.max_suppressions", "0"),
        ("[gates.integrity]\nprotected = 'ci'", "gates.integrity.protected", "list"),
        ("[gates.integrity]\nprotected = ['../x']", "gates.integrity.protected", "repository's root"),
        ("[policy]\nenforce = 'no'", "policy.enforce", "true or false"),
        ("[policy]\nenforced = false", "policy.enforced", "did you mean `enforce`?"),
        ("sandbox = 1", "sandbox", "[sandbox]"),
        ("[sandbox]\nreads = []", "sandbox.reads", "did you mean `read`?"),
        ("[sandbox]\nread = '/opt'", "sandbox.read", "list"),
        ("[sandbox]\npath = 1", "sandbox.path", "list"),
        ("[sandbox]\nhosts = 'x'", "sandbox.hosts", "list"),
        ("[sandbox]\nprobes = 'pytest'", "sandbox.probes", '[["pytest"]]'),
        ("[sandbox]\nprobes = ['pytest']", "sandbox.probes[0]", "list"),
        ("[sandbox]\nprobes = [['a'], [1]]", "sandbox.probes[1]", "list"),
        ("[sandbox]\nprobes = [[]]", "sandbox.probes", "empty"),
    ],
)
def test_what_is_wrong_beside_the_gates_is_named_with_its_remedy(text: str, key: str, remedy: str) -> None:
    message = error(text)

    assert message.startswith("remand.toml")
    assert f"`{key}`" in message
    assert remedy in message


@pytest.mark.parametrize("name", ["alert_after_gates", "escalate_after_gates"])
def test_when_to_alert_and_to_escalate_is_a_count(name: str) -> None:
    assert getattr(parse(f"[policy]\n{name} = 5").policy, name) == 5
    for value in ("0", "-1", "true", "'3'", "1.5"):
        assert f"`policy.{name}`" in error(f"[policy]\n{name} = {value}")


def test_without_a_word_about_it_three_alert_and_eight_escalate() -> None:
    policy = parse("").policy

    assert (policy.alert_after_gates, policy.escalate_after_gates) == (3, 8)


def test_labels_that_no_gate_has_leave_the_digest_of_the_rules_as_it_was() -> None:
    plain = the_gate(TESTS)

    assert "labels" not in msgspec.json.decode(msgspec.json.encode(plain))
    assert GatePolicy(gates=(plain, replace(plain, labels=("b", "a")))).labels == ("a", "b")


def test_the_checks_by_runs_can_be_switched_off_one_by_one() -> None:
    def checks(**integrity: object) -> tuple[str, ...]:
        return parse_gate_policy({"gates": {"integrity": integrity}}).runs

    assert checks() == ("results", "assertions", "base-tests", "new-tests", "mutants")
    assert checks(runs=["new-tests", "results"]) == ("results", "new-tests")
    assert checks(runs=[]) == ()
    with pytest.raises(ConfigError, match=r"`gates\.integrity\.runs` has `all`"):
        checks(runs=["all"])
