"""Holds what `[forge]` may say, and that what is wrong in it is named with its remedy."""

from __future__ import annotations

import pytest

from remand.config import ConfigError, ForgeSettings, parse
from remand.config.services import parse_forge

PLAIN = {"kind": "github", "repository": "owner/name"}


def error(**values: object) -> str:
    with pytest.raises(ConfigError) as caught:
        parse_forge({**PLAIN, **values})
    return str(caught.value)


def test_no_table_is_no_forge() -> None:
    assert parse("").forge == parse("[forge]").forge == ForgeSettings()
    assert not ForgeSettings().kind


def test_every_key_is_read() -> None:
    text = """
    [forge]
    kind = "gitea"
    repository = "owner/name"
    api = "https://git.example.org/"
    report = ["status", "review", "comment"]
    interval = "2m"
    remote = "upstream"
    import_label = "for agents"
    import_from = "anyone"
    """

    assert parse(text).forge == ForgeSettings(
        kind="gitea",
        repository="owner/name",
        api="https://git.example.org",
        report=("status", "review", "comment"),
        interval_seconds=120,
        remote="upstream",
        import_label="for agents",
        import_from="anyone",
    )


@pytest.mark.parametrize(
    ("kind", "repository", "api"),
    [
        ("github", "owner/name", "https://api.github.com"),
        ("gitlab", "group/part/name", "https://gitlab.com"),
    ],
)
def test_what_is_not_said_is_what_most_want(kind: str, repository: str, api: str) -> None:
    found = parse_forge({"kind": kind, "repository": repository})

    assert (found.api, found.report, found.interval_seconds) == (api, (), 60)
    assert (found.remote, found.import_label, found.import_from) == ("origin", "", "writers")


def test_it_is_github_unless_it_says_otherwise() -> None:
    assert parse_forge({"repository": "owner/name"}).kind == "github"


@pytest.mark.parametrize(
    "api",
    ["http://127.0.0.1:3000", "http://localhost/api/v1", "http://[::1]:8080", "https://git.example.org/api"],
)
def test_plain_http_is_for_this_machine_alone(api: str) -> None:
    assert parse_forge({**PLAIN, "api": api}).api == api


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"kind": "bitbucket"}, "`forge.kind` is `bitbucket`; use one of github, gitea, gitlab"),
        ({"kind": 7}, "`forge.kind` must be text"),
        ({"kind": ""}, "use one of github"),
        ({"repository": ""}, '`forge.repository` must be written "owner/name"'),
        ({"repository": "name"}, '"owner/name"'),
        ({"repository": "a/b/c"}, '"owner/name"'),
        ({"repository": "https://github.com/a/b"}, '"owner/name"'),
        ({"repository": "owner/.."}, '"owner/name"'),
        ({"repository": "owner/na me"}, '"owner/name"'),
        ({"repository": "owner/name\n"}, '"owner/name"'),
        ({"repository": ["owner", "name"]}, "`forge.repository` must be text"),
        ({"kind": "gitlab", "repository": "name"}, '"group/name"'),
        ({"kind": "gitea", "repository": "a/b/c", "api": "https://x.example"}, '"owner/name"'),
        ({"kind": "gitea"}, '`forge.api` must be an address such as "https://'),
        ({"api": "git.example.org"}, "must be an address"),
        ({"api": "https://"}, "must be an address"),
        ({"api": "https://[::1"}, "must be an address"),
        ({"api": "https://x.example:port"}, "must be an address"),
        ({"api": "https://me:secret@x.example"}, "must be an address"),
        ({"api": "https://@x.example"}, "must be an address"),
        ({"api": "https://x.example/?token=1"}, "must be an address"),
        ({"api": "https://x.example/#a"}, "must be an address"),
        ({"api": "https://x.example/\x1b[2J"}, "must be an address"),
        ({"api": "http://git.example.org"}, "must begin with https"),
        ({"api": "http://127.0.0.1.example.org"}, "must begin with https"),
        ({"api": "http://0.0.0.0"}, "must begin with https"),
        ({"api": "ftp://localhost"}, "must begin with https"),
        ({"api": 1}, "`forge.api` must be text"),
        ({"report": "status"}, "`forge.report` must be a list"),
        ({"report": ["labels"]}, "`forge.report` holds `labels`; use any of status, review, comment"),
        ({"remote": ""}, "`forge.remote` must be one short line of text"),
        ({"remote": "a\nb"}, "`forge.remote` must be one short line of text"),
        ({"remote": 7}, "`forge.remote` must be text"),
        ({"import_label": "x" * 501}, "`forge.import_label` must be one short line of text"),
        ({"import_from": "everyone"}, "`forge.import_from` is `everyone`; use one of writers, anyone"),
        ({"import_labels": "x"}, "did you mean `import_label`?"),
        ({"interval": 60}, '`forge.interval` must be a duration such as "90s"'),
        ({"interval": "0s"}, "must be a duration"),
        ({"interval": "1s"}, '`forge.interval` must be between "5s" and "1d"'),
        ({"interval": "2d"}, "must be between"),
        ({"token": "secret"}, "set GITHUB_TOKEN"),
        ({"repo": "a/b"}, "there is no key `forge.repo`"),
    ],
)
def test_what_is_wrong_is_named_with_its_remedy(values: dict[str, object], named: str) -> None:
    assert named in error(**values)


def test_a_token_is_not_repeated() -> None:
    assert "secret" not in error(token="secret")
