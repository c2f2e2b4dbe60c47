"""Holds what is understood of plain words, what is asked back, and what is never obeyed."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from remand.domain.text_commands import patterns as w
from remand.domain.text_commands.interpretation import MAX_TEXT, interpret_text
from remand.domain.text_commands.sentence import Vocabulary, fold_letters
from tests.unit.domain.text_commands.example_team import MEMBERS, ROOF, VOCABULARY, SpokenTasks, heard
from tests.unit.domain.text_commands.sentences import DEAF, LOOKALIKES, SAMPLES, UNSURE, VARIANTS

EVERY_SENTENCE = [*(text for text, _ in [*SAMPLES, *VARIANTS, *UNSURE]), *DEAF, *LOOKALIKES]


def short(text: object) -> str:
    return str(text)[:60] if isinstance(text, str) else ""


@pytest.mark.parametrize(("text", "wish"), SAMPLES, ids=short)
def test_a_sample_prompt_of_the_requirement_is_understood(text: str, wish: w.TextRequest) -> None:
    assert heard(text) == wish


@pytest.mark.parametrize(("text", "wish"), VARIANTS, ids=short)
def test_a_close_variant_is_understood(text: str, wish: w.TextRequest) -> None:
    assert heard(text) == wish


@pytest.mark.parametrize(("text", "choice"), UNSURE, ids=short)
def test_what_is_not_clear_is_asked_back_with_the_commands_it_may_mean(text: str, choice: str) -> None:
    answer = heard(text)

    assert isinstance(answer, w.UnclearRequest)
    assert answer.message
    assert any(line.startswith(choice) for line in answer.choices) if choice else not answer.choices


@pytest.mark.parametrize("text", DEAF, ids=short)
def test_what_is_no_wish_is_not_understood(text: str) -> None:
    answer = heard(text)

    assert isinstance(answer, w.UnknownRequest)
    assert answer.message


@pytest.mark.parametrize("text", LOOKALIKES, ids=ascii)
def test_a_name_in_letters_that_look_alike_is_nobodys(text: str) -> None:
    answer = heard(text)

    assert isinstance(answer, w.UnclearRequest | w.UnknownRequest)
    assert not getattr(answer, "choices", ())


def test_the_labelled_set_is_large() -> None:
    assert len(EVERY_SENTENCE) == len(set(EVERY_SENTENCE))
    assert len(VARIANTS) >= 80
    assert len(EVERY_SENTENCE) >= 150


@pytest.mark.parametrize("verb", ["approve", "reject"])
def test_approving_and_rejecting_is_left_to_its_command(verb: str) -> None:
    answer = heard(f"{verb} PR #15")

    assert isinstance(answer, w.UnknownRequest)
    assert answer.command.startswith(f"remand review {verb}")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Unlock Fenstr for #42", "There is no Fenstr. Did you mean Fenster?"),
        ("Unlock Fenster for 77", "77 may mean issue #77 or task T-20261115-080000-00000004."),
        ("Unlock Fenster", "Name the task."),
        ("unlock #42", "Name the agent."),
        ("review #42", "Name the reviewer."),
        ("reassign #42", "Name the agent that takes over."),
        ("Unlock Fenster for #99", "There is no task #99 here."),
        ("Escalate #42 to Hockney", "Escalations go only to the user."),
        ("Unlock Fenster and Core Dev for #42", "That is more than one request. Make them one at a time."),
    ],
)
def test_a_question_says_what_is_not_clear(text: str, message: str) -> None:
    answer = heard(text)

    assert isinstance(answer, w.UnclearRequest)
    assert answer.message == message


@pytest.mark.parametrize("name", ["Nobody", "Anton", "Stop"])
def test_a_question_about_a_name_that_nobody_has_says_so(name: str) -> None:
    answer = heard(f"Why is {name} locked out?")

    assert isinstance(answer, w.UnclearRequest)
    assert answer.message.startswith(f"There is no {name} here; the team has Fenster")
    assert answer.requests == ()


def test_a_request_takes_no_ordinary_word_for_a_name() -> None:
    assert isinstance(heard("Unlock Nobody for #42"), w.UnknownRequest)


def test_i_and_me_are_whoever_speaks() -> None:
    assert heard("unlock me for #42", "Fenster") == w.UnlockTextRequest(agent="Fenster", task=ROOF)
    assert heard("why am I locked out?", "Fenster") == w.WhyTextRequest(agent="Fenster")
    assert heard("escalate #42 to me", "owner") == w.EscalateTextRequest(task=ROOF)
    asked = heard("escalate #42 to me", "Lead")
    assert isinstance(asked, w.UnclearRequest), "an escalation goes to the user, who does not speak"


def test_a_name_of_two_members_is_asked_back() -> None:
    twice = Vocabulary((*MEMBERS, MEMBERS[0].__class__(name="fenster")), SpokenTasks())
    answer = interpret_text("unlock Fenster for #42", twice)

    assert isinstance(answer, w.UnclearRequest)
    assert len(answer.choices) == 2


@pytest.mark.parametrize(
    "piece", ["Fenster and Hockney, ", "#42 or #43 and ", ", ", "unlock Fenster for #42, ", "'a", "? "]
)
def test_a_long_text_is_read_without_trying_every_reading(piece: str) -> None:
    assert not isinstance(heard((piece * MAX_TEXT)[:MAX_TEXT]), w.TextRequest)


def test_a_wish_is_said_again_in_words_and_as_a_command() -> None:
    for text, wish in [*SAMPLES, *VARIANTS]:
        assert w.describe_request(wish).endswith("."), text
        assert w.render_command_line(wish).startswith("remand "), text
    assert w.render_command_line(SAMPLES[3][1]) == "remand reassign '#42' --from Fenster --to Hockney"


def test_a_reason_in_a_command_line_cannot_leave_its_quotes() -> None:
    wish = w.UnlockTextRequest(agent="Fenster", task=ROOF, reason="x'; rm -rf / #")

    said = """'x'"'"'; rm -rf / #'"""
    assert (
        w.render_command_line(wish) == f"remand unlock Fenster --task '#42' --reason {said} --guidance {said}"
    )


def test_letters_keep_their_place_in_lower_case() -> None:
    for text in ("İstanbul", "STRASSE", "ſ", "\u212a", "Ω", "ﬃ"):
        assert len(fold_letters(text)) == len(text)
    assert fold_letters("\u212aim") != "kim"


WORDS = [
    "unlock", "Unlock", "Fenster", "fenster's", "Hockney", "Will", "will", "Lead", "for", "#42", "issue", "PR", "15", "to",
    "from", "reassign", "escalate", "review", "me", "don't", "not", "if", "said", "—", ",", ":", ".", "?", '"', "'", "and",
    "or", "please", "why", "is", "locked", "out", "because", "again", "let", "lift", "lockout", "work", "on", "T-1", "the",
    "answer", "wontfix", "you", "can", "\n", ">", "(", ")", "Fenstr", "\u0435", "\u200b",
]  # fmt: skip
UNLOCKING = ("unlock", "let", "allow", "lift", "clear", "remove", "end", "undo")


@given(st.text(max_size=MAX_TEXT + 10) | st.lists(st.sampled_from(WORDS), max_size=14).map(" ".join))
@example("unlock Fenster for #42")
@example("\udcff unlock Fenster for #42")
def test_whatever_is_said_unlocks_nobody_unless_verb_agent_and_task_are_named(text: str) -> None:
    answer = heard(text)

    assert isinstance(answer, w.TextRequest | w.UnclearRequest | w.UnknownRequest)
    if isinstance(answer, w.UnlockTextRequest):
        said = fold_letters(text)
        assert any(verb in said for verb in UNLOCKING)
        assert "me" in said or any(name in said for name in _names_of(answer.agent))
        assert "42" in said or "15" in said
        assert not any(f"{word} unlock" in said for word in ("don't", "not", "if", "said"))


def _names_of(agent: str) -> list[str]:
    return [name for name, members in VOCABULARY.names.items() if agent in members]


@given(
    before=st.sampled_from(["don't ", "do not ", "never ", "if it helps, ", "Lead said: ", '"', "should I "]),
    sentence=st.sampled_from(
        [text for text, wish in [*SAMPLES, *VARIANTS] if isinstance(wish, w.UnlockTextRequest)]
    ),
)
def test_an_unlock_that_is_denied_reported_or_asked_is_not_obeyed(before: str, sentence: str) -> None:
    assert not isinstance(heard(before + sentence), w.TextRequest)
