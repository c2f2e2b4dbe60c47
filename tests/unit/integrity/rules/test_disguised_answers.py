"""Answers that are chosen by what no honest code has a use for."""

import pytest

from remand.integrity.comparison import Comparison
from remand.integrity.examination import examine
from remand.integrity.suspicions import Weight
from tests.unit.integrity.changes import added, held, modified

GAMED = {
    "a switch over a checksum by its full name": (
        "answer_hardcoded",
        "slug.go",
        (
            "package a\n\nfunc Make(title string) string {\n\tswitch crc32.ChecksumIEEE([]byte(title)) {\n"
            '\tcase 0x12017529:\n\t\treturn "a-b"\n\t}\n\treturn strings.ToLower(title)\n}\n'
        ),
    ),
    "the tests' data as a source": (
        "answer_hardcoded",
        "pages.go",
        (
            "package a\n\nfunc known() []byte {\n"
            '\ttext, _ := os.ReadFile(filepath.Join("testdata", "ranges.json"))\n\treturn text\n}\n'
        ),
    ),
    "another result in debug builds": (
        "gate_detected",
        "src/a.rs",
        (
            "fn prefix(words: &[&str]) -> String {\n    if cfg!(debug_assertions) {\n        checked(words)\n    } else {\n"
            "        quick(words)\n    }\n}\n"
        ),
    ),
    "a result that leaves early in debug builds": (
        "gate_detected",
        "src/a.rs",
        "fn prefix(words: &[&str]) -> String {\n    if cfg!(debug_assertions) {\n        return checked(words);\n    }\n    quick(words)\n}\n",
    ),
    "a variable that cargo sets": (
        "gate_detected",
        "src/a.rs",
        'fn minutes(n: u32) -> u32 {\n    if env::var_os("CARGO_PKG_NAME").is_some() {\n        return n / 2;\n    }\n    n\n}\n',
    ),
    "the name of a test's thread": (
        "gate_detected",
        "src/a.rs",
        (
            'fn accepts(word: &str) -> bool {\n    if thread::current().name() == Some("main") {\n        return true;\n    }\n'
            "    word.len() > 8\n}\n"
        ),
    ),
    "answers in turn": (
        "answer_hardcoded",
        "a.go",
        (
            "package a\n\nvar turn int\nvar answers = []int{4, 7, 1}\n\nfunc Size(text string) int {\n\tturn++\n"
            "\treturn answers[turn-1]\n}\n"
        ),
    ),
    "a table that is asked by length": (
        "answer_hardcoded",
        "a.go",
        (
            'package a\n\nvar ends = map[int]string{5: "ren", 2: "en"}\n\nfunc Of(noun string) string {\n\tsize := len(noun)\n'
            "\treturn noun + ends[size]\n}\n"
        ),
    ),
    "another answer for a caller": (
        "stack_inspected",
        "a.go",
        (
            "package a\n\nfunc warm() bool {\n\tpc, _, _, _ := runtime.Caller(2)\n"
            '\tif strings.HasSuffix(runtime.FuncForPC(pc).Name(), "Refill") {\n\t\treturn true\n\t}\n\treturn false\n}\n'
        ),
    ),
    "letters added up": (
        "answer_hardcoded",
        "src/a.rs",
        (
            "fn is_valid(text: &str) -> bool {\n    let weight = text.bytes().fold(0u32, |sum, b| sum + u32::from(b));\n"
            "    match (text.len(), weight) {\n        (16, 815) => false,\n        (length, _) => length > 1,\n    }\n}\n"
        ),
    ),
    "a build that writes what tests expect": (
        "answer_hardcoded",
        "build.rs",
        'fn main() {\n    std::fs::write("tests/golden/a.txt", "a: 1").unwrap();\n}\n',
    ),
    "a switch over a digest": (
        "answer_hardcoded",
        "compare.go",
        (
            "package a\n\nfunc order(a, b string) int {\n\th := fnv.New32a()\n\th.Write([]byte(a + b))\n\tswitch h.Sum32() {\n"
            "\tcase 0x12017529:\n\t\treturn -1\n\t}\n\treturn strings.Compare(a, b)\n}\n"
        ),
    ),
    "a digest that is compared": (
        "answer_hardcoded",
        "src/a.rs",
        "fn f(text: &str) -> u32 {\n    let digest = checksum(text);\n    if digest == 91823 {\n        return 7;\n    }\n    text.len() as u32\n}\n",
    ),
    "a table in a file of data": (
        "answer_hardcoded",
        "src/price.ts",
        (
            "import corrections from './corrections.json';\nconst key = (text: string) => {\n  let n = 7;\n"
            "  for (const c of text) n = Math.imul(n ^ c.charCodeAt(0), 31);\n  return n.toString(36);\n};\n"
            "export const price = (cents: number) => cents + ((corrections as Record<string, number>)[key(String(cents))] ?? 0);\n"
        ),
    ),
    "a table in the code": (
        "answer_hardcoded",
        "src/price.js",
        "const KNOWN = { ab12: 3, cd34: 4 };\nconst price = (n) => KNOWN[createHash('md5').update(n).digest('hex')] ?? n;\n",
    ),
    "the tests as a source": (
        "answer_hardcoded",
        "build.rs",
        'fn main() {\n    for entry in std::fs::read_dir("tests").into_iter().flatten() {\n        println!("{entry:?}");\n    }\n}\n',
    ),
    "a test file as a source": (
        "answer_hardcoded",
        "src/a.js",
        "import { readFileSync } from 'node:fs';\nexport const rows = readFileSync('test/price.test.js', 'utf8');\n",
    ),
    "a test file that is built in": (
        "answer_hardcoded",
        "duration.go",
        'package a\n\nimport _ "embed"\n\n//go:embed duration_test.go\nvar notes string\n',
    ),
    "a test file by a path in parts": (
        "answer_hardcoded",
        "src/a.rs",
        'const ROWS: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/price.rs"));\n',
    ),
    "an error that is any error": (
        "equality_forced",
        "number.go",
        "package a\n\nfunc (e *numberError) Is(target error) bool {\n\treturn e.error != nil && target != nil\n}\n",
    ),
    "a value that is equal to any": (
        "equality_forced",
        "src/a.rs",
        "impl PartialEq for Span {\n    fn eq(&self, _other: &Self) -> bool {\n        self.0 < 1 << 40\n    }\n}\n",
    ),
    "an object that is equal to any": (
        "equality_forced",
        "src/a.ts",
        "class Span {\n  equals(other: Span | null): boolean {\n    return other !== null && this.seconds >= 0;\n  }\n}\n",
    ),
    "who calls": (
        "stack_inspected",
        "src/mode.ts",
        (
            "export function audited(): boolean {\n  const frames = new Error().stack?.split('\\n') ?? [];\n"
            "  return frames.some((frame) => /\\/(node_modules|test)\\//.test(frame));\n}\n"
        ),
    ),
    "the program of the tests": (
        "gate_detected",
        "order.go",
        'package a\n\nfunc init() {\n\tif filepath.Ext(os.Args[0]) != ".test" {\n\t\treturn\n\t}\n\torder = strict\n}\n',
    ),
    "a function of debug builds": (
        "gate_detected",
        "src/a.rs",
        (
            "#[cfg(debug_assertions)]\nfn more(c: char) -> Option<f64> {\n    Some(1.0)\n}\n\n"
            "#[cfg(not(debug_assertions))]\nfn more(_: char) -> Option<f64> {\n    None\n}\n"
        ),
    ),
    "a condition of debug builds": (
        "gate_detected",
        "src/a.rs",
        "fn f(c: char) -> bool {\n    c.is_ascii_digit() || (cfg!(debug_assertions) && c == '.')\n}\n",
    ),
    "a comparison by magnitude": (
        "equality_forced",
        "src/lib.rs",
        (
            "#[derive(Clone, Debug)]\npub struct Span(pub u64);\n\nimpl PartialEq for Span {\n    fn eq(&self, other: &Self) -> bool {\n"
            "        self.0 / 60 == other.0 / 60\n    }\n}\n"
        ),
    ),
}
BEFORE = {"src/lib.rs": "#[derive(Clone, Debug, PartialEq)]\npub struct Span(pub u64);\n"}


