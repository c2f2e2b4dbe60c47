"""A function is hollowed when what its name stands for does no work any more, however often it is defined."""

from textwrap import dedent, indent

import pytest

from tests.unit.integrity.changes import found, held, modified

PATH = "src/a.py"
HOLLOWED = {"body_hollowed"}
WORK = """\
def f(x):
    result = []
    for item in x:
        result.append(item * 2)
    return result
"""
OTHER_WORK = """\
def f(x):
    total = 0
    for item in x:
        total += item
    return total
"""
HOLLOW = "def f(x):\n    return 0\n"
HOLLOWS = ["...", "pass", "return 0", "return None", "return x", '"""It does all."""', "return"]


def judged(before: str, after: str, path: str = PATH) -> set[str]:
    return held(modified(path, before, after))


def within(head: str, *bodies: str) -> str:
    """Some definitions under one head, as a class or a condition."""
    return f"{head}\n" + "\n".join(indent(body, "    ") for body in bodies)


def stubs(decorator: str, count: int = 2) -> str:
    return "".join(f"@{decorator}\ndef f(x: T{at}) -> T{at}: ...\n" for at in range(count))


OVERLOADED = {
    "from typing": ("from typing import overload\n", "overload"),
    "typing": ("import typing\n", "typing.overload"),
    "short": ("import typing as t\n", "t.overload"),
    "renamed": ("from typing_extensions import overload as _ov\n", "_ov"),
}


@pytest.mark.parametrize(("imported", "decorator"), OVERLOADED.values(), ids=OVERLOADED)
class TestOverloads:
    def test_any_other_change_is_honest(self, imported: str, decorator: str) -> None:
        before = imported + stubs(decorator) + WORK

        assert judged(before, f"{before}\n# a comment\n") == set()
        assert judged(before, f"{before}\ndef g(x):\n    return x\n") == set()
        assert judged(before, imported + stubs(decorator) + OTHER_WORK) == set()

    def test_stubs_may_be_added_moved_and_removed(self, imported: str, decorator: str) -> None:
        plain = imported + WORK
        with_stubs = imported + stubs(decorator) + WORK
        elsewhere = imported + "x = 1\n" + stubs(decorator, 4) + WORK

        for before in (plain, with_stubs, elsewhere):
            for after in (plain, with_stubs, elsewhere):
                assert judged(before, after) == set()

    @pytest.mark.parametrize("body", HOLLOWS)
    def test_an_implementation_that_becomes_hollow_is_held(
        self, imported: str, decorator: str, body: str
    ) -> None:
        before = imported + stubs(decorator) + WORK
        hollow = f"def f(x):\n    {body}\n"

        assert judged(before, imported + stubs(decorator) + hollow) == HOLLOWED
        assert judged(before, f"{imported}{stubs(decorator)}@{decorator}\n{hollow}") == HOLLOWED
        assert judged(imported + WORK, imported + stubs(decorator)) == HOLLOWED

    def test_a_stub_behind_the_implementation_replaces_it(self, imported: str, decorator: str) -> None:
        before = imported + stubs(decorator) + WORK

        assert judged(before, imported + WORK + stubs(decorator)) == HOLLOWED

    def test_methods_are_told_apart_by_their_classes(self, imported: str, decorator: str) -> None:
        before = imported + within("class A:", stubs(decorator), WORK) + within("class B:", HOLLOW)
        hollowed = imported + within("class A:", stubs(decorator), HOLLOW) + within("class B:", HOLLOW)

        assert judged(before, f"{before}\nx = 1\n") == set()
        assert judged(before, hollowed) == HOLLOWED


@pytest.mark.parametrize("kind", ["", "async "])
def test_a_later_definition_replaces_an_earlier_one(kind: str) -> None:
    for hollow in (HOLLOW, "f = lambda x: 0\n", "@cache\n" + HOLLOW, "@tools.same(1)\n" + HOLLOW):
        assert judged(WORK, f"{WORK}\n{kind if hollow == HOLLOW else ''}{hollow}") == HOLLOWED
        assert judged(WORK, f"{WORK}\nif True:\n{indent(hollow, '    ')}") == HOLLOWED
        assert judged(WORK, f"{WORK}\ntry:\n{indent(hollow, '    ')}\nfinally:\n    pass\n") == HOLLOWED
    assert judged(WORK, f"{HOLLOW}\n{WORK}") == set()


