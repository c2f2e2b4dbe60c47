"""Maps a sentence to a request, a question back, or nothing, by the table of patterns.

Only a whole sentence that names everything it needs, without revoking anything, becomes a request. A sentence that
contains a request is asked back; one that negates or reports a request is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product
from typing import Any

from remand.domain.access.team import USER, Role
from remand.domain.record import Record
from remand.domain.text.words import remove_invisible
from remand.domain.text_commands import patterns as p
from remand.domain.text_commands.sentence import ReferenceKind, Sentence, Vocabulary, parse_sentence

MAX_TEXT = 2000
_MAX_CHOICES = 8
_MAX_VARIANTS = 12
_MAX_TOKENS = 60
"""The most tokens of a request before its reason."""

_EXAMPLES = (
    "Remand did not understand that and did nothing. Examples: Why is NAME locked out? · NAME, review PR #15 · "
    "Reassign issue #42 from NAME to NAME · Escalate issue #42 to me · What is the state of #42?"
)
_IS_SEVERAL = "That is more than one request. Make them one at a time."
_IS_QUESTION = "That sounds like a question, so Remand did nothing."
_IS_CONDITIONAL = "That has a condition, and Remand does not wait for conditions. Repeat it without the condition once it is met."
_IS_UNCLEAR = "Remand understood only part of that sentence and did nothing."
_IS_REVOKED = "The rest of that sentence puts the request in doubt, so Remand did nothing."
_IS_DENIED = "That says what not to do, so Remand did nothing."
_IS_REPORTED = "That reports a request instead of making one, so Remand did nothing."
_IS_QUOTED = "Remand does not run quoted text. Repeat it without quotes if you mean it."
_IS_LOOSE = "That has more than one possible meaning."

_BY_COMMAND = {
    "approve": "remand review approve TASK --reviewer NAME --commit SHA",
    "reject": "remand review reject TASK --reviewer NAME --commit SHA --finding 'path:line: text'",
    "retract": "remand review retract TASK --reviewer NAME --reason TEXT",
    "override": "remand gate override TASK --gate NAME --reason TEXT",
    "accept": "remand gate accept TASK FINDING --reviewer NAME",
    "cancel": "remand task cancel TASK --reason TEXT",
    "reopen": "remand task reopen TASK --reason TEXT",
    "claim": "remand task claim TASK --agent NAME",
    "submit": "remand task submit TASK --agent NAME --commit SHA",
    "answer": "remand inbox answer ID OPTION",
}
"""What plain English never does, and the command for it."""
_SYNONYMS = {
    **dict.fromkeys(("lgtm", "merge", "approved", "ship"), "approve"),
    **dict.fromkeys(("rejected", "lock"), "reject"),
    "close": "cancel",
    "wontfix": "answer",
}
_MISSING = {
    "task": "Name the task.",
    "agent": "Name the agent.",
    "reviewer": "Name the reviewer.",
    "target": "Name the agent that takes over.",
}
_REQUIRED: dict[type[p.TextRequest], tuple[str, ...]] = {
    p.ReviewTextRequest: ("reviewer", "task"),
    p.UnlockTextRequest: ("agent", "task"),
    p.ReassignTextRequest: ("target", "task"),
    p.EscalateTextRequest: ("task",),
    p.StatusTextRequest: ("task",),
    p.AnswerTextRequest: ("task", "option"),
}

_FILLERS = ("please", "oh", "well", "um", "hm", "hey", "ok", "okay", "so")
_REVOCATION = re.compile(
    r"^no (?:[,.—]|wait|not|don't|$)"
    r"|\b(?:never mind|forget (?:it|that)|scratch that|ignore (?:that|this)|make that|would be|i meant?"
    r"|second thoughts?|my mind|not what)\b"
    r"|\b(?:do not|don't) (?:do|want)\b"
)
_TAIL = re.compile(
    rf"(?P<mark>[—:;,.?(] )?"
    rf"(?:(?P<guiding>{'|'.join(map(p.compile_row, p.GUIDING))})|(?P<because>{p.compile_row(p.BECAUSE)}))?"
)
_JOINED_NAMES = re.compile(r"([@#]\d+ (?:, [@#]\d+ )*(?:, )?(?:and|or) [@#]\d+ )")


class _Interpretation(Record, kw_only=True):
    """A pattern's interpretation of a sentence: possible requests, and doubts about them."""

    kind: type[p.TextRequest]
    requests: tuple[p.TextRequest, ...]
    doubt: str
    is_loose: bool


