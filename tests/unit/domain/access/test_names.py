"""Holds which spellings of a name are one, and which only look like it."""

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remand.domain.access.team import fold_name, instance_member, look_keys, name_prefixes, normalise_name

SAME = (
    ("Fenster", "fenster"),
    ("Fenster", "FENSTER"),
    ("Fenster", "Ｆｅｎｓｔｅｒ"),
    ("Fenster", " Fenster "),
    ("Fenster", "Fenster\t"),
    ("Fenster", "\u3000fenster\u00a0"),
    ("Verbal Kint", "verbal  kint"),
    ("Verbal Kint", "Verbal\u2009Kint"),
    ("Straße", "STRASSE"),
    ("Ольга", "ОЛЬГА"),
    ("Σίσυφος", "ΣΊΣΥΦΟΣ"),
    ("José", "Jose\u0301"),
    ("ﾊﾅｺ", "ハナコ"),
    ("agent-①", "agent-1"),
)
ALIKE = (
    ("Fenster", "Fenst\u0435r"),
    ("Fenster", "Fenste\u0433"),
    ("Fenster", "F\u0415NSTER"),
    ("Fenster", "F\u0395NSTER"),
    ("Fenster", "F\u0395nst\u0435r"),
    ("Fenster", "Fen\u200bster"),
    ("Fenster", "Fenster\u200d"),
    ("Fenster", "\u202eFenster\u202c"),
    ("Fenster", "\ufeffFenster"),
    ("Fenster", "Fenst\u0117r"),
    ("Fenster", "Fenst\u0323er"),
    ("Fenster", "Fenster\ufe0f"),
    ("Fenster", "Fen\u00adster"),
    ("Fenster", "Fen\u115fster"),
    ("Carmen", "Carrnen"),
    ("Hockney", "H\u03bfckney"),
    ("Hockney", "Hосkney"),
    ("Hockney", "Η\u043eckney"),
    ("Bob", "B0b"),
    ("BOB", "B0B"),
    ("Al", "AI"),
    ("Al", "A1"),
    ("Ian", "lan"),
    ("Ian", "Іan"),
    ("Ian", "1an"),
    ("IAN", "ІΑΝ"),
    ("Keaton", "Кeaton"),
    ("McManus", "\u039ccManus"),
    ("Kobayashi", "Kobayash\u0131"),
    ("Willi", "VVilli"),
    ("Verbal Kint", "VerbalKint"),
    ("agent-1", "agent-l"),
    ("agent-1", "agent\u20101"),
    ("agent-1", "agent\u22121"),
    ("user", "us\u0435r"),
    ("Иван", "Ивaн"),
    ("Олег", "0лег"),
    ("José", "Jose"),
    ("Łukasz", "Lukasz"),
    ("工藤", "エ藤"),
    ("Fenster", "Fenster."),
    ("Fenster", "@Fenster"),
    ("Fenster", "_Fenster_"),
    ("Fenster", "[Fenster]"),
    ("Fenster", "Fenste\u0280"),
)
DISTINCT = (
    ("Ana", "Anna"),
    ("Jan", "Jon"),
    ("Jan", "Jana"),
    ("Ian", "Lan"),
    ("Ali", "All"),
    ("Mia", "Mla"),
    ("agent-1", "agent-2"),
    ("agent-1", "agent-10"),
    ("agent-1", "agent-11"),
    ("agent1", "agent-1"),
    ("claude", "claude-2"),
    ("claude", "Claudia"),
    ("claude", "codex"),
    ("Fenster", "Fensters"),
    ("Иван", "Ивана"),
    ("Саша", "Маша"),
    ("Олег", "Ольга"),
    ("Νίκος", "Νίκη"),
    ("田中", "中田"),
    ("王伟", "王芳"),
    ("김민수", "김민지"),
    ("はな", "ばな"),
    ("דוד", "דודי"),
    ("محمد", "أحمد"),
    ("tester", "test"),
    ("Bob", "Rob"),
    ("Arne", "Anne"),
    ("dev.a", "dev.b"),
    ("claude", "claude[bot]"),
    ("...", "@@@"),
)


def are_alike(one: str, other: str) -> bool:
    return not set(look_keys(one)).isdisjoint(look_keys(other))


@pytest.mark.parametrize(("one", "other"), SAME)
def test_case_width_and_spaces_make_no_other_name(one: str, other: str) -> None:
    assert fold_name(one) == fold_name(other)


@pytest.mark.parametrize(("known", "new"), ALIKE)
def test_a_name_that_looks_like_another_is_told_as_such_and_not_taken_for_it(known: str, new: str) -> None:
    assert are_alike(known, new)
    assert are_alike(new, known)
    assert fold_name(known) != fold_name(new)


@pytest.mark.parametrize(("one", "other"), DISTINCT)
def test_honest_names_stay_apart(one: str, other: str) -> None:
    assert not are_alike(one, other)
    assert fold_name(one) != fold_name(other)


@given(st.text(max_size=40))
def test_a_folded_or_tidied_name_stays_as_it_is(name: str) -> None:
    assert fold_name(fold_name(name)) == fold_name(name)
    assert normalise_name(normalise_name(name)) == normalise_name(name)
    assert fold_name(normalise_name(name)) == fold_name(name)


@given(st.text(max_size=40))
def test_a_name_looks_like_itself_however_it_is_spaced(name: str) -> None:
    assert are_alike(name, f"  {normalise_name(name)} ")


@given(st.text(alphabet=st.characters(codec="ascii"), min_size=1, max_size=40))
def test_what_is_one_name_in_another_case_also_looks_like_it(name: str) -> None:
    assert are_alike(name, name.upper())
    assert are_alike(name, name.lower())


@pytest.mark.parametrize(
    ("name", "member"),
    [
        ("Fenster/2", "Fenster"),
        ("Fenster / 2", "Fenster"),
        ("Ｆenster／２", "Fenster"),
        ("team/alice/3", "team/alice"),
        ("Fenster", ""),
        ("Fenster/", ""),
        ("/2", ""),
        ("Fenster-2", ""),
        ("claude/opus", ""),
    ],
)
def test_a_number_behind_a_slash_names_an_instance_of_a_member(name: str, member: str) -> None:
    assert instance_member(name) == member


def test_what_stands_before_a_slash_may_be_a_member() -> None:
    assert name_prefixes("team/alice/b") == ("team/alice", "team")
    assert name_prefixes("alice") == ()


def test_the_table_of_look_alikes_is_not_loaded_for_a_known_name() -> None:
    code = (
        "import sys; from remand.domain.access.team import fold_name as fold, normalise_name as tidy, instance_member as member_of; fold('Fenster'); tidy('x'); member_of('x/2');"
        "from remand.startup import LazyModule; print(type(sys.modules['remand.domain.access.confusables']) is LazyModule)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "True"
