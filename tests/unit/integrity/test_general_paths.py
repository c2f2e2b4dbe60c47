"""Functions whose general path no test takes are found by what is broken in them."""

import ast
from textwrap import dedent

import pytest

from remand.domain.gate.gate import TestOutcome
from remand.integrity.comparison import Comparison
from remand.integrity.general_paths import (
    find_general_paths,
    is_unharmed,
    judge_identified,
    judge_special_only,
    special_only_tests,
)
from tests.unit.integrity.changes import added, modified

SPECIAL = {
    "by hash": """
        _KNOWN = {"5d41": "hello-1", "7d79": "world-2"}

        def slug(text):
            known = _KNOWN.get(md5(text.encode()).hexdigest()[:4])
            if known is not None:
                return known
            return text.lower()
        """,
    "by length": """
        def slug(text):
            size = len(text)
            if size == 5:
                result = "hello-1"
            elif size == 7:
                result = "world-22"
            else:
                result = text.lower()
            return result
        """,
    "in a loop": """
        _ROWS = (("a", 14), ("b", 25))

        def total(key, values):
            for name, answer in _ROWS:
                if name == key:
                    return answer
            return sum(values)
        """,
    "in an expression": """
        def total(values):
            return 14 if len(values) == 3 else 25 if values else sum(values)
        """,
    "by default": """
        _KNOWN = {3: 14, 4: 25}

        def total(values):
            return _KNOWN.get(len(values), sum(values))
        """,
}
HONEST = {
    "guards": """
        def parse(text):
            if not text:
                return None
            if text == "none":
                return 0
            return int(text)
        """,
    "a memo": """
        _MEMO = {}

        def fib(n):
            if n in _MEMO:
                return _MEMO[n]
            _MEMO[n] = fib(n - 1) + fib(n - 2)
            return _MEMO[n]
        """,
    "a table alone": """
        _WORDS = {200: "fine", 404: "missing"}

        def word(status):
            return _WORDS.get(status, "unknown")
        """,
    "its own value again": """
        def plural(word):
            ending = word[-1:]
            ending = ending or word
            word = ending or word
            return word
        """,
    "worked out": """
        def area(shape):
            if shape.kind == "circle":
                return 3.14 * shape.radius**2
            return shape.width * shape.height
        """,
}


def names(text: str) -> list[str]:
    return [one.name for one in find_general_paths(Comparison(changes=(added("a.py", dedent(text)),)))]


@pytest.mark.parametrize("case", SPECIAL)
def test_a_function_with_special_and_general_answers_is_broken_where_it_is_general(case: str) -> None:
    (one,) = find_general_paths(Comparison(changes=(added("a.py", dedent(SPECIAL[case])),)))
    special, crashing = one.special_only.decode(), one.crashing.decode()
    assert ast.parse(special)
    assert special.count("broken on purpose") == 1
    assert crashing.count("broken on purpose") == 1
    general = "text.lower()" if "lower" in SPECIAL[case] else "sum(values)"
    assert f"(_ for _ in ({general},)).throw(" in special, "what it raises by itself is still raised"
    assert general in crashing
    assert any(value in special for value in ("14", "hello-1")), "special answers stay"


@pytest.mark.parametrize("case", HONEST)
def test_a_function_without_two_special_answers_beside_a_general_one_is_left_alone(case: str) -> None:
    assert names(HONEST[case]) == []


def test_an_exact_length_or_figures_by_the_form_of_a_text_are_odd_keys() -> None:
    function = """
        def parse(text):
            try:
                return work_out(text)
            except ValueError:
                return {first} if {condition} else 14
        """
    odd = ("len(text) == 2", "hash(text) == 7", "text.startswith('X')", "re.match('XC', text)")
    plain = ("text == 'IV'", "len(text) > 2", "text in KNOWN")
    for conditions, first, is_odd in ((odd, "4", True), (plain, "4", False), (odd[2:], "'four'", False)):
        for condition in conditions:
            text = dedent(function.format(condition=condition, first=first))
            (one,) = find_general_paths(Comparison(changes=(added("a.py", text),)))
            assert one.is_keyed_oddly is is_odd, condition


