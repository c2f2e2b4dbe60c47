"""Tests that are gone are found, and those that only moved or went with their subject are not."""

from tests.unit.integrity.changes import deleted, found, held, modified, renamed

CART = """
    from shop import total

    def test_sum():
        assert total([1, 2]) == 3

    def test_tax():
        assert total([100], tax=0.19) == 119
"""
SUM_ONLY = """
    from shop import total

    def test_sum():
        assert total([1, 2]) == 3
"""


def test_a_deleted_test_is_named_with_its_line() -> None:
    (one,) = found(modified("tests/test_cart.py", CART, SUM_ONLY))

    assert one.code == "test_deleted"
    assert (one.path, one.line) == ("tests/test_cart.py", 7)
    assert "`test_tax`" in one.text


def test_a_deleted_file_of_tests_is_one_finding() -> None:
    (one,) = found(deleted("tests/test_cart.py", CART))

    assert one.code == "test_deleted"
    assert "2 tests" in one.text


def test_a_finding_keeps_its_id_wherever_it_moves_and_loses_it_with_its_content() -> None:
    first = found(modified("tests/test_cart.py", CART, SUM_ONLY))
    moved = found(modified("tests/test_cart.py", "\n\n\n" + CART, "\n\n\n" + SUM_ONLY))
    both = found(modified("tests/test_cart.py", CART, "from shop import total\n"))

    assert first[0].line != moved[0].line
    assert first[0].id == moved[0].id
    assert first[0].id != both[0].id


def test_a_renamed_test_with_the_same_body_is_no_finding() -> None:
    after = CART.replace("test_tax", "test_tax_is_added")

    assert held(modified("tests/test_cart.py", CART, after)) == set()


def test_a_test_that_moved_to_another_file_is_no_finding() -> None:
    other = "from shop import total\n\ndef test_tax():\n    assert total([100], tax=0.19) == 119\n"
    changes = modified("tests/test_cart.py", CART, SUM_ONLY), modified("tests/test_tax.py", "", other)

    assert held(*changes) == set()


def test_a_test_goes_with_what_it_tested() -> None:
    product = modified(
        "src/shop.py", "def total(x): ...\ndef gross(x):\n    return x * 2\n", "def total(x): ...\n"
    )
    tests = modified(
        "tests/test_shop.py",
        "def test_gross():\n    assert gross(2) == 4\ndef test_total():\n    assert total(1) == 1\n",
        "def test_total():\n    assert total(1) == 1\n",
    )

    assert held(product, tests) == set()


def test_a_test_of_something_that_was_only_renamed_may_not_go() -> None:
    body = "(x):\n    total = 0\n    for item in x:\n        total += item.price * item.count\n    return total\n"
    product = modified("src/shop.py", f"def gross{body}", f"def brutto{body}")
    tests = modified(
        "tests/test_shop.py",
        "def test_gross():\n    assert gross(cart) == 4\ndef test_a():\n    assert a() == 5\n",
        "def test_a():\n    assert a() == 5\n",
    )

    assert held(product, tests) == {"test_deleted"}


def test_tests_that_a_table_takes_over_are_no_finding() -> None:
    table = """
        from shop import total

        @pytest.mark.parametrize(("prices", "tax", "sum"), [([1, 2], 0, 3), ([100], 0.19, 119), ([], 0, 0)])
        def test_total(prices, tax, sum):
            assert total(prices, tax=tax) == sum
    """

    assert held(modified("tests/test_cart.py", CART, table)) == set()


LOOP = """
func TestNAME(t *testing.T) {
	for text, want := range map[string]int{ROWS} {
		if got := Parse(text); got != want {
			t.Errorf("Parse(%q) = %d, want %d", text, got, want)
		}
	}
}
"""