def interpret_text(text: str, vocabulary: Vocabulary) -> p.TextResult:
    """The speaker's request."""
    text = re.sub(r"\r\n?", "\n", text).strip()
    if not text:
        return p.UnknownRequest(message="The text is empty.")
    if len(text) > MAX_TEXT:
        return p.UnknownRequest(message=f"That has {len(text)} characters; at most {MAX_TEXT} are allowed.")
    if remove_invisible(text) != text:
        return p.UnknownRequest(
            message="That contains invisible characters, so Remand did nothing. Type it again."
        )
    sentence = parse_sentence(text, vocabulary)
    interpretations = _read_whole(sentence, vocabulary)
    if not interpretations and any(name in p.ORDINARY_WORDS for name in vocabulary.names):
        # A member may be called Will: the word is tried first as a name, then as a word.
        plain = parse_sentence(text, vocabulary, without=p.ORDINARY_WORDS)
        interpretations = _read_whole(plain, vocabulary)
        sentence = plain if interpretations else sentence
    if not interpretations:
        # Nobody may be asked about under the name Nobody: in a question a capital makes an ordinary word a name.
        interpretations = [
            one
            for one in _read_whole(sentence.with_capital_names(), vocabulary)
            if one.kind in p.QUERY_REQUESTS
        ]
    if not interpretations:
        return _ask_back(sentence, vocabulary)
    requests = _distinct_requests(interpretations)
    doubt = next((interpretation.doubt for interpretation in interpretations if interpretation.doubt), "")
    if len(requests) == 1 and not doubt:
        return requests[0]
    return p.UnclearRequest(message=doubt or _IS_SEVERAL, requests=requests[:_MAX_CHOICES])


def _distinct_requests(interpretations: list[_Interpretation]) -> tuple[p.TextRequest, ...]:
    return tuple(
        dict.fromkeys(request for interpretation in interpretations for request in interpretation.requests)
    )


def _read_whole(sentence: Sentence, vocabulary: Vocabulary) -> list[_Interpretation]:
    """The meaning of the whole sentence: first without a reason, then with the shortest request before one."""
    interpretations = [
        _read_slots(pattern, match.groupdict(), sentence, vocabulary, doubt=_question_doubt(pattern, match))
        for pattern, match in _find_whole(sentence.shape())
    ]
    place = 0
    while not interpretations and (place := place + 1) < min(len(sentence.tokens), _MAX_TOKENS):
        start = _TAIL.match(sentence.shape(place, _MAX_TOKENS))
        matches = _find_whole(sentence.shape(0, place)) if start and start.group() else []
        if start and matches:
            interpretations = _read_with_reason(matches, start, place, sentence, vocabulary)
    firm = [interpretation for interpretation in interpretations if not interpretation.is_loose]
    return firm or [interpretation for interpretation in interpretations if interpretation.requests]


def _read_with_reason(
    matches: list[tuple[p.SentencePattern, re.Match[str]]],
    start: re.Match[str],
    place: int,
    sentence: Sentence,
    vocabulary: Vocabulary,
) -> list[_Interpretation]:
    """Interpretations of a request that ends before a position, where its reason or guidance begins."""
    after = place + start.group().count(" ")
    text = sentence.text_from(after).strip()
    if start["mark"] == "( ":
        text = text.removesuffix(")")
    is_guidance = bool(start["guiding"] and text)
    doubt = _reason_doubt(sentence, after)
    interpretations = []
    for pattern, match in matches:
        if pattern.request in p.QUERY_REQUESTS:
            pattern_doubt = doubt if doubt == _IS_SEVERAL else ""
        elif start["mark"] == "? ":
            continue
        else:
            pattern_doubt = _question_doubt(pattern, match) or doubt
        interpretations.append(
            _read_slots(
                pattern,
                match.groupdict(),
                sentence,
                vocabulary,
                doubt=pattern_doubt,
                reason="" if is_guidance else text or sentence.text_from(place),
                guidance=text if is_guidance else "",
            )
        )
    return interpretations


