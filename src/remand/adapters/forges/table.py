"""The forges by kind. A forge's module is loaded when it is first used, and no other's is."""

from __future__ import annotations

from remand.adapters.forges import gitea, github, gitlab
from remand.adapters.forges.poll_memory import StoredAnswers
from remand.app.forge.ports import Forge
from remand.app.ports import Clock

GITHUB = "github"


def open_forge(
    kind: str, repository: str, *, api: str, token: str, clock: Clock, memory: StoredAnswers
) -> Forge:
    """The client of a repository on a forge."""
    if kind == GITHUB:
        return github.GitHub(repository, api=api, token=token, clock=clock, memory=memory)
    client = gitea.Gitea if kind == "gitea" else gitlab.GitLab
    return client(repository, api=api, token=token, clock=clock, memory=memory)


def stored_token(kind: str, api: str) -> str:
    """The token that another program has for a forge; empty where there is no such program."""
    return github.gh_token(api) if kind == GITHUB else ""