def test_tables_of_go_that_become_one_table_are_no_finding() -> None:
    one = LOOP.replace("NAME", "Sums").replace("ROWS", '"VIII": 8, "CCC": 300')
    other = LOOP.replace("NAME", "Subtracts").replace("ROWS", '"IV": 4, "XC": 90')
    joint = LOOP.replace("NAME", "Parse").replace("ROWS", '"VIII": 8, "CCC": 300, "IV": 4, "XC": 90')
    product = modified("roman.go", "package roman\n", "package roman\n\nvar x = 1\n")
    before = f"package roman\n{one}{other}"
    assert held(product, modified("roman_test.go", before, f"package roman\n{joint}")) == set()
    fewer = joint.replace(', "XC": 90', "")
    assert "test_deleted" in held(product, modified("roman_test.go", before, f"package roman\n{fewer}"))


def test_a_test_under_a_name_no_runner_looks_for_is_a_finding() -> None:
    assert held(modified("tests/test_cart.py", CART, CART.replace("test_tax", "tax_test"))) == {
        "test_uncollected"
    }


def test_a_file_of_tests_that_moves_out_of_sight_is_a_finding() -> None:
    assert held(renamed("tests/test_cart.py", "tests/cart_cases.py", CART)) == {"test_uncollected"}
    assert held(renamed("tests/test_cart.py", "attic/test_cart.py", CART)) == {"test_uncollected"}


def test_a_file_of_tests_that_moves_among_tests_is_none() -> None:
    assert held(renamed("tests/test_cart.py", "tests/shop/test_cart.py", CART)) == set()


def test_a_class_that_pytest_does_not_collect_loses_its_tests() -> None:
    before = "class TestCart:\n    def test_a(self):\n        assert f(3) == 9\n"
    with_init = before.replace(
        ":\n    def test", ":\n    def __init__(self):\n        self.x = 1\n    def test", 1
    )

    assert held(modified("tests/test_a.py", before, with_init)) == {"test_uncollected"}
    assert held(modified("tests/test_a.py", before, before.replace("TestCart", "Cart"))) == {
        "test_uncollected"
    }


def test_a_class_is_collected_where_collected_classes_inherit_from_it() -> None:
    before = "class TestCart:\n    def test_a(self):\n        assert f(3) == 9\n"
    after = (
        "class Contract:\n    def test_a(self):\n        assert f(3) == 9\n"
        "class TestCart(Contract):\n    pass\n"
    )

    assert held(modified("tests/test_a.py", before, after)) == set()


def test_a_test_of_a_script_is_known_by_the_groups_it_stands_in() -> None:
    before = "describe('a', () => { it('x', () => { expect(f(1)).toBe(3); }); it('y', () => { expect(f(2)).toBe(4); }); });"
    after = "describe('a', () => { it('x', () => { expect(f(1)).toBe(3); }); });"
    (one,) = found(modified("test/a.test.js", before, after))

    assert one.code == "test_deleted"
    assert "`a › y`" in one.text


def test_tests_of_rust_go_java_and_ruby_are_counted_too() -> None:
    rust = "#[cfg(test)] mod t { #[test] fn a() { assert_eq!(f(3), 4); } #[test] fn b() { assert_eq!(f(4), 5); } }"
    go = 'func TestA(t *testing.T) { if f(3) != 4 { t.Error("x") } }\nfunc TestB(t *testing.T) { if f(4) != 5 { t.Error("y") } }'
    java = (
        "class ATest { @Test void a() { assertEquals(4, f(3)); } @Test void b() { assertEquals(5, f(4)); } }"
    )
    ruby = "it 'a' do\n  expect(f(3)).to eq(4)\nend\nit 'b' do\n  expect(f(4)).to eq(5)\nend\n"

    assert "test_deleted" in held(
        modified("src/a.rs", rust, rust.replace("#[test] fn b() { assert_eq!(f(4), 5); }", ""))
    )
    assert "test_deleted" in held(modified("a_test.go", go, go.partition("\n")[0]))
    assert "test_deleted" in held(
        modified(
            "src/test/java/ATest.java", java, java.replace("@Test void b() { assertEquals(5, f(4)); }", "")
        )
    )
    assert "test_deleted" in held(
        modified("spec/a_spec.rb", ruby, "".join(ruby.splitlines(keepends=True)[:3]))
    )