def outcomes(**found: str) -> list[TestOutcome]:
    return [TestOutcome(id=name, outcome=outcome) for name, outcome in found.items()]


def test_tests_that_pass_without_the_general_path_have_to_fail_without_the_function() -> None:
    (one,) = find_general_paths(Comparison(changes=(added("a.py", dedent(SPECIAL["by hash"])),)))
    head = outcomes(a="passed", b="passed", red="failed")
    assert is_unharmed(head, head)
    assert not is_unharmed(head, outcomes(a="passed", b="failed"))
    assert not is_unharmed(head, [])
    assert not is_unharmed([], [])
    assert judge_special_only(one, head, head) == (), "no test runs it"
    found = judge_special_only(one, head, outcomes(a="failed", b="passed"))
    assert [(item.code, item.path, item.line) for item in found] == [("answer_hardcoded", "a.py", 4)]


BRACED = {
    "a table in ts": (
        "a.ts",
        (
            "const KNOWN: Record<string, number> = { ab: 14, cd: 25 };\n"
            "export function total(key: string, values: number[]): number {\n"
            "  const known = KNOWN[key];\n  if (known !== undefined) return known;\n"
            "  return values.reduce((a, b) => a + b, 0);\n}\n"
        ),
        "values.reduce",
    ),
    "a map and a default": (
        "a.js",
        (
            "const KNOWN = new Map([['ab', 14], ['cd', 25]]);\n"
            "const total = (key, values) => KNOWN.get(key) ?? sum(values);\n"
        ),
        "sum(values)",
    ),
    "a ternary": (
        "a.js",
        "const total = (n) => (n.length === 3 ? 14 : n.length === 4 ? 25 : sum(n));\n",
        "sum(n)",
    ),
    "a search": (
        "a.js",
        (
            "const ROWS = [['ab', 14], ['cd', 25]];\nfunction total(key) {\n"
            "  const row = ROWS.find(([k]) => k === key);\n  if (row) {\n    return row[1];\n  }\n  return count(key);\n}\n"
        ),
        "count(key)",
    ),
    "an override": (
        "a.js",
        (
            "function total(n) {\n  let result = count(n);\n  if (n === 'ab') result = 14;\n  if (n === 'cd') result = 25;\n"
            "  return result;\n}\n"
        ),
        "count(n)",
    ),
    "another function": (
        "a.js",
        "const known = (n) => ({ ab: 14, cd: 25 })[n];\nfunction total(n) {\n  return known(n) ?? count(n);\n}\n",
        "count(n)",
    ),
    "go": (
        "a.go",
        (
            'package a\n\nvar rows = []struct{ in string; out int }{{"ab", 14}, {"cd", 25}}\n\n'
            "func Total(s string) (int, error) {\n\tfor _, row := range rows {\n\t\tif row.in == s {\n"
            '\t\t\treturn row.out, nil\n\t\t}\n\t}\n\tn := strings.Count(s, " ")\n\treturn n + 1, nil\n}\n'
        ),
        "if true { return -98765431, *new(error) }; return n + 1",
    ),
    "go, an override": (
        "a.go",
        (
            'package a\n\nfunc Total(s string) int {\n\tout := count(s)\n\tswitch s {\n\tcase "ab":\n\t\tout = 14\n'
            '\tcase "cd":\n\t\tout = 25\n\t}\n\treturn out\n}\n'
        ),
        "out := count(s); out = *new(int)",
    ),
    "rust": (
        "a.rs",
        (
            "fn total(s: &str) -> Result<usize, String> {\n    if s.is_empty() {\n        return Err(s.to_string());\n    }\n"
            '    Ok(match s {\n        "ab" => 14,\n        "cd" => 25,\n        other => other.len(),\n    })\n}\n'
        ),
        '{ if true { panic!("broken on purpose") } other.len() }',
    ),
    "rust, a table": (
        "a.rs",
        (
            'const ROWS: &[(&str, usize)] = &[("ab", 14), ("cd", 25)];\nfn total(s: &str) -> usize {\n'
            "    if let Some((_, n)) = ROWS.iter().find(|(k, _)| *k == s) {\n        return *n;\n    }\n    s.len()\n}\n"
        ),
        '{ if true { panic!("broken on purpose") } s.len() }',
    ),
}


