"""Phrases that tell whether somebody was asked: a person, and not a machine."""

from __future__ import annotations

import re

_MACHINE = (
    r"(?:server|backend|endpoint|api|service|gateway|host|page|site|database|proxy|script|function|method|query|serveur|servidor"
    r"|servizio|serwer|сервер|dienst|datenbank|schnittstelle)s?(?! (?:team|owner|people|group|maintainers?|lead|admins?))"
)
_ANSWER = r"(?:answer|repl|antwort|répon[ds]|respon[ds]|respuest|respost|contest|rispo|odpowied|ответ)\w*"
_REQUEST_TO_MACHINE = re.compile(
    r"(?:^|[\s(])(?:https?://|\.{0,2}/\w)|\b(?-i:GET|POST|PUT|PATCH|DELETE|HEAD|HTTP)\b|\w\(\)|\b[0-9.,]+ ?ms\b|\blocalhost\b"
    r"|\b[\w-]+\.(?:local|internal|com|net|org|io|dev)\b|\b[0-9]{1,3}(?:\.[0-9]{1,3}){3}\b"
    rf"|\b{_ANSWER}(?: \w+){{0,2}} [1-5][0-9]{{2}}\b|\b{_MACHINE}(?: \w+){{0,2}} {_ANSWER}"
    rf"|\b(?:called|requested|contacted|pinged|met|to|from|against) (?:the |our |an? )?(?:\w+ )?{_MACHINE}\b"
    rf"|\b(?:temps|délai|tiempo|tempo|czas|время|времени|code|código|codice|kod|код)(?: de| di| da)? {_ANSWER}"
    r"|\bresponse (?:times?|codes?|body|headers?|size)|服务器|接口|数据库|サーバ|エンドポイント|データベース",
    re.IGNORECASE,
)
_WROTE_TO_SOMEBODY = re.compile(
    r"\b(?:sent|left|opened|filed|put|added|raised|posted)\b(?: \S+){0,6} (?:e?-?mail|message|comment|questions?|blocker|thread|dm|poll)\b"
    r"|\b(?:mail|nachricht|kommentar|fragen?)\b(?: \S+){0,4} (?:geschickt|gesendet|hinterlassen|gestellt)\b"
    r"|\b(?:envoyé|laissé|posé|posté)\b(?: \S+){0,3} (?:mail|courriel|message|commentaire|questions?)\b"
    r"|\b(?:envié|enviado|dejé|dejado|planteé)\b(?: \S+){0,3} (?:correo|mensaje|comentario|preguntas?)\b",
    re.IGNORECASE,
)
_DENIED_ASKING = re.compile(
    r"\b(?:could|should|would|might|can|may|must|will|to|has to|needs to) be (?:asked|consulted|contacted|mailed|messaged)\b"
    r"|\b(?:nobody|no one|no-one|not|never|without|didn'?t|haven'?t|hasn'?t|did not|have not)(?: has| have| had| been| yet| having| anyone| was| were)* (?:ask|consult|contact|mail|request)\w*"
    r"|\b(?:niemand(?:en)?|nicht|ohne)(?: \w+){0,2} (?:gefragt|nachgefragt|nachzufragen|zu fragen)|\b(?:personne|sans|pas)(?: \w+){0,2} (?:demand\w+|interrog\w+)"
    r"|\b(?:nadie|sin|no)(?: \w+){0,2} (?:pregunt\w+|consult\w+)|\b(?:никого|не)(?: \w+)? спр\w+|没有?(?:问|询问)|未(?:问|询问)|聞いていない|質問していない|確認していない",
    re.IGNORECASE,
)


def is_request_to_machine(clause: str) -> bool:
    """True when a clause tells what a program, a server or a file was asked, or how it answered."""
    return _REQUEST_TO_MACHINE.search(clause) is not None


def wrote_to_somebody(text: str) -> bool:
    """True when a text tells of a message, a comment or a question that was sent."""
    return _WROTE_TO_SOMEBODY.search(text) is not None


def is_denied_asking(text: str) -> bool:
    """True when a text says that nobody was asked."""
    return _DENIED_ASKING.search(text) is not None