def _find_whole(shape: str) -> list[tuple[p.SentencePattern, re.Match[str]]]:
    found = (
        (pattern, pattern.whole.fullmatch(text))
        for text in _single_name_variants(shape)
        for pattern in p.PATTERNS
    )
    return [(pattern, match) for pattern, match in found if match is not None]


def _single_name_variants(shape: str) -> list[str]:
    """The sentence once for each name or task joined with `and` or `or`."""
    variants = [shape]
    for joined in _JOINED_NAMES.findall(shape):
        names = re.findall(r"[@#]\d+ ", joined)
        if len({name[0] for name in names}) == 1 and len(variants) * len(names) <= _MAX_VARIANTS:
            variants = [text.replace(joined, name, 1) for text in variants for name in names]
    return variants


def _read_slots(
    pattern: p.SentencePattern,
    slots: dict[str, str],
    sentence: Sentence,
    vocabulary: Vocabulary,
    *,
    doubt: str = "",
    reason: str = "",
    guidance: str = "",
) -> _Interpretation:
    """The requests for a pattern's slots: one for each way to fill them."""
    doubts: list[str] = []
    kind = pattern.request
    known = {
        slot: _find_meanings(slot, shape, sentence, vocabulary, doubts)
        for slot, shape in slots.items()
        if shape
    }
    texts = {"reason": reason, "guidance": guidance}
    if kind is p.AnswerTextRequest:
        options = {"unlock": known.get("agent", ()), "reassign": known.get("target", ())}
        known = {
            "option": tuple(f"{option}:{name}" for option, names in options.items() for name in names),
            **known,
        }
        texts["guidance"] = guidance or reason
    for slot in _REQUIRED.get(kind, ()):
        if slot not in known:
            doubts.insert(0, _MISSING[slot])
            known[slot] = tuple(dict.fromkeys(_find_candidates(slot, known, vocabulary)))
    fields = [field for field in known if field in kind.__struct_fields__]
    texts = {name: text for name, text in texts.items() if name in kind.__struct_fields__}
    requests = [
        kind(**dict(zip(fields, values, strict=True)), **texts)
        for values in product(*(known[field] for field in fields))
    ]
    if "human" in known and {USER, *vocabulary.members_with(Role.USER)}.isdisjoint(known["human"]):
        requests += [
            p.ReassignTextRequest(task=task, target=name) for task in known["task"] for name in known["human"]
        ]
        doubts.append("Escalations go only to the user.")
    if pattern.is_loose:
        doubts.append(_IS_LOOSE)
    doubt = next((text for text in (doubt, *doubts) if text), "")
    return _Interpretation(kind=kind, requests=tuple(requests), doubt=doubt, is_loose=pattern.is_loose)


def _find_meanings(
    slot: str, shape: str, sentence: Sentence, vocabulary: Vocabulary, doubts: list[str]
) -> tuple[Any, ...]:
    """Everything that a slot may name; adds a doubt unless it is exactly one thing."""
    if slot == "option":
        return (shape,)
    if shape in ("i", "me", "myself"):
        return (vocabulary.speaker,)
    token = sentence.tokens[int(shape[1:])]
    text = sentence.text[token.start : token.end]
    if token.reference is not None:
        tasks = vocabulary.tasks.find(token.reference)
        if len(tasks) != 1:
            labels = " or ".join(task.label for task in tasks)
            doubts.append(f"{text} may mean {labels}." if tasks else f"There is no task {text} here.")
        return tasks
    if token.names:
        if len(token.names) > 1:
            doubts.append(f"{text} may mean {' or '.join(token.names)}.")
        return token.names
    similar = vocabulary.similar_names(text)
    if similar:
        doubts.append(f"There is no {text}. Did you mean {' or '.join(similar)}?")
    else:
        everyone = ", ".join(vocabulary.members_with(*Role))
        doubts.append(f"There is no {text} here; the team has {everyone or 'no members yet'}.")
    return similar