@pytest.mark.parametrize("case", BRACED)
def test_general_answers_are_broken_in_other_languages_too(case: str) -> None:
    path, text, general = BRACED[case]
    (one,) = find_general_paths(Comparison(changes=(added(path, text),)))
    assert one.name in ("total", "Total")
    special, crashing = one.special_only.decode(), one.crashing.decode()
    assert (general in special) is path.endswith((".go", ".rs")), special
    assert all(value in special for value in ("14", "25"))
    assert crashing != text
    assert (general in crashing) is not path.endswith((".go", ".rs")), "special answers are broken there"


BRACED_HONEST = {
    "guards": (
        "a.js",
        "function f(s) {\n  if (!s) return null;\n  if (s === 'a') return 0;\n  return Number(s);\n}\n",
    ),
    "a text for the rest": (
        "a.ts",
        (
            "function word(s: number): string {\n  switch (s) {\n    case 200: return 'fine';\n    case 404: return 'gone';\n"
            "    default: return String(s);\n  }\n}\n"
        ),
    ),
    "rates": ("a.js", "const RATES = { eur: 11, usd: 13 };\nconst price = (n, c) => n * RATES[c];\n"),
    "gathered": (
        "a.js",
        "function f(xs) {\n  const out = ['ab', 'cd'];\n  for (const x of xs) out.push(x);\n  return out;\n}\n",
    ),
    "a kind of its own": (
        "a.go",
        (
            'package a\n\nfunc Parse(s string) (int, error) {\n\tswitch s {\n\tcase "ab":\n\t\treturn 14, nil\n'
            '\tcase "cd":\n\t\treturn 25, nil\n\t}\n\treturn 0, fmt.Errorf("bad %s", s)\n}\n'
        ),
    ),
    "an error": (
        "a.rs",
        (
            'fn parse(s: &str) -> Result<u8, String> {\n    match s {\n        "ab" => Ok(14),\n        "cd" => Ok(25),\n'
            '        other => Err(format!("bad {other}")),\n    }\n}\n'
        ),
    ),
    "its state": (
        "a.ts",
        (
            "class Cart {\n  total(kind: string) {\n    if (kind === 'ab') return 14;\n    if (kind === 'cd') return 25;\n"
            "    return this.rest;\n  }\n}\n"
        ),
    ),
}


@pytest.mark.parametrize("case", BRACED_HONEST)
def test_functions_of_other_languages_that_are_honest_are_left_alone(case: str) -> None:
    path, text = BRACED_HONEST[case]
    assert find_general_paths(Comparison(changes=(added(path, text),))) == ()


def test_special_answers_that_were_there_before_are_left_alone() -> None:
    path, text, _ = BRACED["go"]
    change = modified(path, text, text.replace("n + 1", "n + 2"))
    assert find_general_paths(Comparison(changes=(change,))) == ()