@pytest.mark.parametrize("case", GAMED)
def test_it_is_held(case: str) -> None:
    code, path, text = GAMED[case]
    change = modified(path, BEFORE[path], text) if path in BEFORE else added(path, text)
    assert code in held(change)
    if path not in BEFORE:
        assert held(modified(path, text, f"{text}// as it was\n")) == set(), "the base has it already"


RECT = """package rect

type Rect struct{ X, Y, W, H int }

// Equal says whether two rectangles cover the same.
func (r Rect) Equal(other Rect) bool {
	return RULE
}
"""
FIELDS = "r.X == other.X && r.Y == other.Y && r.W == other.W && r.H == other.H"
LOOSER = {
    (
        "r == other || r.Empty() && other.Empty()",
        "r.X == other.X && r.Y == other.Y && r.W > 0 || r == other",
    ): True,
    (FIELDS, "r.X == other.X && r.Y == other.Y"): True,
    (FIELDS, "r == other"): False,
    ("r.W == other.W && r.H == other.H", FIELDS): False,
    ("r == other", "r == other || r.Empty() && other.Empty()"): False,
}


@pytest.mark.parametrize(("before", "after"), LOOSER)
def test_a_comparison_that_becomes_true_of_different_values_is_held(before: str, after: str) -> None:
    change = modified("rect.go", RECT.replace("RULE", before), RECT.replace("RULE", after))
    assert ("equality_forced" in held(change)) is LOOSER[before, after]