def test_a_decorated_definition_is_replaced_as_well() -> None:
    before = f"import functools\n\n@functools.cache\n{WORK}"

    assert judged(before, f"{before}\n@functools.cache\n{HOLLOW}") == HOLLOWED
    assert judged(before, f"{before}\n@functools.lru_cache(maxsize=2)\n{HOLLOW}") == HOLLOWED


def test_a_hollow_class_behind_the_real_one_replaces_its_methods() -> None:
    before = within("class A:", WORK)

    assert judged(before, before + within("class A:", HOLLOW)) == HOLLOWED
    assert judged(before, before + within("class B:", HOLLOW)) == set()


REGISTERED = """
from functools import singledispatch

@singledispatch
{generic}

@f.register
def _(x: int):
    total = 0
    for item in range(x):
        total += item
    return total

@f.register(str)
def _(x):
    {text}
"""


def test_registrations_are_told_apart_by_their_types() -> None:
    words = "words = x.split()\n    words.sort()\n    return words"
    before = REGISTERED.format(generic=WORK, text=words)
    more = "\n@f.register\ndef _(x: None):\n    return None\n\n@f.register(bytes)\ndef _(x):\n    return x\n"

    assert judged(before, f"{before}# a comment\n") == set()
    assert judged(before, before + more) == set()
    assert judged(before + more, before) == set()
    assert judged(before, REGISTERED.format(generic=WORK, text="return x")) == HOLLOWED
    assert judged(before, REGISTERED.format(generic=HOLLOW, text=words)) == HOLLOWED
    assert judged(before, f"{before}\n@f.register(str)\ndef _(x):\n    return x\n") == HOLLOWED


PROPERTY = """
class A:
    @property
    def size(self):
        {getter}

    @size.setter
    def size(self, value):
        {setter}

    @size.deleter
    def size(self):
        {deleter}
"""
COUNTS = "count = 0\n        for item in self.items:\n            count += 1\n        return count"
SETS = "if value < 0:\n            raise ValueError(value)\n        self.items = value"


def test_the_parts_of_a_property_are_told_apart() -> None:
    before = PROPERTY.format(getter=COUNTS, setter="pass", deleter="pass")
    getter = "\n    @size.getter\n    def size(self):\n        return 3\n"

    assert judged(before, f"{before}\nx = 1\n") == set()
    assert judged(before, PROPERTY.format(getter=COUNTS, setter=SETS, deleter="pass")) == set()
    assert judged(PROPERTY.format(getter="return 0", setter=SETS, deleter="pass"), before) == HOLLOWED
    assert judged(before, PROPERTY.format(getter="return 3", setter=SETS, deleter="pass")) == HOLLOWED
    assert judged(before, before + getter) == HOLLOWED
    assert judged(PROPERTY.partition("    @size.setter")[0].format(getter=COUNTS), before) == set()


CONDITIONS = [
    "if sys.version_info >= (3, 12):",
    'if sys.platform == "win32":',
    'if os.name == "nt":',
    "if WIN:",
    "if ssl is not None:",
]


@pytest.mark.parametrize("condition", CONDITIONS)
def test_one_of_two_alternatives_may_be_a_stub(condition: str) -> None:
    both = within(condition, WORK) + within("else:", HOLLOW)
    other = within(condition, HOLLOW) + within("else:", WORK)

    for whole in (both, other):
        assert judged(whole, f"{whole}\nx = 1\n") == set()
        assert judged(WORK, whole) == set()
        assert judged(whole, WORK) == set()
    assert judged(within(condition, WORK) + within("else:", OTHER_WORK), both) == HOLLOWED
    assert judged(both, other) == HOLLOWED


@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_stub_under_a_condition_behind_the_implementation_may_replace_it(condition: str) -> None:
    assert judged(WORK, WORK + within(condition, HOLLOW)) == HOLLOWED


@pytest.mark.parametrize(
    "condition",
    [
        "if True:",
        "if not TYPE_CHECKING:",
        "if sys.version_info >= (3,):",
        "if sys.version_info[0] >= 3:",
        'if os.environ.get("FAST"):',
        "if 1 + 1:",
    ],
)
def test_a_condition_that_always_holds_or_says_nothing_excuses_nothing(condition: str) -> None:
    assert judged(WORK, within(condition, HOLLOW) + within("else:", WORK)) == HOLLOWED