def _find_candidates(slot: str, known: dict[str, tuple[Any, ...]], vocabulary: Vocabulary) -> Iterator[Any]:
    """The candidates for a slot that the sentence does not name."""
    tasks = vocabulary.tasks
    locked_out = [name for task in known.get("task", ()) for name in tasks.locked_out_of(task.id)]
    match slot:
        case "task":
            for agent in known.get("agent", ()):
                yield from tasks.locking_out(agent)
        case "agent":
            yield from locked_out
        case "reviewer":
            yield from vocabulary.members_with(Role.LEAD, Role.TESTER)
        case _:
            excluded = {*locked_out, *known.get("source", ())}
            yield from (name for name in vocabulary.members_with(Role.AGENT) if name not in excluded)


def _question_doubt(pattern: p.SentencePattern, match: re.Match[str]) -> str:
    """A command phrased as a question is obeyed only if it is a polite request: `can you …?`."""
    words = match.group().split()
    is_doubtful = pattern.request not in p.QUERY_REQUESTS and "?" in words and "you" not in words
    return _IS_QUESTION if is_doubtful else ""


def _reason_doubt(sentence: Sentence, start: int) -> str:
    """The doubt about the rest of a sentence as its reason."""
    if _find_parts([sentence.shape(start)]):
        return _IS_SEVERAL
    words = sentence.words[start:]
    spoken = [word for word in words if word[0].isalpha() or word in "@#"]
    if not spoken:
        return _IS_QUESTION if "?" in words else ""
    first = next((place for place, word in enumerate(spoken) if word not in _FILLERS), 0)
    is_revoked = (
        spoken[first] in p.TURNS
        or spoken[-1] in p.NEGATIONS
        or (spoken[first] == "@" and not p.SPEECH.isdisjoint(spoken[first + 1 : first + 2]))
        or not any(word[0].isalpha() for word in spoken)
        or not p.LIMITS.isdisjoint(words)
        or "?" in words
        or _REVOCATION.search(" ".join(words)) is not None
    )
    return _IS_REVOKED if is_revoked else ""


def _find_parts(variants: list[str]) -> list[tuple[p.SentencePattern, dict[str, str]]]:
    """The patterns found within a sentence with their slots; nested ones are dropped."""
    spans = [
        (match.start(), match.end(), pattern, match.groupdict())
        for variant in variants
        for pattern in p.PATTERNS
        for match in pattern.part.finditer(variant)
        if any(match.groupdict().values())
    ]
    return [
        (pattern, slots)
        for start, end, pattern, slots in spans
        if not any(s <= start and end <= e and (s, e) != (start, end) for s, e, _, _ in spans)
    ]


def _ask_back(sentence: Sentence, vocabulary: Vocabulary) -> p.TextResult:
    """The reply to a sentence that as a whole is not a request."""
    parts = _find_parts(_single_name_variants(sentence.shape()))
    requests = _distinct_requests(
        [_read_slots(pattern, slots, sentence, vocabulary) for pattern, slots in parts]
    )
    words = frozenset(sentence.words)
    verb = next((word for word in sentence.words if _SYNONYMS.get(word, word) in _BY_COMMAND), "")
    command = _BY_COMMAND[_SYNONYMS.get(verb, verb)] if verb else ""
    needs_command = f"“{verb}” is not available in plain English." if verb else ""
    if not requests:
        references = (token.reference for token in sentence.tokens)
        is_quoted = any(
            reference is not None and reference.kind is ReferenceKind.TITLE for reference in references
        )
        message = needs_command or (_IS_QUOTED if is_quoted else _EXAMPLES)
        return p.UnknownRequest(message=message, command=command)
    if not all(isinstance(request, p.QUERY_REQUESTS) for request in requests):
        if words & p.SPEECH:
            return p.UnknownRequest(message=_IS_REPORTED)
        if words & p.NEGATIONS:
            return p.UnknownRequest(message=_IS_DENIED)
    if "?" in words:
        message = _IS_QUESTION
    elif words & p.CONDITIONS:
        message = _IS_CONDITIONAL
    else:
        message = _IS_SEVERAL if len(requests) > 1 else _IS_UNCLEAR
    return p.UnclearRequest(
        message=f"{message} {needs_command}".strip(), command=command, requests=requests[:_MAX_CHOICES]
    )