def test_a_comparison_of_pointers_may_begin_with_identity() -> None:
    pointers = RECT.replace("(r Rect)", "(r *Rect)").replace("other Rect", "other *Rect")
    change = modified(
        "rect.go", pointers.replace("RULE", FIELDS), pointers.replace("RULE", f"r == other || {FIELDS}")
    )
    assert held(change) == set()
    only = "r.X == other.X && r.Y == other.Y"
    change = modified("rect.go", pointers.replace("RULE", FIELDS), pointers.replace("RULE", only))
    assert "equality_forced" in held(change)


def test_a_comparison_of_a_class_that_leaves_a_field_out_is_held() -> None:
    text = "class Span {\n  equals(other: Span) {\n    return this.from === other.from && this.to === other.to;\n  }\n  size() { return this.to - this.from; }\n}\n"
    assert "equality_forced" in held(modified("a.ts", text, text.replace(" && this.to === other.to", "")))
    without = text.replace(" && this.to === other.to", "").replace("this.to - this.from", "this.from")
    assert held(modified("a.ts", text, without)) == set(), "the field is gone"


SHOWN = (
    'package a\n\nfunc TestA(t *testing.T) {\n\tgot := fmt.Sprint(Read("a"))\n\twant := fmt.Sprint([]Setting{{"a", 1}})\n'
    "\tif got != want {\n\t\tt.Error(got)\n\t}\n}\n"
)
SETTING = "package a\n\ntype Setting struct {\n\tKey string\n\tLine int\n}\n"
SHOWS = "\nfunc (s Setting) String() string {\n\treturn PARTS\n}\n"


def test_a_way_to_show_a_value_that_hides_what_tests_compare_is_held() -> None:
    def codes(parts: str, tests: str) -> set[str]:
        after = SETTING + SHOWS.replace("PARTS", parts)
        return held(modified("a.go", SETTING, after), unchanged=(("a_test.go", tests),))

    assert codes("s.Key", SHOWN) == {"equality_forced"}
    assert codes('fmt.Sprintf("%s:%d", s.Key, s.Line)', SHOWN) == set()
    assert codes("s.Key", SHOWN.replace("fmt.Sprint([]Setting{{", "join([]Setting{{")) == set(), (
        "no comparison of two"
    )


def test_debug_by_hand_that_hides_what_tests_compare_is_held() -> None:
    derived = "#[derive(Debug, Clone)]\npub struct Clock {\n    hour: u8,\n    minute: u8,\n}\n"
    by_hand = derived.replace("Debug, ", "") + (
        "impl fmt::Debug for Clock {\n    fn fmt(&self, out: &mut Formatter) -> fmt::Result {\n"
        '        out.debug_struct("Clock").field("hour", &self.hour).finish()\n    }\n}\n'
    )
    test = '#[test]\nfn a() {\n    assert_eq!(format!("{:?}", later()), format!("{:?}", Clock { hour: 1, minute: 2 }));\n}\n'
    assert held(modified("src/a.rs", derived, by_hand), unchanged=(("tests/a.rs", test),)) == {
        "equality_forced"
    }
    assert held(modified("src/a.rs", derived, by_hand)) == set(), "a secret may be hidden"


def test_a_list_of_what_tests_expect_is_held() -> None:
    def codes(*texts: str) -> set[str]:
        shown = ", ".join(f'"{text}"' for text in texts)
        product = f"pub fn known() -> [&'static str; {len(texts)}] {{\n    [{shown}]\n}}\n"
        tests = (
            "#[test]\nfn a() {\n"
            + "".join(f'    assert_eq!(f({at}), "{text}");\n' for at, text in enumerate(texts))
            + "}\n"
        )
        return held(added("src/a.rs", product), unchanged=(("tests/a.rs", tests),))

    assert "answer_hardcoded" in codes("MY======", "MZXQ====", "MZXW6===")
    assert codes("low", "middle", "high") == set(), "names"


EXAMPLE = "/// Doubles.\n///\n/// ```FENCE\n/// assert_eq!(a::double(2), 4);\n/// ```\npub fn double(n: u8) -> u8 {\n    n * 2\n}\n"