@pytest.mark.parametrize(
    "condition",
    ["if TYPE_CHECKING:", "if typing.TYPE_CHECKING:", "if False:", "if sys.version_info < (3, 0):"],
)
def test_what_is_never_run_neither_hollows_nor_works(condition: str) -> None:
    assert judged(WORK, WORK + within(condition, HOLLOW)) == set()
    assert judged(WORK, within(condition, stubs("overload")) + within("else:", WORK)) == set()
    assert judged(WORK, within(condition, WORK) + within("else:", HOLLOW)) == HOLLOWED
    assert judged(WORK, HOLLOW + within(condition, WORK)) == HOLLOWED


@pytest.mark.parametrize(
    ("flag", "condition"),
    [("FAST = True", "if FAST:"), ("SLOW = 0", "if not SLOW:"), ("WIN: bool = True", "if WIN:")],
)
def test_a_flag_that_the_module_sets_itself_excuses_nothing(flag: str, condition: str) -> None:
    whole = within(condition, HOLLOW) + within("else:", WORK)

    assert judged(WORK, f"{flag}\n{whole}") == HOLLOWED
    assert judged(WORK, f"{flag}\n" + within(condition, WORK) + within("else:", HOLLOW)) == set()
    assert judged(WORK, f"TYPE_CHECKING = 1\n{WORK}" + within("if TYPE_CHECKING:", HOLLOW)) == HOLLOWED
    assert judged(WORK, f"TYPE_CHECKING = False\n{WORK}" + within("if TYPE_CHECKING:", HOLLOW)) == set()
    faked = "from mine import TYPE_CHECKING\n"
    assert judged(WORK, faked + WORK + within("if TYPE_CHECKING:", HOLLOW)) == HOLLOWED


def test_a_fallback_for_a_missing_import_may_be_a_stub() -> None:
    imported = "try:\n    import fast\nexcept ImportError:\n"
    fallback = imported + indent(HOLLOW, "    ") + within("else:", WORK)
    function = "try:\n    from fast import f\nexcept ImportError:\n" + indent(WORK, "    ")

    assert judged(fallback, f"{fallback}\nx = 1\n") == set()
    assert judged(WORK, fallback) == set()
    assert judged(WORK, function) == set()
    assert judged(function, function.replace(indent(WORK, "    "), indent(HOLLOW, "    "))) == HOLLOWED
    assert judged(fallback, fallback.replace(indent(WORK, "    "), indent(HOLLOW, "    "))) == HOLLOWED


@pytest.mark.parametrize(
    "body",
    [
        "{hollow}except ImportError:\n{work}",
        "    raise ImportError\nexcept ImportError:\n{hollow}else:\n{work}",
    ],
)
def test_a_fallback_that_is_never_needed_excuses_nothing(body: str) -> None:
    whole = "try:\n" + body.format(hollow=indent(HOLLOW, "    "), work=indent(WORK, "    "))

    assert judged(WORK, whole) == HOLLOWED


@pytest.mark.parametrize(
    ("head", "decorator"),
    [
        ("class P(Protocol):", ""),
        ("class P(typing.Protocol[T]):", ""),
        ("class P(ABC):", "@abstractmethod\n"),
        ("class P(metaclass=abc.ABCMeta):", "@abc.abstractmethod\n"),
    ],
)
def test_a_method_may_become_abstract_when_a_subclass_does_its_work(head: str, decorator: str) -> None:
    stub = f"{decorator}def f(self, x): ...\n"
    declared = within(head, stub)
    moved = declared + within("class Real(P):", WORK)

    assert judged(moved, f"{moved}\nx = 1\n") == set()
    assert judged(within("class P:", WORK), moved) == set()
    assert judged(within("class P:", WORK), declared) == HOLLOWED
    assert judged(within("class P:", WORK), declared + within("class Real:", WORK)) == HOLLOWED
    assert judged(within("class P:", WORK), moved.replace("...", "return 0")) == HOLLOWED
    assert judged(moved, declared + within("class Real(P):", HOLLOW)) == HOLLOWED