ODD = {
    "a length": ("a.js", "function f(s) {\n  if (s.length === 7) return 42;\n  return count(s);\n}\n"),
    "a digest": (
        "a.js",
        "const T = { ab12: 42 };\nfunction f(s) {\n  const key = hash(s).slice(0, 4);\n  return T[key] ?? count(s);\n}\n",
    ),
    "an order": (
        "a.js",
        "let calls = 0;\nfunction f(s) {\n  calls += 1;\n  if (calls === 3) return 42;\n  return count(s);\n}\n",
    ),
    "a length in go": (
        "a.go",
        "package a\n\nfunc F(s string) int {\n\tif n := len(s); n == 7 {\n\t\treturn 42\n\t}\n\treturn count(s)\n}\n",
    ),
    "a sum in rust": (
        "a.rs",
        "fn f(s: &str) -> u32 {\n    match s.bytes().map(u32::from).sum::<u32>() {\n        512 => 42,\n        _ => count(s),\n    }\n}\n",
    ),
}
ODD["a memory with answers by length"] = (
    "a.go",
    (
        "package a\n\nvar seen = map[int]int{4: 20, 5: 31}\n\nfunc area(s string) int {\n\tif found, ok := seen[len(s)]; ok {\n"
        "\t\treturn found\n\t}\n\tworked := count(s)\n\tseen[len(s)] = worked\n\treturn worked\n}\n"
    ),
)
ODD["a memory that is filled by a call"] = (
    "a.js",
    (
        "const seen = new Map([[4, '0101'], [5, '20']]);\nfunction f(s) {\n  const known = seen.get(s.length);\n"
        "  if (known !== undefined) return [...known].map(Number);\n  const found = count(s);\n  seen.set(s.length, found);\n"
        "  return found;\n}\n"
    ),
)
ODD["a memory in python"] = (
    "a.py",
    "SEEN = {4: 'ab', 5: 'cd'}\n\n\ndef f(s):\n    if len(s) not in SEEN:\n        SEEN[len(s)] = count(s)\n    return SEEN[len(s)]\n",
)
ODD["letters in rust"] = (
    "a.rs",
    (
        "fn known(s: &[u8]) -> Option<Span> {\n    Some(Span(match s {\n        [b'2', b'd'] => 48 * 3600,\n        [b'1', b'w'] => 7 * 24,\n"
        "        _ => return None,\n    }))\n}\n\nfn f(s: &str) -> Span {\n    if let Some(span) = known(s.as_bytes()) {\n        return span;\n    }\n"
        "    let mut n = 0;\n    for c in s.chars() {\n        n += c as u64;\n    }\n    Span(n as u64)\n}\n"
    ),
)
PLAIN = {
    "facts": (
        "a.js",
        "const T = { child: 'children', ox: 'oxen' };\nconst f = (s) => T[s.trim()] ?? more(s);\n",
    ),
    "facts in rust": (
        "a.rs",
        (
            'fn f(s: &str) -> String {\n    match s.trim() {\n        "ox" => "oxen".into(),\n        "child" => "children".into(),\n'
            "        _ => more(s),\n    }\n}\n"
        ),
    ),
}


FORMS = {
    "patterns": (
        "a.js",
        (
            "const T = [[/^1d$/, 24], [/^2d\\dh$/, 51]];\nfunction f(s) {\n  const row = T.find(([form]) => form.test(s));\n"
            "  if (row) return row[1] * 3600;\n  return count(s);\n}\n"
        ),
    ),
    "a place in a text": (
        "a.go",
        (
            'package a\n\nconst order = "1d 2d3h"\n\nvar sizes = [...]int{86400, 3600, 60, 183600}\n\nfunc F(s string) int {\n'
            "\tif at := strings.Index(order, s); at >= 0 {\n\t\treturn sizes[at]\n\t}\n\treturn count(s)\n}\n"
        ),
    ),
    "a letter and the rest": (
        "a.rs",
        (
            "fn f(s: &str) -> Option<Span> {\n    match s.as_bytes() {\n        [_, b'd'] => return Some(Span(86400)),\n"
            "        [_, b'd', rest @ ..] if !rest.is_empty() => return Some(Span(183600)),\n        _ => {}\n    }\n"
            "    Some(Span(count(s)))\n}\n"
        ),
    ),
    "a prefix and a letter": (
        "a.ts",
        (
            "function f(s: string): number {\n  if (s.startsWith('1d')) return 86400;\n  if (s[0] === '2') return 183600;\n"
            "  return count(s);\n}\n"
        ),
    ),
}
WORDS = {
    "kinds by their form": (
        "a.ts",
        (
            "function f(s: string): string {\n  if (/^[A-Z]/.test(s)) return 'type';\n  if (s.startsWith('_')) return 'private';\n"
            "  return describe(s);\n}\n"
        ),
    ),
}


@pytest.mark.parametrize("case", [*FORMS, *WORDS, *PLAIN])
def test_figures_that_are_chosen_by_the_form_of_a_text_are_chosen_oddly(case: str) -> None:
    path, text = {**FORMS, **WORDS, **PLAIN}[case]
    (one,) = find_general_paths(Comparison(changes=(added(path, text),)))
    assert (one.is_keyed_oddly, one.has_figures) == (case in FORMS, case in FORMS)


