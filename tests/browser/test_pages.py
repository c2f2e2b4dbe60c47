"""People at the pages in a real browser: what they see, how they answer, and what harms them not."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.conftest import Place, Reader
from tests.browser.team_at_work import SECRET

AXE = Path.home() / ".cache/remand-tests/axe-4.14.0.js"
PATHS = (
    *("/", "/board", "/board?by=agent", "/board?by=skill", "/board?status=escalated&text=e"),
    *("/tasks/{deadlock}", "/tasks/{deadlock}/changes", "/tasks/{deadlock}/prompt"),
    *("/tasks/{hostile}", "/tasks/{hostile}/prompt", "/tasks/{decision}", "/tasks/{review}"),
    *("/tasks/{hostile_work}", "/tasks/{hostile_work}/changes", "/gates/{hostile_verdict}"),
    *("/gates", "/gates?days=7", "/gates/{verdict}"),
    *("/graph", "/graph?task={decision}&steps=1", "/activity", "/activity?kind=review&actor=Lead"),
    *("/settings", "/settings/patch?change=member&name=Nora&role=lead", "/settings/patch?change=trust&key=x"),
    *("/agents", "/agents/Backend", "/agents/Lead?days=7", "/patterns"),
)


def test_an_escalation_is_answered_by_keyboard_alone_and_another_appears_by_itself(
    place: Place, reader: Reader
) -> None:
    page, repository = reader.open("/"), place.team.repository
    expect(page.locator("h1")).to_have_text("Inbox")
    asked = page.locator("article", has_text="Move the sessions to the new store")
    while not asked.evaluate("one => one === document.activeElement"):
        page.keyboard.press("j")
    page.keyboard.press("c")
    page.keyboard.type("Keep the new one")
    page.keyboard.press("Escape")
    page.keyboard.press("6")
    page.keyboard.press("Enter")

    expect(page.locator(".note")).to_contain_text("remand inbox answer")
    expect(asked).to_have_count(0)
    page.locator(".note button", has_text="Undo").click()
    expect(page.locator(".note")).to_contain_text("remand inbox retract")
    asked.locator("textarea").fill("Keep the new one")
    asked.locator("button", has_text="Return it to the queue").click()
    expect(asked).to_have_count(0)
    shown = repository.ok("task", "show", place.team.tasks["asked"])
    assert shown["escalations"][0]["guidance"] == "Keep the new one"
    assert shown["escalations"][0]["option"] == "reopen"

    page.locator("textarea").first.fill("half a sentence")
    page.evaluate("scrollTo(0, 150)")
    place_on_page = page.evaluate("scrollY")
    task = repository.add("Rotate the signing key")
    repository.ok("escalate", task, "--reason", "Which key is next?")

    expect(page.locator("article", has_text="Rotate the signing key")).to_have_count(1)
    expect(page.locator("#live-note")).to_contain_text("for you")
    expect(page.locator("nav .badge")).to_have_text(str(page.locator("article").count()))
    written = page.locator("textarea").first
    expect(written).to_have_value("half a sentence")
    expect(written).to_be_focused()
    assert page.evaluate("scrollY") == place_on_page


def test_what_others_wrote_is_text_and_no_secret_is_shown(place: Place, reader: Reader) -> None:
    for path in PATHS:
        page = reader.open(path.format(**place.team.tasks))
        expect(page.locator("h1")).to_have_count(1)

        assert len(page.content()) < 1_000_000
        assert page.evaluate("window.hurt") is None
        assert SECRET not in page.content()
        assert "\u202e" not in page.content()
        assert not page.locator("main img").count()


def test_a_user_finds_the_way_from_the_board_to_the_findings_in_a_submission(
    place: Place, reader: Reader
) -> None:
    page = reader.open("/")
    page.keyboard.press("g")
    page.keyboard.press("b")
    expect(page.locator("h1")).to_have_text("Board")
    page.fill("[type=search]", "RATE LIMIT")
    page.keyboard.press("Enter")
    expect(page).to_have_url(f"{place.origin}/board?text=RATE+LIMIT&agent=&skill=")
    page.locator(".card").click()

    expect(page.locator("h1")).to_have_text("Let clients retry after a rate limit")
    expect(page.locator(".locked")).to_have_count(2)
    expect(page.locator(".excerpt").last).to_contain_text("8      return count < LIMIT")
    page.locator(".timeline a", has_text="changes at").last.click()
    line = page.locator("tr.d-add", has_text="return count < LIMIT")
    expect(line.locator("+ tr .finding.blocks")).to_contain_text("the limit itself is refused")
    page.locator(".tabs a", has_text="Prompt").click()
    expect(page.locator(".prompt")).to_contain_text("the limit itself is refused")
    with page.expect_download() as found:
        page.locator(".tabs a", has_text="Whole as text").click()
    assert "Let clients retry" in found.value.path().read_text()


def test_what_the_gates_said_is_found_with_its_full_output(place: Place, reader: Reader) -> None:
    page = reader.open("/")
    page.locator(".top nav a", has_text="Gates").click()
    row = page.locator("tr", has_text="Say what each limit is about")
    expect(row).to_contain_text("style")
    expect(page.locator(".chart rect.c-bad")).to_have_count(2)
    expect(page.locator(".stale")).to_have_count(0)
    place.team.repository.add("Something new")
    page.locator(".stale a").click()
    expect(page).to_have_url(f"{place.origin}/gates")
    expect(page.locator(".stale")).to_have_count(0)
    row.locator(".status").click()

    expect(page.locator("h1")).to_contain_text("failed")
    expect(page.locator("pre").last).to_contain_text("ABOUT = 1")
    for address in ("/gates/nothing", "/nothing/here"):
        reader.open(address)
        expect(page.locator("p.brand")).to_have_text("Remand")
        expect(page.locator("p", has_text="404")).to_contain_text("not_found")
    page.locator("a", has_text="Go to the inbox").click()
    number = page.locator("nav .badge").text_content()
    expect(reader.open("/board").locator("nav .badge")).to_have_text(number or "")
    assert place.server.get("/nothing/here").data["code"] == "not_found"


def test_a_rejection_of_ones_own_is_taken_back_and_its_events_say_how_the_actor_was_known(
    place: Place, reader: Reader
) -> None:
    page = reader.open(f"/tasks/{place.team.tasks['review']}")
    page.fill("#reject-text", "src/limits.py:3: the name says nothing")
    page.locator("#reject button").click()
    expect(page.locator(".side .status")).to_have_text("rejected")
    expect(page.locator(".timeline .t-bad .by")).to_contain_text("by token or session")

    page.fill("#retract-reason", "I was wrong")
    page.locator("#retract button").click()
    expect(page.locator(".side .status")).to_have_text("provisional")
    expect(page.locator("#retract")).to_have_count(0)


def test_what_happens_is_told_while_the_activity_is_open(place: Place, reader: Reader) -> None:
    page = reader.open("/activity?kind=task&actor=owner")
    task = place.team.repository.add("Name the new limit")

    expect(page.locator(".timeline li").first).to_contain_text("The task was added: Name the new limit")
    page.locator(".timeline a").first.click()
    expect(page).to_have_url(f"{place.origin}/tasks/{task}")


def test_settings_change_by_a_patch_for_the_base_alone_and_a_token_is_shown_once(
    place: Place, reader: Reader
) -> None:
    page, repository = reader.open("/settings"), place.team.repository
    expect(page.locator("#policy tr:has(code:text-is('director'))")).to_contain_text("remand.toml")
    expect(page.locator("#policy tr:has(code:text-is('lease'))")).to_contain_text("default")
    page.locator("#set-policy summary").click()
    page.select_option("#set-policy select", "lease")
    page.fill("#set-policy input[type=text]", "45m")
    page.locator("#set-policy button").click()
    expect(page.locator(".d-add")).to_have_text('+lease = "45m"')
    with page.expect_download() as found:
        page.locator("a[download]").click()
    assert '+lease = "45m"' in found.value.path().read_text()
    assert "lease" not in repository.git("show", "HEAD:remand.toml")

    page.goto(f"{place.origin}/settings")
    page.locator("#create-token summary").click()
    page.fill("#create-member", "Backend")
    page.locator("#create button").click()
    expect(page.locator(".secret")).to_contain_text("rmd_")
    page.reload()
    expect(page.locator(".secret")).to_have_count(0)
    page.locator("#tokens tr", has_text="Backend").locator("button").click()
    expect(page.locator("#tokens tr", has_text="Backend")).to_contain_text("revoked")


def test_a_refusal_is_shown_in_its_form_with_what_to_do(place: Place, reader: Reader) -> None:
    page = reader.open("/")
    first = page.locator("form[action='/do/inbox/answer']").first
    first.locator("textarea").fill("kept")
    first.locator("button").first.evaluate("one => { one.value = 'nonsense' }")
    first.locator("button").first.click()

    problem = page.locator("form[action='/do/inbox/answer'] [role=alert]")
    expect(problem).to_contain_text("Not done")
    expect(page.locator("form[action='/do/inbox/answer']").first.locator("textarea")).to_have_value("kept")


def test_a_page_on_paper_has_its_text_and_nothing_to_press(place: Place, reader: Reader) -> None:
    reader.page.emulate_media(media="print", color_scheme="dark")
    for path in ("/", "/board", "/tasks/{deadlock}", "/tasks/{deadlock}/changes", "/settings"):
        page = reader.open(path.format(**place.team.tasks))

        for pressed in page.locator("button, nav a, summary ~ form").all():
            expect(pressed).to_be_hidden()
        expect(page.locator("h1")).to_be_visible()
        assert page.evaluate("getComputedStyle(document.documentElement).colorScheme") == "light"


def test_a_task_that_was_cancelled_by_mistake_comes_back(place: Place, reader: Reader) -> None:
    page = reader.open(f"/tasks/{place.team.tasks['open']}")
    page.fill("#cancel-reason", "Not needed")
    page.locator("#cancel button").click()
    expect(page.locator(".side .status")).to_have_text("cancelled")

    page.locator(".note button", has_text="Undo").click()
    expect(page.locator(".side .status")).to_have_text("incoming")


@pytest.mark.more
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_can_be_used_by_everybody(browser: Browser, place: Place, scheme: Any) -> None:
    if not AXE.exists():
        pytest.skip("needs axe-core: scripts/axe-core")
    for width in (1280, 390):
        context = browser.new_context(
            storage_state=place.state,
            color_scheme=scheme,
            viewport={"width": width, "height": 800},
            reduced_motion="reduce",  # what fades in has less contrast on its way
        )
        reader = Reader(place, context)
        for path in PATHS:
            page = reader.open(path.format(**place.team.tasks))
            page.evaluate(AXE.read_text())
            found = page.evaluate("axe.run(document)")["violations"]
            serious = [
                (one["id"], one["nodes"][0]["html"][:200])
                for one in found
                if one["impact"] in ("serious", "critical")
            ]
            assert not serious, f"{path} at {width}, {scheme}"
            wide = page.evaluate("document.documentElement.scrollWidth")
            assert wide <= width, f"{path} is {wide} wide at {width}"
        assert not reader.faults
        context.close()


@pytest.mark.more
def test_everything_works_without_javascript(browser: Browser, place: Place) -> None:
    context = browser.new_context(storage_state=place.state, java_script_enabled=False)
    page = Reader(place, context).open("/")
    page.locator("article", has_text="rate limit").locator("button", has_text="I have seen it").click()

    expect(page.locator(".note")).to_contain_text("remand inbox ack")
    expect(page.locator("article", has_text="rate limit")).to_contain_text("seen by")
    context.close()


def test_a_form_counts_from_its_own_page_and_within_the_role_of_who_sends_it(place: Place) -> None:
    server, host = place.server, {"host": urlsplit(place.origin).netloc}
    token = place.team.repository.ok("token", "create", "--member", "Lead", "--role", "reviewer")["token"]
    opened = server.request("POST", "/login/token", urlencode({"token": token}).encode(), host)
    own = {**host, "cookie": opened.headers["set-cookie"].partition(";")[0]}
    csrf = server.get("/api/session", own).data["csrf"]
    answer = {"id": place.team.tasks["deadlock"], "option": "wontfix", "form": "x", "page": "/"}

    def send(headers: dict[str, str], **fields: str) -> tuple[int, str]:
        reply = server.request("POST", "/do/inbox/answer", urlencode(answer | fields).encode(), headers)
        return reply.status, reply.body.decode()

    elsewhere = {**own, "origin": "http://elsewhere.example"}
    for status, text in (send(own), send(own, csrf="another"), send(elsewhere, csrf=csrf)):
        assert (status, "wrong_page" in text) == (403, True)
    status, text = send(own, csrf=csrf)
    assert (status, "user_only" in text) == (403, True)
    assert send(host)[0] == 401
    for name, expected in (("task/claim", 404), ("token/create", 403)):
        fields = {"csrf": csrf, "member": "Lead", "page": "/settings"}
        refused = server.request("POST", f"/do/{name}", urlencode(fields).encode(), own)
        assert refused.status == expected
    page = server.request("GET", "/", headers=own)
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert "Let clients retry" not in page.body.decode()
    assert all(word in opened.headers["set-cookie"] for word in ("HttpOnly", "SameSite=Strict"))


def test_a_lockout_is_lifted_on_the_page_of_an_agent_with_its_record(place: Place, reader: Reader) -> None:
    page = reader.open("/agents")
    expect(page.locator("tr", has_text="Backend").first).to_contain_text("100 %")
    page.locator("tr a", has_text="Backend").first.click()
    expect(page.locator("h1")).to_have_text("Backend")
    expect(page.locator(".tiles")).to_contain_text("Rejections that stand")
    page.fill("#unlock-1-reason", "It was the documents that were wrong")
    page.locator("#unlock-1 button").click()

    expect(page.locator(".note")).to_contain_text("remand unlock")
    expect(page.locator(".locked")).to_have_count(1)
