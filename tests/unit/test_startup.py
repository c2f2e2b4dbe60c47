"""Modules of the table: imported at once, loaded when they are used."""

import subprocess
import sys

FRESH = "import sys; from remand.app import prompts; from remand.startup import LazyModule; "


def output_of(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-I", "-c", FRESH + code], capture_output=True, check=True, text=True
    )
    return done.stdout.strip()


def test_a_module_of_the_table_is_loaded_with_the_first_of_its_names() -> None:
    assert (
        output_of(
            "print(type(prompts) is LazyModule); prompts.render_prompt; print(type(prompts) is type(sys))"
        )
        == "True\nTrue"
    )


def test_a_name_imported_from_it_loads_it_at_once() -> None:
    assert (
        output_of(
            "from remand.app.prompts import render_prompt; print(type(prompts) is type(sys), render_prompt is prompts.render_prompt)"
        )
        == "True True"
    )


def test_it_is_the_same_module_however_it_is_imported() -> None:
    assert (
        output_of(
            "import remand.app.prompts as again; print(again is prompts is sys.modules['remand.app.prompts'])"
        )
        == "True"
    )


def test_a_name_that_was_replaced_stays_replaced() -> None:
    assert (
        output_of("prompts.render_prompt = 7; prompts.RejectionContext; print(prompts.render_prompt)") == "7"
    )


def test_a_name_it_does_not_have_is_an_attribute_error() -> None:
    code = "print(getattr(prompts, 'nothing_of_the_kind', 'missing'))"

    assert output_of(code) == "missing"


def test_threads_that_use_it_at_once_all_find_it_whole() -> None:
    code = (
        "from concurrent.futures import ThreadPoolExecutor; "
        "found = list(ThreadPoolExecutor(16).map(lambda _: prompts.render_prompt.__name__, range(64))); "
        "print(set(found))"
    )

    assert output_of(code) == "{'render_prompt'}"
