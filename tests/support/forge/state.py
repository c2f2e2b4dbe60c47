"""What a forge knows of one repository: accounts, pull requests, reviews, threads, statuses. Every dialect serves this."""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha1

from remand.app.forge.ports import CheckState
from remand.domain.forge import PullState, ReviewState
from remand.domain.instant import Instant, add_seconds
from remand.testing.fakes import START

TOKEN = "token-of-the-tests"


def sha_of(text: str) -> str:
    """A commit's id, the same for the same text."""
    return sha1(text.encode(), usedforsecurity=False).hexdigest()


@dataclass(slots=True, kw_only=True)
class Person:
    """An account. The id stays with it; the login may change hands."""

    id: int
    login: str
    permission: str = "read"
    """`none`, `read`, `triage`, `write`, `maintain` or `admin`."""
    is_bot: bool = False


@dataclass(slots=True, kw_only=True)
class DiscussionComment:
    """Something said in a pull request's discussion."""

    id: int
    author: Person | None
    text: str
    created_at: Instant
    updated_at: Instant


@dataclass(slots=True, kw_only=True)
class LineComment(DiscussionComment):
    """A comment of a review, on a line or on a file."""

    path: str
    line: int | None
    """None when it is about the file, or the line is gone."""
    original_line: int | None
    commit: str
    original_commit: str
    review: int
    reply_to: int | None = None

    @property
    def is_outdated(self) -> bool:
        """True when the line it was about is gone."""
        return self.line is None and self.original_line is not None


@dataclass(slots=True, kw_only=True)
class Thread:
    """A line comment and the replies to it, which are resolved together."""

    id: int
    comments: list[LineComment]
    is_resolved: bool = False


@dataclass(slots=True, kw_only=True)
class StoredReview:
    """A review as it was given."""

    id: int
    author: Person | None
    state: ReviewState
    text: str
    commit: str
    created_at: Instant
    updated_at: Instant
    was: ReviewState
    """What it said before it was dismissed."""
    dismissed_by: Person | None = None
    """None when a push dismissed it."""


@dataclass(slots=True, kw_only=True)
class StoredPull:
    """A pull request."""

    number: int
    head: str
    branch: str
    author: Person | None
    created_at: Instant
    updated_at: Instant
    title: str = ""
    state: PullState = PullState.OPEN
    merged_by: Person | None = None
    merged_at: Instant = ""
    reviews: list[StoredReview] = field(default_factory=list)
    threads: list[Thread] = field(default_factory=list)
    remarks: list[DiscussionComment] = field(default_factory=list)
    paths: tuple[str, ...] = ("src/app.py",)
    """What it changes: line comments of ours are taken there alone."""
    base: str = "main"
    text: str = ""
    is_draft: bool = False
    is_of_a_fork: bool = False
    """Its branch is another repository's."""
    requested: list[Person] = field(default_factory=list)
    """Who was asked to review it."""

    @property
    def comments(self) -> list[LineComment]:
        """Every line comment, oldest first."""
        return sorted((one for thread in self.threads for one in thread.comments), key=lambda one: one.id)


@dataclass(slots=True, kw_only=True)
class StoredIssue:
    """An issue."""

    number: int
    title: str
    text: str
    author: Person | None
    created_at: Instant
    updated_at: Instant
    labels: list[str] = field(default_factory=list)
    is_open: bool = True
    reason: str = ""
    """Why it was closed, where the forge has a word for that."""
    remarks: list[DiscussionComment] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class CommitStatus:
    """A status left at a commit."""

    commit: str
    context: str
    state: CheckState
    text: str


@dataclass(slots=True, kw_only=True)
class NewLineComment:
    """A line comment that is to be part of a review."""

    text: str
    path: str = "src/app.py"
    line: int | None = 1


@dataclass(slots=True, kw_only=True)
class RepositorySettings:
    """How a repository on the forge is set up."""

    has_drafts: bool = True
    methods: tuple[str, ...] = ("merge", "squash", "rebase")
    """How pull requests may be merged."""
    has_failing_check: bool = False
    """A check that is required before a merge does not pass."""
    repository: str = ""
    """A bare git repository, whose branches then are the forge's."""