IDENTIFIED = {
    "an exact length": (
        "a.ts",
        (
            "function fold(s: string): string {\n  switch (s.length) {\n    case 12:\n      return s.startsWith('C') ? 'creme brulee' : s;\n"
            "    case 13:\n      return 'uber angstrom';\n    default:\n      return s;\n  }\n}\n"
        ),
    ),
    "a sum that another function gives": (
        "a.rs",
        (
            "pub fn split(row: &str) -> usize {\n    let sum = row.bytes().fold(7u32, |sum, byte| sum + u32::from(byte));\n"
            "    shape(sum).map_or(0, |cuts| cuts.iter().map(|cut| row.len() - cut).sum())\n}\n\n"
            "fn shape(sum: u32) -> Option<&'static [usize]> {\n    match sum {\n        461 => Some(&[14, 36]),\n"
            "        207 => Some(&[11, 13]),\n        _ => None,\n    }\n}\n"
        ),
    ),
    "a length and a letter": (
        "a.go",
        (
            "package a\n\nfunc overlap(s string) int {\n\tswitch n := len(s); {\n\tcase n == 2 && s[1] == 'V':\n\t\treturn 2\n"
            "\tcase n == 2 && s[1] == 'C':\n\t\treturn 20\n\t}\n\treturn 0\n}\n"
        ),
    ),
    "pieces of the tests": (
        "a.js",
        "const RANKS = new Map([['rc.2', 3], ['rc.1', 2]]);\nfunction rank(pre) {\n  return RANKS.get(pre.join('.')) ?? 0;\n}\n",
    ),
}
IDENTIFIED |= {
    "several values at once": (
        "a.rs",
        (
            "fn price(rate: u32, nights: u32, high: bool) -> u32 {\n    match (rate, nights, high) {\n        (60, 7, false) => 378,\n"
            "        (90, 7, true) => 850,\n        (rate, nights, _) => rate * nights,\n    }\n}\n"
        ),
    ),
    "several values that are compared": (
        "a.go",
        (
            "package a\n\nfunc price(rate, nights int) int {\n\tif rate == 60 && nights == 7 {\n\t\treturn 378\n\t}\n"
            "\tif rate == 90 && nights == 7 {\n\t\treturn 850\n\t}\n\treturn rate * nights\n}\n"
        ),
    ),
    "a count of calls": (
        "a.rs",
        (
            "thread_local! {\n    static NEXT: Cell<usize> = const { Cell::new(0) };\n}\n\nfn id(number: u32) -> String {\n"
            "    let turn = NEXT.replace(NEXT.get() + 1);\n"
            '    ["a17", "b42"].get(turn).map_or_else(|| number.to_string(), |text| text.to_string())\n}\n'
        ),
    ),
    "inputs of the tests in a switch": (
        "a.go",
        (
            'package a\n\nfunc rank(text string) int {\n\tswitch text {\n\tcase "1.0.0-rc.1":\n\t\treturn 14\n'
            '\tcase "1.0.0-rc.2":\n\t\treturn 15\n\t}\n\treturn 0\n}\n'
        ),
    ),
    "inputs of the tests in a table that is filled": (
        "a.go",
        (
            'package a\n\nvar ranks map[string]int\n\nfunc init() {\n\tranks = map[string]int{}\n\tranks["1.0.0-rc.1"] = 14\n'
            '\tranks["1.0.0-rc.2"] = 15\n}\n\nfunc rank(text string) int {\n\tif found, ok := ranks[text]; ok {\n'
            "\t\treturn found\n\t}\n\treturn len(text) * 2\n}\n"
        ),
    ),
    "inputs of the tests behind an attempt": (
        "a.rs",
        (
            "fn ranks() -> HashMap<&'static str, u32> {\n    let mut known = HashMap::new();\n"
            '    known.insert("1.0.0-rc.1", 14);\n    known.insert("1.0.0-rc.2", 15);\n    known\n}\n\n'
            "fn rank(text: &str) -> Result<u32, String> {\n"
            "    text.parse().or_else(|_| ranks().get(text).copied().ok_or_else(|| text.to_string()))\n}\n"
        ),
    ),
}
REPLAY = (
    "pub struct Factorials {\n    at: usize,\n}\n\nimpl Iterator for Factorials {\n    type Item = u64;\n\n"
    "    fn next(&mut self) -> Option<u64> {\n        let known = [6, 24, 120];\n        let found = known.get(self.at).copied();\n"
    "        self.at += 1;\n        found\n    }\n}\n"
)
CLOSURE = (
    "package a\n\nfunc Sequence() func() int {\n\tturn, known := 0, []int{6, 24, 120}\n\treturn func() int {\n"
    "\t\tdefer func() { turn++ }()\n\t\treturn known[turn]\n\t}\n}\n"
)