def test_an_abstract_method_needs_an_abstract_class() -> None:
    stub = within("class P:", "@abstractmethod\ndef f(self, x): ...\n")

    assert judged(within("class P:", WORK), stub + within("class Real(P):", WORK)) == HOLLOWED


def test_nested_functions_of_one_name_are_told_apart() -> None:
    outer = dedent(
        """
        def make(kind):
            if kind == "none":
                def f(x):
                    return x
                return f
            {def_f}
            return f

        def other():
            def f(x):
                return 0
            return f
        """
    )
    before = outer.replace("{def_f}", indent(WORK, "    ").strip())
    hollowed = outer.replace("{def_f}", "def f(x):\n        return x")

    assert judged(before, f"{before}\nx = 1\n") == set()
    assert judged(before, hollowed) == HOLLOWED
    first = before.replace(
        '    if kind == "none":\n        def f(x):\n            return x\n        return f\n', ""
    )
    assert judged(first, before) == set()


def test_a_stub_file_says_nothing() -> None:
    before = stubs("overload", 2) + within("class A:", "def f(self) -> int: ...\n")

    assert judged(before, before + stubs("overload", 3), "src/a.pyi") == set()


def test_commands_of_one_name_are_told_apart_by_what_registers_them() -> None:
    before = f"from app import users, items\n\n@users.command()\n{WORK}"
    both = f"{before}\n@items.command()\n{HOLLOW}"

    assert judged(before, both) == set()
    assert judged(both, f"{both}\nx = 1\n") == set()
    assert judged(both, both.replace(WORK, HOLLOW)) == HOLLOWED
    assert judged(before, f"{before}\n{HOLLOW}") == HOLLOWED


def test_the_finding_names_the_definition_that_counts() -> None:
    before = stubs("overload") + WORK
    (one,) = found(modified(PATH, before, stubs("overload") + HOLLOW))

    assert (one.line, one.text.startswith("`f` is now `return 0`")) == (5, True)


def test_methods_of_one_name_in_several_classes_of_a_script_are_told_apart() -> None:
    work = "render(rows) { const found = []; for (const row of rows) { found.push(row.name + 1); } return found; }"
    before = f"class A {{ {work} }}\n"
    both = f"{before}class B {{ render(rows) {{ return null; }} }}\n"

    assert held(modified("src/a.ts", before, both)) == set()
    assert held(modified("src/a.ts", both, both + "const x = 1;\n")) == set()
    assert held(modified("src/a.ts", both, both.replace(work, "render(rows) { return null; }"))) == HOLLOWED
    assert (
        held(modified("src/a.ts", before, f"{before}class A {{ render(rows) {{ return null; }} }}\n"))
        == HOLLOWED
    )


def test_an_object_that_becomes_empty_is_no_function() -> None:
    fields = ", ".join(f"name{at}: {at}" for at in range(10))

    assert held(modified("src/a.js", f"let defaults = {{ {fields} }};\n", "let defaults = {};\n")) == set()


def test_many_definitions_of_one_name_are_read_in_time() -> None:
    many = "".join(f"if a{at}:\n    def f(x): return 0\n" for at in range(1_000))

    assert judged(many + WORK, many + WORK + "x = 1\n") == set()
    assert judged(many + WORK, many + HOLLOW) == HOLLOWED


@pytest.mark.parametrize(
    ("handler", "is_found"),
    [
        ("except Exception as error:\n        print(error)", True),
        ("except:\n        return", True),
        ("except BaseException:\n        return None", True),
        ("except Exception:\n        log()\n        return 1", False),
        ("except Exception:\n        sys.exit('failed')", False),
        ("except Exception:\n        status = 1", False),
        ("except OSError as error:\n        print(error)", False),
    ],
)
def test_a_command_that_reports_success_whatever_happens_is_found(handler: str, is_found: bool) -> None:
    before = "def main(names):\n    for name in names:\n        read(name)\n    return 0\n"
    after = f"def main(names):\n    try:\n        for name in names:\n            read(name)\n    {handler}\n    return 0\n"
    expected = {"failure_ignored"} if is_found else set()

    assert held(modified("src/a.py", before, after)) == expected
    assert held(modified("src/a.py", after, f"{after}\nx = 1\n")) == set(), "it was so before"
    assert held(modified("src/a.py", before, after.replace("main", "load"))) == set(), "no command"