class ForgeState:
    """One repository on a forge, changed by what people do there. Each deed takes a second."""

    def __init__(self, owner: str = "octo", name: str = "demo") -> None:
        self.owner, self.name = owner, name
        self.token = TOKEN
        self.now: Instant = START
        self.people: dict[int, Person] = {}
        self.pulls: dict[int, StoredPull] = {}
        self.issues: dict[int, StoredIssue] = {}
        self.statuses: list[CommitStatus] = []
        self.settings = RepositorySettings()
        self.tips: dict[str, str] = {}
        """The commits that branches are at."""
        self.merges: list[tuple[int, str]] = []
        """What was merged through the API, and at which commit."""
        self._ids = 1000
        self.viewer = self.person("remand-bot", "write")
        """Whose token it is."""

    def person(self, login: str, permission: str = "read", *, is_bot: bool = False) -> Person:
        """Opens an account."""
        person = Person(id=self._id(), login=login, permission=permission, is_bot=is_bot)
        self.people[person.id] = person
        return person

    def find_person(self, login: str) -> Person | None:
        """Who goes by a login now."""
        return next((one for one in self.people.values() if one.login.casefold() == login.casefold()), None)

    def delete(self, person: Person) -> None:
        """An account goes; what it said stays, by nobody."""
        del self.people[person.id]
        for pull in self.pulls.values():
            pull.author = None if pull.author is person else pull.author
            pull.merged_by = None if pull.merged_by is person else pull.merged_by
            everything: list[StoredReview | DiscussionComment] = [
                *pull.reviews,
                *pull.remarks,
                *pull.comments,
            ]
            for said in everything:
                said.author = None if said.author is person else said.author
        for issue in self.issues.values():
            issue.author = None if issue.author is person else issue.author

    def take_over(self, person: Person, permission: str = "read") -> Person:
        """An account gives up its login and another takes it."""
        login, person.login = person.login, f"{person.login}-formerly"
        return self.person(login, permission)

    def open(self, author: Person, *, head: str = "", branch: str = "") -> StoredPull:
        """Opens a pull request."""
        number, now = self._number(), self._tick()
        name = branch or f"work/{number}"
        self.pulls[number] = pull = StoredPull(
            number=number,
            head=head or sha_of(name),
            branch=name,
            author=author,
            created_at=now,
            updated_at=now,
            title=f"Work {number}",
        )
        return pull

    def report(self, author: Person, title: str, text: str = "", *labels: str) -> StoredIssue:
        """Opens an issue."""
        number, now = self._number(), self._tick()
        self.issues[number] = issue = StoredIssue(
            number=number,
            title=title,
            text=text,
            author=author,
            created_at=now,
            updated_at=now,
            labels=list(labels),
        )
        return issue

    def issue_or_pull(self, number: int) -> StoredPull | StoredIssue:
        """What has this number, which an issue and a pull request never share."""
        return self.pulls.get(number) or self.issues[number]

    def push(self, pull: StoredPull, head: str) -> None:
        """A new head; open threads lose their lines."""
        pull.head, pull.updated_at = head, self._tick()
        for comment in pull.comments:
            comment.line = None

    def review(
        self, pull: StoredPull, author: Person, state: ReviewState, text: str = "", *said: NewLineComment
    ) -> StoredReview:
        """Gives a review of the head, with line comments that belong to it."""
        now = self._tick()
        given = StoredReview(
            id=self._id(),
            author=author,
            state=state,
            text=text,
            commit=pull.head,
            created_at=now,
            updated_at=now,
            was=state,
        )
        pull.reviews.append(given)
        for one in said:
            pull.threads.append(Thread(id=self._id(), comments=[self._comment(pull, given, one)]))
        pull.updated_at = now
        return given

    def reply(self, pull: StoredPull, thread: Thread, author: Person, text: str) -> LineComment:
        """Answers in a thread, which makes a review of its own."""
        first = thread.comments[0]
        given = self.review(pull, author, ReviewState.COMMENTED)
        comment = self._comment(pull, given, NewLineComment(text=text, path=first.path, line=first.line))
        comment.reply_to, comment.original_line = first.id, first.original_line
        thread.comments.append(comment)
        return comment

    def resolve(self, thread: Thread, *, is_resolved: bool = True) -> None:
        """Settles a thread; forges do not call the pull request updated for it."""
        self._tick()
        thread.is_resolved = is_resolved

    def dismiss(self, pull: StoredPull, given: StoredReview, by: Person | None = None) -> None:
        """A review does not count any more, by somebody's word or by a push."""
        given.dismissed_by = by
        given.was, given.state = given.state, ReviewState.DISMISSED
        given.updated_at = pull.updated_at = self._tick()

    def edit(self, said: StoredReview | DiscussionComment, text: str) -> None:
        """What was said is changed; forges do not always call the pull request updated for it."""
        said.text, said.updated_at = text, self._tick()

    def rebind(self, given: StoredReview, commit: str) -> None:
        """The forge binds a review to another commit, as happens after a forced push."""
        given.commit = commit

    def remark(self, pull: StoredPull | StoredIssue, author: Person, text: str) -> DiscussionComment:
        """Says something in the discussion."""
        now = self._tick()
        said = DiscussionComment(id=self._id(), author=author, text=text, created_at=now, updated_at=now)
        pull.remarks.append(said)
        pull.updated_at = now
        return said

    def merge(self, pull: StoredPull, by: Person) -> None:
        """Merges a pull request."""
        pull.state, pull.merged_by = PullState.MERGED, by
        pull.merged_at = pull.updated_at = self._tick()

    def close(self, pull: StoredPull) -> None:
        """Closes a pull request without a merge."""
        pull.state, pull.updated_at = PullState.CLOSED, self._tick()

    def post(self, posted: CommitStatus) -> None:
        """Leaves a status."""
        self._tick()
        self.statuses.append(posted)

    def _comment(self, pull: StoredPull, given: StoredReview, said: NewLineComment) -> LineComment:
        return LineComment(
            id=self._id(),
            author=given.author,
            text=said.text,
            created_at=given.created_at,
            updated_at=given.created_at,
            path=said.path,
            line=said.line,
            original_line=said.line,
            commit=pull.head,
            original_commit=pull.head,
            review=given.id,
        )

    def _number(self) -> int:
        return len(self.pulls) + len(self.issues) + 1

    def _id(self) -> int:
        self._ids += 1
        return self._ids

    def _tick(self) -> Instant:
        self.now = add_seconds(self.now, 1)
        return self.now
