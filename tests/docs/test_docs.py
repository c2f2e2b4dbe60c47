"""The docs say what the code does."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from remand.domain.decide import REQUESTS
from remand.domain.refusals import MEANINGS
from remand.domain.task import Status
from remand.interfaces.cli.registry import COMMANDS

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_the_pages_made_from_the_code_are_up_to_date() -> None:
    done = subprocess.run(
        [sys.executable, "scripts/render_docs.py", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, f"{done.stdout}{done.stderr}\nRun scripts/render_docs.py."


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_documented(command: str) -> None:
    assert f"## `remand {command}`" in text("docs/commands.md")


@pytest.mark.parametrize("code", MEANINGS)
def test_every_refusal_is_documented(code: str) -> None:
    assert f"`{code}`" in text("docs/refusals.md")


@pytest.mark.parametrize("status", Status)
def test_every_status_is_in_the_lifecycle(status: Status) -> None:
    assert status in text("docs/lifecycle.md")


def test_every_ask_is_of_the_agent_that_holds_the_task_or_has_its_roles_listed() -> None:
    page = text("docs/lifecycle.md")
    agents_own = {
        *("ClaimTask", "Heartbeat", "ReleaseTask", "ContinueTask", "WaitTask", "FailTask"),
        *("SubmitTask", "AcceptHandoff", "CompleteHandoff", "RejectHandoff", "AppealRejection", "AddTask"),
        *("FetchFeedback", "EscalateTask"),
    }

    assert [
        ask.__name__
        for ask in REQUESTS
        if ask.__name__ not in agents_own and f"| {ask.__name__} |" not in page
    ] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8"))

    assert [target for target in targets if not (page.parent / target).exists()] == []


GLOSSARY = re.findall(r"^\| ([a-z -]+) \| ", text("docs/GLOSSARY.md"), re.MULTILINE)[1:]
MOST_WORDS = 70


def names_in_code() -> str:
    """Every name of a module, class or function in the source as plain words, one name a line."""
    paths = sorted((ROOT / "src").rglob("*.py"))
    named = [path.stem for path in paths]
    for path in paths:
        named += re.findall(
            r"^\s*(?:async def|def|class) (\w+)", path.read_text(encoding="utf-8"), re.MULTILINE
        )
    words = (re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).replace("_", " ").lower() for name in named)
    return "\n".join(words)


def test_the_glossary_is_in_order_and_short() -> None:
    assert sorted(set(GLOSSARY)) == GLOSSARY
    assert len(GLOSSARY) <= MOST_WORDS


def test_every_word_of_the_glossary_is_used_in_the_code() -> None:
    names = names_in_code()

    assert [word for word in GLOSSARY if not re.search(rf"\b{word}(?:s|es)?\b", names)] == []


LAYERS = "adapters|app|config|domain|integrity|interfaces|ledger|testing|wiring"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_modules_that_a_page_names_are_there(page: Path) -> None:
    named = re.findall(rf"`((?:{LAYERS}|bootstrap)/[a-z_/]+(?:\.py)?)", page.read_text(encoding="utf-8"))

    assert [path for path in named if not (ROOT / "src" / "remand" / path).exists()] == []


@pytest.mark.parametrize("path", re.findall(r"`(tests/[a-z_/.]+)`", text("docs/trust.md")))
def test_what_the_page_on_trust_says_is_shown_by_tests_that_are_there(path: str) -> None:
    assert (ROOT / path).exists()


def test_the_readme_says_from_which_tier_on_the_rules_cannot_be_bypassed() -> None:
    text = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    before, _, after = text.partition("an agent cannot bypass or negotiate the rules")
    said = after.partition("## ")[0]

    assert "tier 1" in before[-80:]
    assert "At tier 0" in said
    assert "`remand doctor` shows which tier applies" in said
