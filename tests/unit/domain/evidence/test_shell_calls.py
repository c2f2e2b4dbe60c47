"""Holds which calls a command line makes, and which texts in it are nobody's call."""

import pytest

from remand.domain.evidence.shell_calls import parse_calls, program_name


def made(command: str) -> list[str]:
    """The calls of a command line, each as its programs and words."""
    return [" ".join(("+".join(call.programs), *call.words)) for call in parse_calls(command)]


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("pytest -q tests/", ["pytest -q tests/"]),
        ("cd /w && python3.11 -m pytest tests/a.py 2>&1 | tail -5", ["python+pytest tests/a.py", "tail -5"]),
        ("/opt/venv/bin/ruff check . > out.txt", ["ruff check ."]),
        ("CI=1 timeout 60 uv run --with x pytest -k 'a b'", ["timeout+uv+pytest ci=1 -k"]),
        ("docker compose exec -T web pytest tests/a.py", ["docker+pytest compose exec -t web tests/a.py"]),
        ("docker compose up -d", ["docker compose up -d"]),
        ("bash -lc 'npm ci && npm run build'", ["bash+npm ci", "bash+npm run build"]),
        ("ssh host 'systemctl status nginx'", ["ssh host", "ssh+systemctl status nginx"]),
        ("for f in a b; do pytest $f; done", ["do+pytest $f"]),
        ("X=$(pytest tests/a.py); echo $X", ["pytest tests/a.py"]),
        ("xargs -n1 ruff check < files.txt", ["xargs+ruff check files.txt"]),
        ("./scripts/migrate.sh staging", ["migrate.sh ./scripts/migrate.sh staging"]),
        ("sudo -u bob psql -h db", ["sudo+psql -h db"]),
        ("cat src/mail.py", ["cat src/mail.py"]),
        ("python - <<'EOF'\nimport x\nEOF\nls", ["python -", "ls"]),
        ("pytest \\\n  tests/a.py", ["pytest tests/a.py"]),
        ("grep -rn 'export function x' src", ["grep -rn src"]),
    ],
)
def test_a_command_line_is_taken_apart_as_a_shell_would(command: str, expected: list[str]) -> None:
    assert made(command) == expected


@pytest.mark.parametrize(
    "command",
    [
        "",
        "echo pytest tests/a.py",
        "printf '%s' pytest",
        ": pytest",
        "# pytest",
        "remand task show T-1",
        "cat <<EOF\npytest\nEOF",
        "cat > a.md <<'EOF'\npytest\nEOF",
        "tee a.md <<< 'pytest tests'",
        "cat",
        "X=1",
        "false && pytest",
        "true || pytest",
        "if false; then pytest; fi",
        "alias pytest=true; pytest",
        "pytest() { true; }; pytest",
        "function pytest { true; }; pytest",
        "bash -c 'echo pytest'",
    ],
)
def test_what_only_talks_or_may_never_have_been_reached_makes_no_call(command: str) -> None:
    assert made(command) == []


def test_the_text_an_interpreter_carries_out_is_kept_apart() -> None:
    (call,) = parse_calls("python -c \"import requests; requests.get('https://example.org')\"")

    assert call.words == ("-c",)
    assert "https://example.org" in call.code


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("/usr/bin/python3.11", "python"),
        ("pip3", "pip"),
        ("./run.sh", "run.sh"),
        ("sqlite3", "sqlite"),
        ("manage.py", "manage.py"),
        ("Docker", "docker"),
    ],
)
def test_a_program_is_known_by_its_name_alone(word: str, name: str) -> None:
    assert program_name(word) == name
