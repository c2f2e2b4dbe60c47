"""What a job sees of the machine: what it is given and what its tools need, and no more of what is masked."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

import pytest

from remand.app.gates.ports import JobResult
from tests.integration.sandboxes import CONFINED, KINDS, Bench, sandbox_of


@pytest.fixture
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Bench:
    """A job's place on a machine whose folder for temporary files, and so all of `tmp_path`, is masked."""
    return Bench(sandbox_of(request.param), tmp_path)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's home, with a secret in it."""
    path = tmp_path / "home"
    (path / ".ssh").mkdir(parents=True)
    (path / ".ssh" / "key").write_text("secret")
    monkeypatch.setenv("HOME", str(path))
    return path


everywhere = pytest.mark.parametrize("bench", KINDS, indirect=True)
confined = pytest.mark.parametrize("bench", CONFINED, indirect=True)


def script(path: Path, text: str = "#!/bin/sh\necho works\n") -> Path:
    """Makes a program of a path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def read(bench: Bench, *paths: Path, **more: object) -> list[bool]:
    """For each file, whether a job can read it."""
    ended = bench.shell(
        'for path in "$@"; do test -s "$path" && cat "$path" >/dev/null 2>&1; echo $?; done',
        *(str(path) for path in paths),
        **more,
    )
    return [line == b"0" for line in ended.output.splitlines()]


def works(ended: JobResult) -> bool:
    """True when a job did what was asked."""
    return (ended.how, ended.status, ended.output.strip()) == ("exited", 0, b"works")


@everywhere
def test_what_a_job_writes_is_there_afterwards_and_ours(bench: Bench, tmp_path: Path) -> None:
    report = tmp_path / "report"
    report.mkdir()
    (bench.folder / "old").write_text("old")

    ended = bench.shell(
        'echo new > new; rm old; mkdir sub; mv new sub/; echo all > "$1/report.xml"',
        str(report),
        report=str(report),
    )

    assert (ended.how, ended.status, ended.errors) == ("exited", 0, b"")
    assert not (bench.folder / "old").exists()
    assert (bench.folder / "sub" / "new").read_text() == "new\n"
    assert (bench.folder / "sub" / "new").stat().st_uid == os.getuid()
    assert (report / "report.xml").read_text() == "all\n"


@confined
def test_of_two_paths_the_longer_one_decides(bench: Bench, tmp_path: Path) -> None:
    files = [tmp_path / "a" / "f", tmp_path / "a" / "b" / "f", tmp_path / "a" / "b" / "c" / "f"]
    files[-1].parent.mkdir(parents=True)
    for file in files:
        file.write_text("content")
    a, b, c = (str(file.parent) for file in files)

    assert read(bench, *files) == [False, False, False]
    assert read(bench, *files, read=(a,)) == [True, True, True]
    assert read(bench, *files, read=(a,), hide=(b,)) == [True, False, False]
    assert read(bench, *files, read=(a, c), hide=(b,)) == [True, False, True]
    assert read(bench, *files, read=(a, b), hide=(b,)) == [True, False, False]
    assert read(bench, *files, read=(a,), hide=(str(files[1]),)) == [True, False, True]


@confined
def test_a_checkout_in_a_hidden_folder_is_all_that_is_seen_of_it(bench: Bench, tmp_path: Path) -> None:
    (bench.folder / "f").write_text("content")
    other = tmp_path / "other worktree"
    other.mkdir()
    (other / "f").write_text("content")

    assert read(bench, bench.folder / "f", other / "f", hide=(str(tmp_path), "/nowhere")) == [True, False]


@pytest.mark.parametrize("bench", ["bubblewrap"], indirect=True)
def test_of_a_masked_folder_not_even_names_are_seen_but_those_that_are_needed(
    bench: Bench, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "s"))
        server.listen()
        ended = bench.shell('ls -A "$1" /home', str(tmp_path), hide=(str(tmp_path / "other"),))

    assert ended.output.decode().split() == ["/home:", f"{tmp_path}:", "checkout"]


@confined
def test_a_cache_can_be_written_only_while_it_is_prepared(bench: Bench, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    put = 'echo kept > "$1/kept"'

    assert bench.shell(put, str(cache), cache=str(cache), may_write_cache=True).status == 0
    assert (cache / "kept").read_text() == "kept\n"
    assert read(bench, cache / "kept", cache=str(cache)) == [True]
    poisoned = bench.shell('echo poison > "$1/kept"; rm -f "$1/kept"', str(cache), cache=str(cache))
    assert poisoned.status != 0
    assert (cache / "kept").read_text() == "kept\n"


@everywhere
def test_a_path_that_leads_over_links_can_be_used_as_given(bench: Bench, tmp_path: Path) -> None:
    links = tmp_path / "links"
    links.mkdir()
    (links / "folder").symlink_to(bench.folder)
    (links / "twice").symlink_to("folder")

    ended = bench.shell(
        'cd "$1" && echo works > here && cat "$1/here"', str(links / "twice"), report=str(links / "twice")
    )

    assert works(ended)
    assert (bench.folder / "here").exists()


@confined
def test_an_environment_in_a_masked_place_works_with_the_interpreter_it_was_made_from(
    bench: Bench, home: Path
) -> None:
    base = Path(sys.executable).resolve()
    venv = home / "project" / ".venv"
    packages = venv / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    packages.mkdir(parents=True)
    (packages / "tool.py").write_text("print('works')")
    (venv / "pyvenv.cfg").write_text(f"home = {base.parent}\n")
    (venv / "bin").mkdir()
    (venv / "bin" / "python").symlink_to("python3")
    (venv / "bin" / "python3").symlink_to(base)
    (home / "project" / ".git").mkdir()
    (home / "project" / "notes").write_text("secret")

    path = (str(venv / "bin"),)

    assert works(bench.sandbox.run(bench.job("python", "-m", "tool", path=path)))
    assert read(bench, home / "project" / "notes", home / ".ssh" / "key", path=path) == [False, False]


@confined
def test_a_program_that_is_a_link_is_seen_with_what_it_leads_to(bench: Bench, home: Path) -> None:
    tool = home / ".local" / "share" / "tools" / "lint"
    script(tool / "bin" / "lint", '#!/bin/sh\ncat "$(dirname "$(readlink -f "$0")")/../lib/data"\n')
    (tool / "lib").mkdir()
    (tool / "lib" / "data").write_text("works")
    keys = home / ".local" / "share" / "keyrings"
    keys.mkdir()
    (keys / "login").write_text("secret")
    programs = home / ".local" / "bin"
    programs.mkdir()
    (programs / "lint").symlink_to(tool / "bin" / "lint")

    path = (str(programs),)

    assert works(bench.sandbox.run(bench.job("lint", path=path)))
    assert works(bench.sandbox.run(bench.job("sh", "-c", "lint", path=path)))
    assert read(bench, keys / "login", home / ".ssh" / "key", path=path) == [False, False]


@confined
def test_a_script_is_seen_with_what_it_is_run_by(bench: Bench, home: Path) -> None:
    interpreter = script(home / "interpreters" / "bin" / "shell", '#!/bin/sh\nexec sh "$@"\n')
    script(home / "scripts" / "check", f"#!{interpreter}\necho works\n")

    assert works(bench.sandbox.run(bench.job("check", path=(str(home / "scripts"),))))


@confined
def test_a_worktree_is_not_shown_for_the_programs_in_it(bench: Bench, home: Path) -> None:
    script(home / "project" / "bin" / "check")
    (home / "project" / ".git").mkdir()
    (home / "project" / "notes").write_text("secret")
    path = (str(home / "project" / "bin"),)

    assert works(bench.sandbox.run(bench.job("check", path=path)))
    assert read(bench, home / "project" / "notes", path=path) == [False]


@confined
def test_credentials_beside_a_tool_are_not_shown_with_it(bench: Bench, home: Path) -> None:
    script(home / ".cargo" / "bin" / "cargo")
    (home / ".cargo" / "credentials.toml").write_text("secret")
    (home / ".cargo" / "env").write_text("needed")
    path = (str(home / ".cargo" / "bin"),)

    assert works(bench.sandbox.run(bench.job("cargo", path=path)))
    assert read(bench, home / ".cargo" / "credentials.toml", home / ".cargo" / "env", path=path) == [
        False,
        True,
    ]


@confined
def test_a_planted_link_or_setting_opens_nothing_that_is_no_program(bench: Bench, home: Path) -> None:
    venv = home / "venv"
    script(venv / "bin" / "check")
    (venv / "bin" / "key").symlink_to(home / ".ssh" / "key")
    (venv / "pyvenv.cfg").write_text(f"home = {home / '.ssh'}\n")

    assert read(bench, home / ".ssh" / "key", venv / "bin" / "key", path=(str(venv / "bin"),)) == [
        False,
        False,
    ]


@confined
def test_a_program_in_the_checkout_opens_nothing_that_it_links_to(bench: Bench, home: Path) -> None:
    tool = script(home / "private" / "bin" / "tool", "#!/bin/sh\ncat ../home/private/notes\n")
    (home / "private" / "notes").write_text("works")
    (bench.folder / "check").symlink_to(tool)

    assert not works(bench.sandbox.run(bench.job("./check")))


@confined
def test_tools_in_the_checkout_can_be_written_like_all_of_it(bench: Bench) -> None:
    script(
        bench.folder / "node_modules" / ".bin" / "check",
        "#!/bin/sh\nmkdir node_modules/.cache && echo works\n",
    )

    assert works(bench.sandbox.run(bench.job("check", path=(str(bench.folder / "node_modules" / ".bin"),))))


@confined
def test_what_the_job_is_given_wins_over_where_the_environment_says_home_is(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/usr")
    monkeypatch.setenv("XDG_STATE_HOME", "/")

    assert works(bench.shell("echo works"))


@everywhere
def test_programs_are_found_in_the_jobs_folders_before_the_systems(bench: Bench, home: Path) -> None:
    script(home / "own" / "ls")
    script(bench.folder / "ls", "#!/bin/sh\necho planted\n")

    assert works(bench.sandbox.run(bench.job("ls", path=(".", "", str(home / "own")))))
    assert works(bench.sandbox.run(bench.job("sh", "-c", "ls", path=(".", "", str(home / "own")))))
