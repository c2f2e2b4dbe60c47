"""Holds which attempts are borne out by what was run, on a labelled table, and that a made-up one never is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remand.domain.evidence.attempts import ToolUse, find_supporting_use, read_calls

NOW = "2026-11-15T09:00:00.000000Z"


def shell(command: str, exit_status: int | None = 0, output: str = "") -> ToolUse:
    """A command line that was run."""
    return ToolUse(ts=NOW, tool="Bash", command=command, exit_status=exit_status, excerpt=output)


def tool(name: str, *paths: str) -> ToolUse:
    """A tool that is no shell."""
    return ToolUse(ts=NOW, tool=name, paths=paths)


LOGIN = shell(
    "cd /home/dev/shop && python -m pytest tests/test_login.py -x -q 2>&1 | tail -20",
    0,
    "FAILED tests/test_login.py::test_expired - AssertionError: token expired\n1 failed, 12 passed in 0.31s",
)
SUITE = shell("pytest -q", 1, "22 failed, 40 passed\nE   HTTP 403 Forbidden")
GREP = shell("grep -rn smtplib src/ | wc -l", 0, "14")
READ = tool("Read", "/home/dev/shop/src/mailer.py")
EDIT = tool("Edit", "/home/dev/shop/src/client.py")
NPM = shell(
    "npm install --legacy-peer-deps", 1, "npm ERR! code ERESOLVE\nnpm ERR! could not resolve react@18.2.0"
)
CURL = shell("curl -s -o /dev/null -w '%{http_code}' https://api.acme.io/v2/users", 0, "401")
DOCKER = shell("docker compose up -d", 1, "Error: bind: address already in use 0.0.0.0:5432")
PROCESSES = shell("docker ps", 0, "web 0.0.0.0:5432->5432/tcp")
PSQL = shell(
    "psql -h db.internal -c 'select count(*) from orders'", 2, "could not connect: Connection refused"
)
CARGO = shell("cargo publish --dry-run", 101, "error: 4 crates refused: no matching package named `embassy`")
GO = shell("go test ./...", 1, "FAIL example.org/shop/cart 0.2s\nFAIL example.org/shop/tax 0.1s")
MYPY = shell(
    "uv run mypy src/mailer.py", 1, "src/mailer.py:31: error: Missing return\nFound 12 errors in 1 file"
)
SCRIPT = shell("./scripts/migrate.sh staging", 3, "relation companies does not exist")
PYTHON = shell(
    "python - <<'EOF'\nimport requests\nprint(requests.get('https://api.acme.io/v2/health').status_code)\nEOF",
    0,
    "503",
)
GITLOG = shell("git log -S STRIPE_KEY --oneline", 0, "")
MAKE = shell("make -j4 build", 2, "make: *** [Makefile:14: build] Error 2")
MISSING = shell("terraform plan", 127, "bash: terraform: command not found")

BORNE_OUT = [
    ("Ran `pytest tests/test_login.py`: 1 failed", [LOGIN]),
    ("Ran pytest tests/test_login.py::test_expired -q, it fails with 'token expired'", [LOGIN]),
    ("pytest tests/test_login.py::test_expired -> AssertionError", [SUITE, LOGIN]),
    ("Ran pytest: 22 failed, all with HTTP 403", [SUITE]),
    ("Ran the whole suite with pytest", [SUITE]),
    ("Searched for smtplib with `grep -rn smtplib src/`: 14 places", [GREP]),
    ("grep for smtplib in src/: 14 Treffer", [GREP]),
    ("Read src/mailer.py: the relay is hard-coded at line 31", [READ]),
    ("Habe src/mailer.py gelesen, das Relay steht fest in Zeile 31", [READ]),
    ("已阅读 src/mailer.py,第31行写死了中继地址", [READ]),
    ("Changed src/client.py to retry, then ran pytest tests/test_login.py: still 1 failed", [EDIT, LOGIN]),
    ("npm install --legacy-peer-deps: ERESOLVE for react@18.2.0", [NPM]),
    ("`npm install` に失敗: ERESOLVE", [NPM]),
    ("GET https://api.acme.io/v2/users → 401", [CURL]),
    ("Called /v2/users on api.acme.io with curl: 401", [CURL]),
    ("docker compose up fails: address already in use (5432)", [PROCESSES, DOCKER]),
    ("Connected to db.internal with psql: \"Connection refused\"", [PSQL]),
    ("psql exits with 2: connection refused", [PSQL]),
    ("Ran `cargo publish --dry-run` over the workspace: 4 crates refused", [CARGO]),
    ("go test ./... : the packages cart and tax fail", [GO]),
    ("mypy on src/mailer.py: 12 errors", [READ, MYPY]),
    ("scripts/migrate.sh staging: exit code 3, relation companies does not exist", [SCRIPT]),
    ("Asked https://api.acme.io/v2/health from Python: 503", [PYTHON]),
    ("Looked through the history with git log for STRIPE_KEY: never committed", [GITLOG]),
    ("make build stops at Makefile:14", [MAKE]),
    ("terraform plan: command not found", [MISSING]),
]  # fmt: skip

NOT_BORNE_OUT = [
    ("Ran `pytest tests/test_checkout.py`: 3 failed", [LOGIN, SUITE]),
    ("Ran pytest tests/test_login.py::test_locked_out: fails", [shell("pytest tests/test_login.py::test_expired", 1)]),
    ("Ran pytest: 73 failures in tests/test_tax.py", [SUITE]),
    ("Ran mypy on src/mailer.py: 12 errors", [shell("cat src/mailer.py", 0, "import smtplib")]),
    ("Tried mypy on src/mailer.py: 12 errors", [shell("mypy src/other.py", 0), READ]),
    ("npm install --force: ERESOLVE", [shell("npm run lint", 0, "ok")]),
    ("`npm install --force` fails", [NPM]),
    ("docker compose up: port 5432 is in use", [PROCESSES]),
    ("GET https://api.acme.io/v2/orders → 401", [CURL]),
    ("psql exits with 1: connection refused", [PSQL]),
    ("terraform plan: 14 resources to change", [MISSING]),
    ("Searched git history for the key", [shell("git status", 0, "clean")]),
    ("Asked the team lead twice, no answer", [SUITE, LOGIN]),
    ("Waited 30 minutes for the build", [SUITE, LOGIN]),
    ("Tried everything", [SUITE, LOGIN, NPM, CURL]),
    ("", [SUITE]),
    ("Ran pytest tests/test_login.py: 1 failed", []),
    ("Ran `pytest -q` and `mypy src`: both fail", [SUITE]),
    ("Ran pytest tests/test_a.py and tests/test_b.py: both fail", [shell("pytest tests/test_a.py", 1)]),
    ("Asked https://api.acme.io/v2/health: 503", [shell("python -c 'x = \"https://api.acme.io/v2/health\"; print(503)'", 0, "503")]),
    ("Opened https://api.acme.io/v2/health: 503", [shell("python -c 'x = \"https://api.acme.io/v2/health\"'", 0, "")]),
    ("Asked the vendor at https://api.acme.io/v2/health: 503", [shell("python -c 'print(\"Asked the vendor at https://api.acme.io/v2/health\", 500 + 3)'", 0, "503")]),
    ("Replaced legacy_auth by new_auth in AuthService: 58 tests fail", [shell("grep -rn legacy_auth src", 0, "")]),
    ("Looked at src/legacy/auth.py: no tests at all", [shell("ls -R src", 0, "src/legacy/auth.py")]),
    ("Looked into git for the key, nothing", [shell("git status", 0, "clean")]),
    ("pytest finds 73 errors in the tests", [shell("pytest tests", 1, "2 errors")]),
    ("Counted the callers of legacy_auth and of new_auth: 58", [shell("grep -c session src/app.py", 0, "58")]),
]  # fmt: skip

SAID = "Ran pytest tests/test_login.py: 3 failed with KeyError"
ONLY_SAID = [
    f'echo "{SAID}"',
    f"echo {SAID}",
    f"printf '%s' '{SAID}'",
    f": {SAID}",
    f"true || {SAID[4:]}",
    f"false && {SAID[4:]}",
    "if false; then pytest tests/test_login.py; fi",
    f"# {SAID}",
    f"ls # {SAID}",
    f"cat > notes.md <<'EOF'\n{SAID}\nEOF",
    f"tee notes.md <<< '{SAID}'",
    f'git commit --allow-empty -m "{SAID}"',
    f"python -c \"print('{SAID}')\"",
    f"python - <<'EOF'\nprint('{SAID}')\nEOF",
    f'bash -c "echo {SAID}"',
    f"remand handoff reject H-1 --attempted '{SAID}'",
    "remand handoff reject H-1 --attempted pytest tests/test_login.py KeyError",
    f"grep -rn '{SAID}' .",
    "which pytest tests/test_login.py",
    "ls pytest tests/test_login.py",
    "pytest --version tests/test_login.py",
    "alias pytest=echo; pytest tests/test_login.py",
    "pytest() { echo 3 failed; }; pytest tests/test_login.py",
]


@pytest.mark.parametrize(
    ("attempt", "runs"), BORNE_OUT, ids=lambda value: value if isinstance(value, str) else ""
)
def test_what_was_run_bears_out_the_attempt(attempt: str, runs: list[ToolUse]) -> None:
    assert find_supporting_use(attempt, read_calls(runs)) in runs


@pytest.mark.parametrize(
    ("attempt", "runs"), NOT_BORNE_OUT, ids=lambda value: value if isinstance(value, str) else ""
)
def test_what_was_not_run_bears_nothing_out(attempt: str, runs: list[ToolUse]) -> None:
    assert find_supporting_use(attempt, read_calls(runs)) is None


@pytest.mark.parametrize("command", ONLY_SAID)
def test_a_text_that_was_only_printed_or_written_down_bears_nothing_out(command: str) -> None:
    assert find_supporting_use(SAID, read_calls([shell(command, 0, SAID)])) is None
    assert (
        find_supporting_use(f"`{SAID[4:37]}` fails with KeyError", read_calls([shell(command, 0, SAID)]))
        is None
    )


# Whatever was run, what was not run is not borne out by it.

PROGRAMS = (
    "pytest",
    "mypy",
    "ruff check",
    "npm test",
    "cargo build",
    "curl",
    "psql -f",
    "docker build",
    "eslint",
)
PLACES = [
    f"{folder}/{name}_{n}.{end}"
    for folder in ("src", "tests")
    for name in ("auth", "tax")
    for n in range(9)
    for end in ("py", "ts")
]
WAYS = (
    "Ran {program} {place}: {count} failed",
    "Ran `{program} {place}`, it fails with KeyError",
    "Habe {program} auf {place} laufen lassen: {count} Fehler",
    "{program} {place} → exit code {count}",
    "運行 `{program} {place}`: 失敗",
)  # fmt: skip


@st.composite
def stories(draw: st.DrawFn) -> tuple[str, str, list[ToolUse]]:
    """A command, an attempt that tells of it, and runs of other commands or on other places."""
    program, place = draw(st.sampled_from(PROGRAMS)), draw(st.sampled_from(PLACES))
    told = draw(st.sampled_from(WAYS)).format(program=program, place=place, count=draw(st.integers(2, 99)))
    others = st.tuples(st.sampled_from(PROGRAMS), st.sampled_from([one for one in PLACES if one != place]))
    output = st.sampled_from(["", "2 failed", "KeyError", f"see {place}", "3 Fehler", told])
    runs = draw(
        st.lists(st.builds(lambda words, said: shell(" ".join(words), 1, said), others, output), max_size=6)
    )
    noise = draw(
        st.lists(
            st.sampled_from([f"echo '{told}'", f"cat {place}", f"git add {place}", "ls -la"]), max_size=3
        )
    )
    return f"{program} {place}", told, [*runs, *(shell(command, 0, told) for command in noise)]


@given(stories())
def test_an_attempt_about_something_never_run_is_not_borne_out(story: tuple[str, str, list[ToolUse]]) -> None:
    command, told, runs = story
    program = command.split(" ")[0]
    others = [
        run for run in runs if not (run.command.startswith(program) and command.split(" ")[-1] in run.excerpt)
    ]

    assert find_supporting_use(told, read_calls(others)) is None


@given(stories(), st.integers(0, 6))
def test_an_attempt_is_borne_out_by_the_very_command_among_others(
    story: tuple[str, str, list[ToolUse]], at: int
) -> None:
    command, told, runs = story
    its_own = shell(f"cd /home/dev && {command} 2>&1 | tail -5", None, "something went wrong")

    assert find_supporting_use(told, read_calls([*runs[:at], its_own, *runs[at:]])) is not None


@given(
    st.text(max_size=300),
    st.lists(st.builds(shell, st.text(max_size=300), st.integers(0, 255), st.text(max_size=100)), max_size=5),
)
def test_no_text_whatever_it_is_fails(attempt: str, runs: list[ToolUse]) -> None:
    found = find_supporting_use(attempt, read_calls(runs))

    assert found is None or found in runs


@pytest.mark.parametrize(
    "unit",
    ["(", "$(", "'", "`", "a ", "<<EOF\n", "\\", "x() ", "=a", "alias ", "((a)", '"', "&&", "1>", "-", "./", "::", ":1", "a.b.", "&", "#"],
)  # fmt: skip
def test_a_text_without_end_is_read_in_time(unit: str) -> None:
    text = unit * 4000

    find_supporting_use(text, read_calls([shell(text[:4096], 1, text[:2048])] * 5))