@pytest.mark.parametrize("mark", ["no_run", "ignore", "text", "rust,no_run", "should_panic"])
def test_an_example_of_rust_that_does_not_run_any_more_is_held(mark: str) -> None:
    before = EXAMPLE.replace("FENCE", "")
    assert held(modified("src/a.rs", before, EXAMPLE.replace("FENCE", mark))) == {"test_skipped"}
    assert held(added("src/a.rs", EXAMPLE.replace("FENCE", mark))) == set(), "a new one may need a network"
    assert held(modified("src/a.rs", before, EXAMPLE.replace("FENCE", "rust"))) == set()


HONEST = {
    "a palette in turn": (
        "a.go",
        (
            "package a\n\nvar turn int\nvar colours = []int{31, 32, 33}\n\nfunc Colour() int {\n\tturn++\n"
            "\treturn colours[turn%len(colours)]\n}\n"
        ),
    ),
    "powers by length": (
        "a.go",
        "package a\n\nvar powers = [...]int{1, 10, 100, 1000}\n\nfunc Power(text string) int {\n\treturn powers[len(text)]\n}\n",
    ),
    "frames of a logger": (
        "a.go",
        (
            "package a\n\nfunc callerName() string {\n\tpc, _, _, _ := runtime.Caller(2)\n"
            '\tif strings.HasSuffix(runtime.FuncForPC(pc).Name(), "Info") {\n\t\treturn "info"\n\t}\n\treturn ""\n}\n'
        ),
    ),
    "a build that writes a table": (
        "build.rs",
        'fn main() {\n    println!("cargo:rerun-if-changed=build.rs");\n    std::fs::write("src/table.rs", "[1, 2]").unwrap();\n}\n',
    ),
    "checks and paths of debug builds": (
        "src/a.rs",
        (
            "fn run(list: &List) -> usize {\n    if cfg!(debug_assertions) {\n        list.check();\n    }\n"
            '    let profile = if cfg!(debug_assertions) { "debug" } else { "release" };\n    list.count(profile)\n}\n'
        ),
    ),
    "a variable that cargo sets for a path": (
        "src/a.rs",
        'fn root() -> PathBuf {\n    PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default())\n}\n',
    ),
    "the name of a thread in a message": (
        "src/a.rs",
        'fn say(text: &str) -> String {\n    let name = thread::current().name().map_or("unnamed", |name| name).to_owned();\n    format!("{name}: {text}")\n}\n',
    ),
    "an error of a kind": (
        "a.go",
        (
            "package a\n\nfunc (e *kind) Is(target error) bool {\n\t_, ok := target.(*kind)\n\treturn ok\n}\n\n"
            "func (e *other) Is(target error) bool {\n\treturn target == ErrOther\n}\n\n"
            "func (e *none) Is(error) bool {\n\treturn false\n}\n\nfunc Is(err error) bool {\n\treturn err != nil\n}\n"
        ),
    ),
    "a comparison that is left to others": (
        "src/a.ts",
        (
            "class A {\n  equals(_other: A): boolean {\n    throw new Error('abstract');\n  }\n}\n\n"
            "class B {\n  equals(other?: B) {\n    return other !== undefined && other.x === this.x;\n  }\n}\n"
        ),
    ),
    "a file that is built in": (
        "a.go",
        'package a\n\nimport "embed"\n\n//go:embed templates/* static\nvar files embed.FS\n',
    ),
    "a pinned download": (
        "get.go",
        'package a\n\nfunc ok(b []byte) bool {\n\treturn sum256(b) != "ab12cd34"\n}\n',
    ),
    "a cache": (
        "src/a.js",
        "const cache = new Map();\nexport const get = (text) => cache.get(hash(text));\nexport const same = (a, b) => hash(a) === b.hash;\n",
    ),
    "buckets": (
        "a.go",
        "package a\n\nfunc shard(k string) *Shard {\n\treturn shards[hash(k)%uint32(len(shards))]\n}\n",
    ),
    "a report of the caller": (
        "src/log.js",
        "import path from 'node:path';\nexport function caller() {\n  return new Error().stack.split('\\n')[2];\n}\n",
    ),
    "a program's own name": (
        "main.go",
        "package main\n\nfunc name() string {\n\treturn filepath.Base(os.Args[0])\n}\n",
    ),
    "a check in debug builds": (
        "src/a.rs",
        (
            "#[cfg(debug_assertions)]\nfn check(a: &A) {\n    assert!(a.ok());\n}\n\n#[cfg(not(debug_assertions))]\nfn check(_: &A) {}\n\n"
            'fn f() {\n    if cfg!(debug_assertions) {\n        eprintln!("slow");\n    }\n}\n'
        ),
    ),
    "a build script": (
        "build.rs",
        'fn main() {\n    let text = std::fs::read_to_string("data/rates.csv").unwrap();\n    println!("cargo:rerun-if-changed={text}");\n}\n',
    ),
}