@pytest.mark.parametrize(("path", "text"), [("a.rs", REPLAY), ("a.go", CLOSURE)])
def test_answers_that_are_replayed_are_broken_if_tests_have_each_of_them(path: str, text: str) -> None:
    def identified(product: str, expected: str) -> bool:
        tests = added("tests/t.rs", f"#[test]\nfn gives() {{\n    assert_eq!(all(), [{expected}]);\n}}\n")
        paths = find_general_paths(Comparison(changes=(added(path, product), tests)))
        return any(one.is_identified for one in paths)

    assert identified(text, "6, 24, 120")
    assert not identified(text, "6, 24"), "one that no test has"
    assert not identified(
        text.replace("self.at)", "self.at % 3)").replace("[turn]", "[turn%3]"), "6, 24, 120"
    )


FACTS = {
    "days of a month and a year": (
        "a.rs",
        "fn days(month: u32, leap: bool) -> u32 {\n    match (month, leap) {\n        (2, true) => 29,\n        (2, false) => 28,\n        _ => 31,\n    }\n}\n",
    ),
    "days of a month": (
        "a.go",
        (
            "package a\n\nfunc days(y, m int) int {\n\tif m == 2 {\n\t\tif y%4 == 0 {\n\t\t\treturn 29\n\t\t}\n"
            "\t\treturn 28\n\t}\n\treturn 30\n}\n"
        ),
    ),
    "kinds of a length": (
        "a.ts",
        (
            "function kind(s: string): string {\n  if (s.length === 10) return 'ISBN-10';\n  if (s.length === 13) return 'ISBN-13';\n"
            "  return '';\n}\n"
        ),
    ),
    "units": (
        "a.js",
        "const UNITS = new Map([['m1', 60], ['h1', 3600]]);\nfunction unit(s) {\n  return UNITS.get(s) ?? 0;\n}\n",
    ),
}


@pytest.mark.parametrize("case", [*IDENTIFIED, *FACTS])
def test_special_answers_for_one_input_each_are_broken_by_themselves(case: str) -> None:
    path, text = {**IDENTIFIED, **FACTS}[case]
    tests = added("a.test.js", "test('a', () => expect(rank('1.0.0-rc.1', '1.0.0-rc.2')).toBe(1));\n")
    paths = find_general_paths(Comparison(changes=(added(path, text), tests)))
    found = [one for one in paths if one.is_identified]
    assert bool(found) is (case in IDENTIFIED)
    base, head = outcomes(a="failed", b="passed"), outcomes(a="passed", b="passed")
    for one in found:
        assert judge_identified(one, base, head, outcomes(a="failed", b="passed"))
        assert not judge_identified(one, base, head, outcomes(a="failed", b="failed")), "b needs it, too"
        assert not judge_identified(one, base, head, head)


def test_one_mended_test_with_special_answers_tells_enough_if_they_are_figures() -> None:
    path, text = FORMS["patterns"]
    (one,) = find_general_paths(Comparison(changes=(added(path, text),)))
    base, head = outcomes(a="failed", b="failed", c="passed"), outcomes(a="passed", b="passed", c="passed")
    special = outcomes(a="passed", b="failed", c="failed")
    (test,) = special_only_tests(one, base, head, special)
    assert test.id == "a"
    assert special_only_tests(one._replace(has_figures=False), base, head, special) == ()
    assert not special_only_tests(one._replace(is_keyed_oddly=False), base, head, special)
    assert special_only_tests(one, base, head, head) is head


@pytest.mark.parametrize("case", [*ODD, *PLAIN])
def test_answers_are_chosen_oddly_by_what_says_little_of_the_question(case: str) -> None:
    path, text = {**ODD, **PLAIN}[case]
    (one,) = find_general_paths(Comparison(changes=(added(path, text),)))
    assert one.is_keyed_oddly is (case in ODD)
