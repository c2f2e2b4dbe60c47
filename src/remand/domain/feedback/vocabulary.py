"""The words by which findings are compared: which say nothing, which want something, and which are opposites."""

from __future__ import annotations

SHAPE = "1"
"""The axis on which what something becomes is as telling as what it was."""

_AXES = (
    (
        """add introduce include insert create write restore keep leave need require missing lack want put implement
        document reinstate retain readd bring""",
        """remove delete drop omit eliminate strip discard revert undo unnecessary unneeded redundant superfluous useless
        pointless avoid rid obsolete overkill""",
    ),
    (
        "extract split separate factor hoist pull break decouple",
        "inline merge combine join fold collapse unify",
    ),
    ("enable activate allow permit", "disable deactivate forbid disallow ban prohibit"),
    (
        "increase raise lengthen extend expand bump enlarge longer larger higher bigger",
        "decrease reduce lower shorten shrink shorter smaller",
    ),
    ("expose export publish public", "hide unexport private internal"),
    ("catch swallow suppress", "propagate rethrow bubble"),
    ("use", "avoid"),
)
"""Words that want more of something, each group with the words that want less of it."""
_OPPOSITES = """
tab/space async/sync asynchronous/synchronous public/private single/double mutable/immutable eager/lazy global/local
list/tuple let/const var/const http/https recursion/loop recursive/iterative inheritance/composition json/yaml
uppercase/lowercase camel/snake class/function ascending/descending positional/keyword mock/fake optional/required
static/dynamic callback/promise set/list string/enum absolute/relative
"""
_PLAIN = """
argument assertion block call case check class code comment condition constant docstring error exception field file
function guard import line log logging message method module name null none parameter param property return statement
test type unit value variable whitespace hint annotation blank empty space newline
"""


def words(text: str) -> frozenset[str]:
    """The words of a list."""
    return frozenset(text.split())


def stem(word: str) -> str:
    """A word without its most common endings, so that most of its forms meet."""
    for ending in ("ies", "ing", "ed", "es", "s", "e"):
        if word.endswith(ending) and len(word) - len(ending) >= 3 and not word.endswith("ss"):
            word = word[: -len(ending)] + ("y" if ending == "ies" else "")
            break
    return word[:-1] if len(word) > 3 and word[-1] == word[-2] and word[-1] in "bdgmnprt" else word


EMPTY = words("""
a an and any are as at be been but by can could do does for from had has have here how i if in into is it its let lets
just like may me might more most much my no not of off on one only or our out over please same should so some such than
that the their them then there these they this those to too up us very was we were what when where which while who why
will with within would you your also again still already now really actually maybe think sure instead rather back itself
each every all both thanks thank blocking nit nitpick suggestion optional question must issue don't doesn't isn't can't
won't shouldn't didn't
""")
"""Words that say nothing about what a finding is about."""
NEGATIONS = words("not don't dont never no stop without shouldn't shouldnt needn't cannot doesn't isn't")
COMPLAINTS = words("you was were been got accidentally wrongly mistakenly")
"""Words after which something done is something regretted."""
POLITE = words("please you we should could would can must just also still let's lets better to i'd do")
PREPOSITIONS = words(
    "to for of in from around on with into above below at before after inside when by as per"
)
GENERIC = frozenset(map(stem, _PLAIN.split()))
"""Words that many findings are about: sharing one of them alone says nothing."""
ANTONYMS = frozenset(frozenset(map(stem, pair.split("/"))) for pair in _OPPOSITES.split())
VERBS = frozenset(word for axis in _AXES for group in axis for word in group.split())
VERB_STEMS = frozenset(map(stem, VERBS | words("use prefer make replace switch change")))


def _signs() -> dict[str, tuple[tuple[str, bool], ...]]:
    found: dict[str, tuple[tuple[str, bool], ...]] = {}
    for axis, groups in enumerate(_AXES):
        for group, is_more in zip(groups, (True, False), strict=True):
            for form in {form for word in group.split() for form in (word, stem(word))}:
                found[form] = (*found.get(form, ()), (str(axis), is_more))
    return found


SIGNS = _signs()
"""Of each word that wants something: on which axes, and whether more of it."""
