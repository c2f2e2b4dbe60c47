"""What the interleavings of reviews and merges have found once, each as short as it goes."""

import pytest

from remand.domain.policy import Policy
from tests.properties.review_team import OWNER, TEAMS, Step, Terms
from tests.properties.test_review_interleavings import broken_by

ONE_REVIEWER, LEAD_WORKS_TOO = TEAMS
LATER = 3600.0

FOUND: dict[str, tuple[Terms, list[Step]]] = {
    "nothing is offered to an agent that another ledger has locked out": (
        Terms(ONE_REVIEWER, Policy(), -45.0),
        [Step("reassign", OWNER, "al"), Step("lock out", "Lea", "al", where=1)],
    ),
    "what another ledger offered does not stop the user who mends the task": (
        Terms(ONE_REVIEWER, Policy(escalate_after_reviews=2), LATER),
        [
            Step("claim", "Alice", where=1),
            Step("escalate", OWNER),
            Step("submit", "Alice", "a", where=1),
            Step("reject", "Tess", where=1),
            Step("merge", where=1),
            Step("answer", OWNER, "fix", where=1),
        ],
    ),
    "a lockout on somebody's own word outlives the retraction of a rejection": (
        Terms(ONE_REVIEWER, Policy(), LATER),
        [
            Step("claim", "Alice", where=1),
            Step("submit", "Alice", "a", where=1),
            Step("reject", "Lea", where=1),
            Step("merge"),
            Step("lock out", "Lea", "Alice"),
            Step("retract", "Lea"),
        ],
    ),
    "a lockout for two rejections outlives the retraction of one": (
        Terms(ONE_REVIEWER, Policy(), 0.0),
        [
            Step("pass", what="60", where=1),
            Step("claim", "Alice", where=1),
            Step("claim", "al"),
            Step("submit", "Alice", "t", where=1),
            Step("look", "Lea", where=1),
            Step("submit", "Alice", "a"),
            Step("reject", OWNER),
            Step("pass", what="60"),
            Step("retract", OWNER, "1"),
            Step("reject", "Lea", "forge:1", where=1),
        ],
    ),
    "a review of a forge locks nobody out a second time": (
        Terms(ONE_REVIEWER, Policy(), LATER),
        [
            Step("claim", "al"),
            Step("submit", "Alice", "a-again"),
            Step("reject", OWNER, "forge:1"),
            Step("claim", "Carol", where=1),
            Step("submit", "Carol", "t", where=1),
            Step("merge"),
            Step("look", "Lea"),
            Step("reject", "Lea", "forge:1"),
        ],
    ),
    "code that one ledger rejected is not approved by another": (
        Terms(LEAD_WORKS_TOO, Policy(lockout_after=0, escalate_after_reviews=2), LATER),
        [
            Step("claim", "Bob"),
            Step("again", what="elsewhere"),
            Step("submit", "Bob", "a-again"),
            Step("submit", "Bob", "a", where=1),
            Step("reject", "Lea", "forge:1"),
            Step("approve", "Lea", where=1),
        ],
    ),
    "a rejection counts though another ledger has asked the user meanwhile": (
        Terms(ONE_REVIEWER, Policy(), LATER),
        [
            Step("claim", "Alice"),
            Step("submit", "Alice", "a"),
            Step("merge", where=1),
            Step("escalate", "Lea"),
            Step("reject", OWNER, where=1),
        ],
    ),
    "a further review joins its own round, though a merge brought another one since": (
        Terms(ONE_REVIEWER, Policy(), LATER),
        [
            Step("claim", "Alice", where=1),
            Step("claim", "al"),
            Step("submit", "Alice", "a-again", where=1),
            Step("submit", "Alice", "a-moved"),
            Step("reject", "Lea", where=1),
            Step("merge", where=1),
            Step("look", "Tess"),
            Step("reject", "Tess", where=1),
            Step("reject", "Tess"),
        ],
    ),
    "two commits that were handed in under one claim are sent back each for itself": (
        Terms(LEAD_WORKS_TOO, Policy(lockout_after=2), 45.0),
        [
            Step("claim", "al", where=1),
            Step("merge"),
            Step("submit", "Alice", "t"),
            Step("submit", "Alice", "a", where=1),
            Step("reject", "Tess", where=1),
            Step("pass", what="2000"),
            Step("look", "Lea"),
            Step("reject", "Lea"),
            Step("escalate", OWNER, where=1),
        ],
    ),
    "the retraction of one does not put the other under review again": (
        Terms(LEAD_WORKS_TOO, Policy(lockout_after=0), 45.0),
        [
            Step("claim", "al", where=1),
            Step("merge"),
            Step("submit", "Alice", "t"),
            Step("submit", "Alice", "a", where=1),
            Step("reject", "Tess", where=1),
            Step("look", "Lea"),
            Step("reject", "Lea"),
            Step("merge"),
            Step("retract", OWNER, "1"),
        ],
    ),
    "the user who mended a task is not locked out of it": (
        Terms(ONE_REVIEWER, Policy(escalate_after_reviews=2), 0.0),
        [
            Step("escalate", "Lea", where=1),
            Step("answer", OWNER, "fix", where=1),
            Step("submit", OWNER, "a", where=1),
            Step("reject", "Tess", "forge:1", where=1),
            Step("escalate", "Lea", where=1),
            Step("answer", OWNER, "fix", where=1),
        ],
    ),
}


@pytest.mark.parametrize("rule", FOUND)
def test_a_merge_keeps_the_rule_that(rule: str) -> None:
    assert broken_by(*FOUND[rule]) is None
