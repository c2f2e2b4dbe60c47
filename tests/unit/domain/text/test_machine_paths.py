"""No recorded text names a folder of the machine it was recorded on."""

from __future__ import annotations

import json

import pytest

from remand.domain.text.redaction import NO_PATHS, MachinePaths

PATHS = MachinePaths(
    [
        ("/home/ada", "~"),
        ("/home/ada/src/shop", ""),
        ("/srv/state/remand/*/worktrees/*", ""),
        ("/srv/state", "$STATE"),
        ("/tmp", "$TMP"),
        ("/root", "~"),
        ("/home/müller", "~"),
        ("/opt/venv", "$PYTHON"),
        ("", "nothing"),
        ("/", "nothing"),
    ]
)


@pytest.mark.parametrize(
    ("text", "portable"),
    [
        ("/home/ada/src/shop/calc.py:3: error", "calc.py:3: error"),
        ('File "/home/ada/src/shop/tests/t.py", line 3', 'File "tests/t.py", line 3'),
        ("cd /home/ada/src/shop && make", "cd . && make"),
        ("rootdir: /home/ada/src/shop", "rootdir: ."),
        ("see /home/ada/src/shop/", "see ./"),
        ("/home/ada/.venv/bin/ruff is not there", "~/.venv/bin/ruff is not there"),
        ("HOME=/home/ada", "HOME=~"),
        ("I live in /home/ada.", "I live in ~."),
        ("gcc -I/home/ada/include -L/tmp/x", "gcc -I~/include -L$TMP/x"),
        ("file:///home/ada/src/shop/a.md", "file://a.md"),
        ("/srv/state/remand/L-1/worktrees/T-9/src/a.py:1", "src/a.py:1"),
        ("/srv/state/remand/L-1/gates", "$STATE/remand/L-1/gates"),
        ("PATH=/opt/venv/bin:/home/ada/bin:/usr/bin", "PATH=$PYTHON/bin:~/bin:/usr/bin"),
        ("(/tmp/pytest-of-ada/pytest-0)", "($TMP/pytest-of-ada/pytest-0)"),
        ("/home/müller/x", "~/x"),
        ("/home/ada/src/shop-old/x", "~/src/shop-old/x"),
    ],
)
def test_a_path_of_the_machine_becomes_one_that_holds_everywhere(text: str, portable: str) -> None:
    assert PATHS.replace_in(text) == portable
    assert PATHS.may_occur_in(json.dumps(text, ensure_ascii=False).encode())


@pytest.mark.parametrize(
    "text",
    [
        "src/root/file.py",
        "/var/tmp/x",
        "/home/adam/x",
        "/home/ada.old/x",
        "GET /api/tmp/users",
        "https://example.org/tmp/x",
        "/usr/bin/python3",
        "a/home/ada/b",
        "",
    ],
)
def test_what_only_looks_like_one_stays(text: str) -> None:
    assert PATHS.replace_in(text) == text


def test_every_text_in_a_record_is_looked_at() -> None:
    given = {"a": ["/home/ada/x", {"/tmp/k": ("/root/y", 7, None)}]}

    assert PATHS.replace_in(given) == {"a": ["~/x", {"$TMP/k": ["~/y", 7, None]}]}


def test_a_line_without_a_folder_is_told_without_reading_it() -> None:
    assert not PATHS.may_occur_in(b'{"event":"task.claim","agent":"Fenster"}')
    assert not NO_PATHS.may_occur_in(b'"/home/ada"')
    assert NO_PATHS.replace_in("/home/ada") == "/home/ada"