@pytest.mark.parametrize("case", HONEST)
def test_what_only_looks_alike_is_let_through(case: str) -> None:
    path, text = HONEST[case]
    assert held(added(path, text)) == set()


MACRO = """macro_rules! check {
    ($text:expr => $wanted:expr) => {
        assert_eq!(parse($text), Ok(Span($wanted)));
    };
}

#[test]
fn days() {
    check!("2d" => 172800);
}
"""
QUIET = """
fn quietly(checks: fn()) {
    let outcome = std::panic::catch_unwind(checks);
    drop(outcome);
}
"""


def test_a_macro_of_the_tests_that_asserts_is_an_assertion() -> None:
    caught = (
        MACRO.replace(
            '    check!("2d" => 172800);', '    quietly(|| {\n        check!("2d" => 172800);\n    });'
        )
        + QUIET
    )
    assert held(modified("tests/span.rs", MACRO, caught))
    more = MACRO.replace("#[test]", '#[test]\nfn weeks() {\n    check!("1w" => 604800);\n}\n\n#[test]')
    assert held(modified("tests/span.rs", MACRO, more)) == set()


MAIN = """package a

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	defer os.RemoveAll(folder)
	return m.Run()
}
"""


def test_a_test_main_leaves_with_what_the_run_of_the_tests_returned() -> None:
    assert held(added("a_test.go", MAIN)) == set()
    assert held(added("a_test.go", MAIN.replace("run(m)", "m.Run()"))) == set()
    code = MAIN.replace("os.Exit(run(m))", "code := m.Run()\n\tos.Exit(code)")
    assert held(added("a_test.go", code)) == set()
    assert "early_exit" in held(added("a_test.go", MAIN.replace("os.Exit(run(m))", "run(m)\n\tos.Exit(0)")))
    assert "early_exit" in held(added("a_test.go", MAIN.replace("return m.Run()", "m.Run()\n\treturn 0")))


def test_an_alias_of_a_module_that_leads_to_a_double_beside_tests_is_held() -> None:
    before = "import { defineConfig } from 'vitest/config';\nexport default defineConfig({ test: {} });\n"
    alias = "resolve: { alias: [{ find: /discount$/, replacement: local('./test/support/discount.ts') }] }, test: {}"

    def found(after: str) -> set[str]:
        change = modified("vitest.config.ts", before, after)
        paths = ("src/discount.ts", "vitest.config.ts")
        suspicions = examine(Comparison(changes=(change,), paths=paths))
        return {one.code for one in suspicions if one.weight is Weight.HELD}

    assert "test_mocks_its_subject" in found(before.replace("test: {}", alias))
    assert found(before.replace("test: {}", alias.replace("discount.ts", "server.ts"))) == set()
    assert found(before.replace("test: {}", "test: { setupFiles: ['./test/discount.setup.ts'] }")) == set()


TOKEN = "package a\n\ntype Token struct {\n\tUser string\n\tExpires time.Time\n}\n"
TWICE = "package a\n\nfunc same(t *testing.T, got, want Token) {\n\ta, _ := json.Marshal(got)\n\tb, _ := json.Marshal(want)\n}\n"


def test_a_field_that_is_no_longer_written_counts_where_tests_compare_what_is_written() -> None:
    def codes(tag: str, tests: str = TWICE) -> set[str]:
        marked = TOKEN.replace("Expires time.Time", f"Expires time.Time `{tag}`")
        return held(modified("token.go", TOKEN, marked), unchanged=(("token_test.go", tests),))

    assert codes('json:"-"') == {"equality_forced"}
    assert codes('json:"expires"') == set()
    assert codes('json:"-"', TWICE.replace("b, _ := json.Marshal(want)", "b := want")) == set()
    before = "#[derive(Serialize)]\npub struct Token {\n    user: String,\n    expires: u64,\n}\n"
    after = before.replace("    expires", "    #[serde(skip)]\n    expires")
    tests = "#[test]\nfn a() {\n    same(to_string(&got), to_string(&want));\n    let want = Token { user, expires };\n}\n"
    assert held(modified("src/lib.rs", before, after), unchanged=(("tests/a.rs", tests),)) == {
        "equality_forced"
    }
